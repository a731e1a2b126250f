//! The time limits: the table in `docs/architecture.md` has the values of the code, and each limit fits into the next.
//!
//! Values are read from the sources, so that constants need not be public for this test. The numbers in the comments
//! are those of the list "How they nest".

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use walkdir::WalkDir;

const SERVER: &str = "src/server/limits.rs";
const CQL: &str = "src/backends/cql/session.rs";
const LWT: &str = "src/backends/cql/lwt.rs";
const LEASE: &str = "src/backends/cql/migrate/lease.rs";
const FENCE: &str = "src/backends/cql/fence/mod.rs";
const FENCE_LEASE: &str = "src/backends/cql/fence/lease.rs";
const REDIS: &str = "src/backends/redis/time_limits.rs";
const RENDERING: &str = "src/backends/rendering/mod.rs";
const PURGES: &str = "src/backends/purging/mod.rs";
const DEADLINE_OF_DRAIN: &str = "src/server/drain/deadline.rs";

fn text(path: impl AsRef<Path>) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The value of the constant or field `name` in the source `path`.
fn limit(path: &str, name: &str) -> Duration {
    let source = text(path);
    let constant = format!("const {name}: Duration = ");
    let field = format!("{name}: Duration::");
    let rest = source
        .split_once(&constant)
        .or_else(|| source.match_indices(&field).next().map(|(at, _)| source.split_at(at + name.len() + 2)));
    let (_, rest) = rest.unwrap_or_else(|| panic!("{path} has no {name}"));
    duration(rest).unwrap_or_else(|| panic!("{path}: {name} is not one call of `Duration::from_…`"))
}

/// `Duration::from_…(number)` at the beginning of `source`.
fn duration(source: &str) -> Option<Duration> {
    let (unit, rest) = source.strip_prefix("Duration::from_")?.split_once('(')?;
    let (number, _) = rest.split_once(')')?;
    let number: u64 =
        number.split('*').map(|factor| factor.trim().replace('_', "").parse::<u64>().ok()).product::<Option<u64>>()?;
    Some(match unit {
        "millis" => Duration::from_millis(number),
        "secs" => Duration::from_secs(number),
        "mins" => Duration::from_mins(number),
        "hours" => Duration::from_hours(number),
        _ => return None,
    })
}

/// The default of the setting that the environment variable `name` sets.
fn setting(path: &str, name: &str) -> Duration {
    let source = text(path);
    let line = source.lines().find(|line| line.contains(&format!("\"{name}\""))).expect(name);
    let (_, rest) = line.split_once("default_value = \"").expect(name);
    humantime::parse_duration(rest.split_once('"').expect(name).0).expect(name)
}

/// The time behind `key` in a file of another program: `timeout client 60s`, `stop_grace_period: 25s`, `delaySeconds: 0`.
fn foreign(path: &str, key: &str) -> Duration {
    let file = text(path);
    let (_, rest) = file.split_once(key).unwrap_or_else(|| panic!("{path} has no {key}"));
    let value = rest.split_whitespace().next().expect(key);
    value.parse().map_or_else(|_| humantime::parse_duration(value).expect(key), Duration::from_secs)
}

/// One row of the table: the names in its first column, and its value and source if each is one of a kind.
struct Row {
    names: Vec<String>,
    value: String,
    path: Option<String>,
}

fn rows() -> Vec<Row> {
    let document = text("docs/architecture.md");
    let (_, table) = document.split_once("| limit | value |").expect("the table of time limits");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.filter(|line| !line.starts_with("| **"))
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let quoted = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
            let path = quoted(cells[3]).into_iter().find(|path| path.starts_with("src/") && !path.ends_with('/'));
            Row { names: quoted(cells[1]), value: cells[2].to_owned(), path }
        })
        .collect()
}

/// `2.75 s`, `5 min`: a value that is one number and a unit.
fn plain(value: &str) -> Option<Duration> {
    let (number, unit) = value.split_once(' ')?;
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Some(Duration::from_secs_f64(number.parse::<f64>().ok()? * seconds))
}

#[test]
fn the_table_of_time_limits_has_the_values_of_the_code() {
    let rows = rows();
    assert!(rows.len() >= 47, "the table was found");
    let mut compared = 0;
    for Row { names, value, path } in &rows {
        if let (Some(path), Some(value), [name]) = (path, plain(value), names.as_slice())
            && !name.contains('-')
        {
            let name = name.rsplit("::").next().expect("a name");
            assert_eq!(limit(path, name), value, "{name} in {path}");
            compared += 1;
        }
    }
    assert!(compared >= 30, "{compared} rows were compared");
}

