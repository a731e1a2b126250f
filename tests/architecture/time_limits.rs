//! Each time limit fits into the next, for the reason beside it. Change a value only together with its neighbours here.
//!
//! Values are read from the sources, so that constants need not be public for this test. `docs/internals/architecture.md`
//! shows how the limits of a request nest.

use std::fs;
use std::path::Path;
use std::time::Duration;

const SERVER: &str = "crates/front/src/limits.rs";
const CQL: &str = "crates/store-cql/src/session.rs";
const LWT: &str = "crates/store-cql/src/lwt.rs";
const LEASE: &str = "crates/store-cql/src/migrate/lease.rs";
const FENCE: &str = "crates/store-cql/src/fence/mod.rs";
const FENCE_LEASE: &str = "crates/store-cql/src/fence/lease.rs";
const REDIS: &str = "crates/limiter/src/settings.rs";
const RENDERING: &str = "src/backends/rendering/mod.rs";
const PURGES: &str = "src/backends/purging/mod.rs";
const DEADLINE_OF_DRAIN: &str = "crates/front/src/drain/deadline.rs";

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

/// Fails unless the first time of each pair is shorter than the second.
fn shorter(pairs: &[(&str, Duration, Duration)]) {
    for (reason, shorter, longer) in pairs {
        assert!(shorter < longer, "{reason}: {shorter:?} < {longer:?}");
    }
}

fn deadline() -> Duration {
    limit("crates/core/src/service/mod.rs", "DEADLINE")
}

fn store() -> Duration {
    limit("crates/core/src/service/store_budget.rs", "STORE_BUDGET")
}

fn drain_timeout() -> Duration {
    setting("src/config/http.rs", "HANDBILL_DRAIN_TIMEOUT")
}

#[test]
fn every_time_limit_of_a_connection_fits_into_the_next() {
    let [head, body, idle, write, answer] = ["head", "body", "idle", "write", "answer"].map(|name| limit(SERVER, name));
    let connecting = limit("src/outbound.rs", "CONNECT_TIMEOUT");
    let request = limit("src/client/api.rs", "REQUEST_TIMEOUT");
    let stalled = limit("crates/front/src/shares.rs", "STALLED");
    shorter(&[
        ("a head is smaller than a body", head, body),
        ("a client that reads just enough in each interval has a bound too", write, answer),
        // Limits shrink to an eighth as a budget fills.
        (
            "a connection without progress gives way before its own limit ends it, even a shortened one",
            stalled,
            head / 8,
        ),
        // A client that stalls at a stop gets a third of the drain.
        ("a connection without progress gives way before the drain drops it", stalled, drain_timeout() / 3),
        ("a command hears whether its page was stored", body + deadline(), request),
        ("a command hears whether its page was stored", connecting, request),
        ("common load balancers close after 60 s", Duration::from_mins(1), idle),
    ]);
    assert_eq!(limit("src/api/request/body.rs", "BODY_TIME"), body, "both are the same promise: 408 after 30 s");
}

#[test]
fn every_time_limit_of_the_service_fits_into_the_next() {
    let redis_call = setting("src/config/limits.rs", "HANDBILL_REDIS_TIMEOUT");
    let longest_redis_call = Duration::from_secs(2);
    let purge = limit(PURGES, "WRITE_AND_PURGE");
    let waits_before = |path, name| limit(path, name) + store();
    shorter(&[
        (
            "an update that lost a race still has time to start over",
            waits_before("crates/core/src/service/mod.rs", "LONGEST_JITTER"),
            deadline(),
        ),
        ("a create waits for one call to Redis, and then for the store", redis_call + store(), deadline()),
        ("a create waits for one call to Redis, and then for the store", longest_redis_call + store(), deadline()),
        ("every request that has arrived can finish", deadline(), drain_timeout()),
        ("the store answers first", limit("crates/store-redb/src/store.rs", "PERMIT_TIMEOUT"), store()),
        (
            "a large page waits between two lookups, which share one budget",
            waits_before("crates/core/src/service/read_budget.rs", "PERMIT_TIMEOUT"),
            deadline(),
        ),
        (
            "a writer whose turn comes last still has time for its write",
            waits_before("crates/core/src/service/write_queues.rs", "TURN_TIMEOUT"),
            deadline(),
        ),
        (
            "the store still has its time after a rendering has waited for its turn",
            waits_before(RENDERING, "TURN_TIMEOUT"),
            deadline(),
        ),
        ("a rendering that is only slow costs no thread", deadline(), limit(RENDERING, "HUNG_AFTER")),
        ("a purge is part of the write that it follows", limit(PURGES, "PURGE_WAIT"), purge),
        ("the service hears that the write was made", purge, store()),
    ]);
}

#[test]
fn every_time_limit_of_the_cluster_fits_into_the_next() {
    let [operation, attempt, permit] = ["operation", "attempt", "permit"].map(|name| limit(CQL, name));
    let [keepalive, connect] = ["KEEPALIVE", "CONNECT_TIMEOUT"].map(|name| limit(CQL, name));
    let second_read = limit(CQL, "SECOND_READ_AFTER");
    let to_read_back = operation.saturating_sub(permit + attempt);
    let silent = limit("crates/store-cql/src/bulkhead.rs", "SILENT_AFTER");
    shorter(&[
        ("the store answers first: only it knows whether anything was changed", operation, store()),
        (
            "a lookup behind a hung read has its own whole operation",
            limit("src/backends/circuit_breaker.rs", "SILENT_AFTER") + operation,
            store(),
        ),
        ("a read that the second node answers is not silent", second_read, silent),
        ("a silent read is noticed before it ends", silent, operation),
        ("the rest of an operation is for reading the outcome back", permit + attempt, operation),
        ("the rest of an operation is for reading the outcome back", limit(LWT, "SHORTEST_ATTEMPT"), to_read_back),
        ("a pause leaves time for the repeated write", limit(LWT, "LONGEST_PAUSE"), to_read_back),
        ("a hung node is given up within the operation that met it", second_read, 2 * keepalive),
        ("a hung node is given up within the operation that met it", 2 * keepalive, operation),
        ("a connection to another node is still of use", connect, operation),
        ("operations on pages have shorter limits of their own", operation, limit(CQL, "REQUEST_TIMEOUT")),
    ]);
    assert!(operation + limit(CQL, "IN_TIME") <= store(), "a request's first call has the whole time of an operation");
    assert!(limit(LWT, "FIRST_PAUSE") <= limit(LWT, "LONGEST_PAUSE"), "pauses grow");
}

#[test]
fn every_time_limit_of_locks_and_probes_fits_into_the_next() {
    let [heartbeat, lock, max_wait] = ["heartbeat", "lease", "max_wait"].map(|name| limit(LEASE, name));
    let [lease, late_writes] = ["LEASE", "LATE_WRITES"].map(|name| limit(FENCE_LEASE, name));
    let reading = limit(FENCE, "READ_INTERVAL") + limit(FENCE, "READ_TIMEOUT");
    let [connecting, probes] = ["CONNECT_TIMEOUT", "PROBE_INTERVAL"].map(|name| limit(REDIS, name));
    shorter(&[
        ("the wait is made of such pauses", limit(CQL, "RETRY_INTERVAL"), limit("src/config/store.rs", "SCHEMA_WAIT")),
        ("a holder with a few lost answers keeps the lock", heartbeat + 3 * limit(LEASE, "STATEMENT_PAUSE"), lock),
        ("a waiting process can take over from one that died", lock, max_wait),
        ("a read or two that fail do not stop a replica from writing", 2 * reading, lease),
        ("`failover` waits until what was sent within a lease is done", limit(CQL, "attempt"), late_writes),
        ("`failover` waits until what was sent within a lease is done", late_writes, lease),
        (
            "connecting goes on after its first caller has given up",
            setting("src/config/limits.rs", "HANDBILL_REDIS_TIMEOUT"),
            connecting,
        ),
    ]);
    assert!(probes <= connecting, "a probe may take as long as connecting does");
}

#[test]
fn every_time_limit_of_the_end_fits_into_the_next() {
    let [accepting, first_request] =
        ["DRAIN_ACCEPT_GRACE", "FIRST_REQUEST_GRACE"].map(|name| limit("crates/front/src/connection.rs", name));
    let [closing, second_signal] = ["CLOSING_GRACE", "SECOND_SIGNAL_GRACE"].map(|name| limit(DEADLINE_OF_DRAIN, name));
    shorter(&[
        ("a client that does nothing does not decide how long a stop takes", accepting, first_request),
        ("a client that does nothing does not decide how long a stop takes", first_request, drain_timeout()),
        ("the last lines belong to the end", limit("src/app/mod.rs", "LOG_FLUSH_TIME"), closing),
    ]);
    assert!(second_signal <= closing, "a second signal means to hurry");
}

#[test]
fn the_time_limits_of_what_surrounds_the_program_fit_around_its_own() {
    const BALANCER: &str = "deploy/haproxy.cfg";
    const COMPOSE: &str = "deploy/compose.yaml";
    const IMAGE: &str = "deploy/Dockerfile";
    const CHART: &str = "helm/handbill/values.yaml";
    let balancer_client = foreign(BALANCER, "timeout client ");
    let closing = limit(DEADLINE_OF_DRAIN, "CLOSING_GRACE");
    assert_eq!(
        foreign(BALANCER, "timeout http-request "),
        limit(SERVER, "head"),
        "a client gets the same time with and without a balancer"
    );
    let chart_drain = ["preStopSeconds: ", "delaySeconds: ", "timeoutSeconds: "].map(|key| foreign(CHART, key));
    shorter(&[
        ("Handbill answers 408 before the balancer closes", limit(SERVER, "body"), balancer_client),
        ("the balancer is the one that closes", balancer_client, limit(SERVER, "idle")),
        ("the balancer is the one that closes", foreign(BALANCER, "timeout http-keep-alive "), limit(SERVER, "idle")),
        (
            "the replica answers before the balancer gives up: only it knows what happened",
            deadline(),
            foreign(BALANCER, "timeout server "),
        ),
        (
            "`SIGKILL` cuts off nothing that would have finished",
            foreign(COMPOSE, "HANDBILL_DRAIN_DELAY: ") + drain_timeout() + closing,
            foreign(COMPOSE, "stop_grace_period: "),
        ),
        // The chart adds up its three drain settings, and 5 s.
        (
            "`SIGKILL` cuts off nothing that would have finished",
            chart_drain.iter().sum::<Duration>() + closing,
            chart_drain.iter().sum::<Duration>() + Duration::from_secs(5),
        ),
        (
            "the Job starts `migrate` again after it has given up",
            limit("src/config/store.rs", "SCHEMA_WAIT"),
            foreign(CHART, "activeDeadlineSeconds: "),
        ),
        (
            "the balancer stops sending before the listener stops",
            foreign(BALANCER, " inter "),
            foreign(COMPOSE, "HANDBILL_DRAIN_DELAY: "),
        ),
        (
            "the command reports the failure itself",
            limit("src/operators/commands/healthcheck.rs", "PROBE_TIMEOUT"),
            foreign(IMAGE, "--timeout="),
        ),
        ("a check ends before the next begins", foreign(IMAGE, "--timeout="), foreign(IMAGE, "--interval=")),
    ]);
}