#[test]
fn the_table_of_time_limits_lists_every_constant_of_the_code() {
    let listed: BTreeSet<(String, String)> = rows()
        .into_iter()
        .flat_map(|row| row.names.into_iter().map(move |name| (row.path.clone().unwrap_or_default(), name)))
        .collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut missing = Vec::new();
    for entry in WalkDir::new(root.join("src")).into_iter().map(Result::unwrap) {
        let path: PathBuf = entry.path().strip_prefix(root).unwrap().to_owned();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let source = text(&path);
        let program = source.split("#[cfg(test)]\nmod tests").next().expect("a source");
        for line in program.lines().filter(|line| line.contains(": Duration = Duration::from_")) {
            let name = line.split_once("const ").and_then(|(_, rest)| rest.split_once(':')).expect("a constant").0;
            let path = path.to_str().unwrap().to_owned();
            if !listed.contains(&(path.clone(), name.to_owned())) {
                missing.push(format!("{name} in {path}"));
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn every_time_limit_of_the_program_fits_into_the_next() {
    let [head, body, idle, write, answer] = ["head", "body", "idle", "write", "answer"].map(|name| limit(SERVER, name));
    let [operation, attempt, permit] = ["operation", "attempt", "permit"].map(|name| limit(CQL, name));
    let [keepalive, connect] = ["KEEPALIVE", "CONNECT_TIMEOUT"].map(|name| limit(CQL, name));
    let [heartbeat, lease, max_wait] = ["heartbeat", "lease", "max_wait"].map(|name| limit(LEASE, name));
    let to_read_back = operation.saturating_sub(permit + attempt);
    let deadline = limit("src/service/mod.rs", "DEADLINE");
    let store = limit("src/service/store_budget.rs", "STORE_BUDGET");
    let redis_connect = limit(REDIS, "CONNECT_TIMEOUT");
    let redis_call = setting("src/config/redis.rs", "HANDBILL_REDIS_TIMEOUT");
    let longest_redis_call = Duration::from_secs(2);
    let drain_timeout = setting("src/config/http.rs", "HANDBILL_DRAIN_TIMEOUT");
    let schema_wait = setting("src/config/cql.rs", "HANDBILL_SCHEMA_WAIT");
    let stalled = limit("src/server/ledger.rs", "STALLED");

    let less = [
        (1, head, body),
        (5, write, answer),
        // Limits shrink to an eighth as a budget fills.
        (6, stalled, head / 8),
        // A client that stalls at a stop gets a third of the drain.
        (7, stalled, drain_timeout / 3),
        (8, store + limit("src/service/mod.rs", "LONGEST_JITTER"), deadline),
        (9, redis_call + store, deadline),
        (9, longest_redis_call + store, deadline),
        (10, body + deadline, limit("src/client/api.rs", "REQUEST_TIMEOUT")),
        (10, limit("src/outbound.rs", "CONNECT_TIMEOUT"), limit("src/client/api.rs", "REQUEST_TIMEOUT")),
        (11, deadline, drain_timeout),
        (12, operation, store),
        (13, limit("src/backends/read_schedule.rs", "SILENT_AFTER") + operation, store),
        (14, limit("src/backends/redb/store.rs", "PERMIT_TIMEOUT"), store),
        (15, limit("src/service/large_reads.rs", "PERMIT_TIMEOUT") + store, deadline),
        (33, limit("src/service/write_turns.rs", "TURN_TIMEOUT") + store, deadline),
        (34, limit(CQL, "SECOND_READ_AFTER"), limit("src/backends/cql/bulkhead.rs", "SILENT_AFTER")),
        (34, limit("src/backends/cql/bulkhead.rs", "SILENT_AFTER"), operation),
        (38, limit(RENDERING, "TURN_TIMEOUT") + store, deadline),
        (39, deadline, limit(RENDERING, "HUNG_AFTER")),
        (16, permit + attempt, operation),
        (16, limit(LWT, "SHORTEST_ATTEMPT"), to_read_back),
        (17, limit(LWT, "LONGEST_PAUSE"), to_read_back),
        (18, limit(CQL, "SECOND_READ_AFTER"), 2 * keepalive),
        (18, 2 * keepalive, operation),
        (18, connect, operation),
        (19, operation, limit(CQL, "REQUEST_TIMEOUT")),
        (21, limit(CQL, "RETRY_INTERVAL"), schema_wait),
        (23, heartbeat + 3 * limit(LEASE, "STATEMENT_PAUSE"), lease),
        (24, lease, max_wait),
        (25, redis_call, redis_connect),
        (
            27,
            limit("src/server/connection.rs", "DRAIN_ACCEPT_GRACE"),
            limit("src/server/connection.rs", "FIRST_REQUEST_GRACE"),
        ),
        (27, limit("src/server/connection.rs", "FIRST_REQUEST_GRACE"), drain_timeout),
        (36, 2 * (limit(FENCE, "READ_INTERVAL") + limit(FENCE, "READ_TIMEOUT")), limit(FENCE_LEASE, "LEASE")),
        (37, attempt, limit(FENCE_LEASE, "LATE_WRITES")),
        (37, limit(FENCE_LEASE, "LATE_WRITES"), limit(FENCE_LEASE, "LEASE")),
        (28, limit("src/app/mod.rs", "LOG_FLUSH_TIME"), limit(DEADLINE_OF_DRAIN, "CLOSING_GRACE")),
        (33, limit(PURGES, "PURGE_WAIT"), limit(PURGES, "WRITE_AND_PURGE")),
        (33, limit(PURGES, "WRITE_AND_PURGE"), store),
    ];
    for (number, shorter, longer) in less {
        assert!(shorter < longer, "{number}: {shorter:?} < {longer:?}");
    }
    let at_most = [
        (3, limit("src/api/request/body.rs", "BODY_TIME"), body),
        (3, body, limit("src/api/request/body.rs", "BODY_TIME")),
        (12, operation + limit(CQL, "IN_TIME"), store),
        (17, limit(LWT, "FIRST_PAUSE"), limit(LWT, "LONGEST_PAUSE")),
        (26, limit(REDIS, "PROBE_INTERVAL"), redis_connect),
        (28, limit(DEADLINE_OF_DRAIN, "SECOND_SIGNAL_GRACE"), limit(DEADLINE_OF_DRAIN, "CLOSING_GRACE")),
    ];
    for (number, shorter, longer) in at_most {
        assert!(shorter <= longer, "{number}: {shorter:?} <= {longer:?}");
    }
    assert!(idle > Duration::from_mins(1), "4: common load balancers close after 60 s");
}

#[test]
fn the_time_limits_of_what_surrounds_the_program_fit_around_its_own() {
    const BALANCER: &str = "deploy/haproxy.cfg";
    const COMPOSE: &str = "deploy/compose.yaml";
    const IMAGE: &str = "deploy/Dockerfile";
    const CHART: &str = "helm/handbill/values.yaml";
    let balancer_client = foreign(BALANCER, "timeout client ");
    let drain_timeout = setting("src/config/http.rs", "HANDBILL_DRAIN_TIMEOUT");
    let closing = limit(DEADLINE_OF_DRAIN, "CLOSING_GRACE");
    assert_eq!(foreign(BALANCER, "timeout http-request "), limit(SERVER, "head"), "2");
    let chart_drain = ["preStopSeconds: ", "delaySeconds: ", "timeoutSeconds: "].map(|key| foreign(CHART, key));
    let less = [
        (2, limit(SERVER, "body"), balancer_client),
        (4, balancer_client, limit(SERVER, "idle")),
        (4, foreign(BALANCER, "timeout http-keep-alive "), limit(SERVER, "idle")),
        (8, limit("src/service/mod.rs", "DEADLINE"), foreign(BALANCER, "timeout server ")),
        (
            28,
            foreign(COMPOSE, "HANDBILL_DRAIN_DELAY: ") + drain_timeout + closing,
            foreign(COMPOSE, "stop_grace_period: "),
        ),
        // The chart adds up its three drain settings, and 5 s.
        (
            28,
            chart_drain.iter().sum::<Duration>() + closing,
            chart_drain.iter().sum::<Duration>() + Duration::from_secs(5),
        ),
        (29, setting("src/config/cql.rs", "HANDBILL_SCHEMA_WAIT"), foreign(CHART, "activeDeadlineSeconds: ")),
        (30, foreign(BALANCER, " inter "), foreign(COMPOSE, "HANDBILL_DRAIN_DELAY: ")),
        (31, limit("src/operators/commands/healthcheck.rs", "PROBE_TIMEOUT"), foreign(IMAGE, "--timeout=")),
        (31, foreign(IMAGE, "--timeout="), foreign(IMAGE, "--interval=")),
    ];
    for (number, shorter, longer) in less {
        assert!(shorter < longer, "{number}: {shorter:?} < {longer:?}");
    }
}
