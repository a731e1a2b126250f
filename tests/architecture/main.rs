//! Checks the architecture: which module may name which, that the time limits of other programs fit around ours, and that links in
//! documents lead somewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Command, FromArgMatches};
use handbill::app::drain::CLOSING_GRACE;
use handbill::cli::operators::PROBE_TIMEOUT;
use handbill::http::listener::HEAD_TIMEOUT;
use handbill::settings::HttpSettings;
use walkdir::{DirEntry, WalkDir};

/// Each module of the crate and the others that it may name.
const MAY_NAME: &[(&str, &str)] = &[
    ("values", ""),
    ("ports", "values"),
    ("service", "values ports log_throttle"),
    // The instruments of the service are declared beside all others.
    ("telemetry", "values ports service settings log_throttle outbound"),
    // Settings are plain values.
    ("settings", "values ports"),
    ("mcp", "http values service ports telemetry"),
    ("admin", "values http ports service telemetry"),
    // The service passes a store's error on, and a client must learn whether anything was changed.
    ("http", "settings values log_throttle ports service telemetry"),
    ("log_throttle", ""),
    ("app", "values ports service telemetry settings http mcp admin"),
    ("cli", "admin app settings values ports service telemetry outbound http"),
    ("outbound", "values"),
];

const NOT_IN_DOMAIN: &[&str] = &["tokio", "rand", "getrandom", "axum", "hyper", "tracing"];
const STD_NOT_IN_DOMAIN: &[&str] = &["fs", "io", "env", "process", "thread"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files below `folder` with this ending, except what a build makes and what is no document of ours.
fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let is_ours = |entry: &DirEntry| !["target", "node_modules", "seeds"].iter().any(|name| entry.file_name() == *name);
    let all =
        WalkDir::new(root().join(folder)).into_iter().filter_entry(is_ours).map(|entry| entry.unwrap().into_path());
    all.filter(|path| path.extension().is_some_and(|found| found == ending)).collect()
}

struct Source {
    path: PathBuf,
    module: String,
    text: String,
}

fn sources() -> Vec<Source> {
    let of = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        // Tests within a source and comments are left out.
        let code = text.split("mod tests {").next().unwrap().lines();
        let text = code.map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n");
        let path = path.strip_prefix(root()).unwrap().to_owned();
        let module = path.iter().skip_while(|part| *part != "src").nth(1).unwrap().to_str().unwrap();
        let module = module.trim_end_matches(".rs").to_owned();
        Source { path, module, text }
    };
    let all = files("src", "rs").into_iter().chain(files("crates", "rs"));
    all.filter(|path| path.iter().any(|part| part == "src")).map(of).collect()
}

impl Source {
    /// Every two segments of a path that follow each other, also within a group.
    fn names(&self) -> BTreeSet<(&str, &str)> {
        let is_name = |character: char| character.is_alphanumeric() || character == '_';
        let end = |text: &str| text.find(|character| !is_name(character)).unwrap_or(text.len());
        let mut names = BTreeSet::new();
        for (at, _) in self.text.match_indices("::") {
            let (before, rest) = (&self.text[..at], &self.text[at + 2..]);
            let first = &before[before.trim_end_matches(is_name).len()..];
            let group = rest.strip_prefix('{').and_then(|group| group.split('}').next());
            for second in group.unwrap_or(rest).split(if group.is_some() { ',' } else { '\0' }) {
                let second = second.trim_start();
                names.insert((first, &second[..end(second)]));
            }
        }
        names
    }
}

#[test]
fn a_module_names_only_those_that_it_may() {
    let mut faults = Vec::new();
    for source in sources().iter().filter(|source| !["main", "lib"].contains(&&*source.module)) {
        if !(source.path.starts_with("src") || source.path.starts_with("crates/pages")) {
            continue;
        }
        let row = MAY_NAME.iter().find(|(name, _)| *name == source.module);
        let (_, may) = row.unwrap_or_else(|| panic!("{} is not in the table", source.module));
        // `settings` makes their settings, `telemetry` tests its spans with them, and `migrate` works on the cluster itself.
        let may_name_backends = ["app", "settings", "telemetry", "cli"].contains(&&*source.module);
        for (first, second) in source.names() {
            let is_ours = first == "crate" || first == "handbill_pages";
            let is_foreign = is_ours && second != source.module && !may.split(' ').any(|name| name == second);
            let is_backend = first.starts_with("handbill_store_") || first == "handbill_rate_limit";
            let is_client = first == "handbill_client" && source.module != "cli";
            if is_foreign || is_client || is_backend && !may_name_backends {
                faults.push(format!("{} names {first}::{second}", source.path.display()));
            }
        }
    }
    assert_eq!(faults, Vec::<String>::new());
}

#[test]
fn values_have_no_io_no_clock_no_randomness_and_no_async() {
    let is_values = |source: &&Source| source.module == "values" || source.path.starts_with("crates/markdown");
    for source in sources().iter().filter(is_values) {
        let path = source.path.display();
        assert!(!source.text.contains("async fn"), "{path} is async");
        for (first, second) in source.names() {
            let is_std = first == "std" && STD_NOT_IN_DOMAIN.contains(&second);
            let is_clock = first.ends_with("Time") && second.starts_with("now") || first == "Instant";
            assert!(!is_std && !is_clock && !NOT_IN_DOMAIN.contains(&first), "{path} names {first}::{second}");
        }
    }
}

/// The targets of the links and images in `document` that lead to files of this repository.
fn links(document: &str) -> impl Iterator<Item = &str> {
    let prose = document.split('`').step_by(2);
    let targets = prose.flat_map(|text| text.split("](").skip(1)).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target).filter(|target| !target.contains(':') && !target.starts_with('/'))
}

/// The anchors of a document's headings, as GitHub makes them.
fn anchors(document: &str) -> Vec<String> {
    let headings =
        document.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |letter: &char| letter.is_alphanumeric() || ['-', '_', ' '].contains(letter);
    headings.map(|heading| heading.chars().filter(kept).collect::<String>().to_lowercase().replace(' ', "-")).collect()
}

#[test]
fn every_link_of_a_document_leads_to_a_file_and_a_heading() {
    let (mut found, mut broken) = (0, Vec::new());
    for document in files("", "md") {
        let text = fs::read_to_string(&document).unwrap();
        for link in links(&text) {
            found += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { document.clone() } else { document.with_file_name(path) };
            let has_anchor =
                || fs::read_to_string(&target).is_ok_and(|text| anchors(&text).contains(&anchor.to_owned()));
            if !target.exists() || !(anchor.is_empty() || has_anchor()) {
                broken.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(found > 100, "links were found: {found}");
    assert_eq!(broken, Vec::<String>::new());
}

/// The time behind `key` in a file that is not Rust: `timeout client 60s`, `delaySeconds: 0`.
fn time_in(path: &str, key: &str) -> Duration {
    let file = fs::read_to_string(root().join(path)).unwrap();
    let (_, rest) = file.split_once(key).unwrap_or_else(|| panic!("{path} has no {key}"));
    let value = rest.trim_start().split([' ', '"', ';', '\n']).next().unwrap();
    value.parse().map_or_else(|_| humantime::parse_duration(value).expect(key), Duration::from_secs)
}

#[test]
fn the_time_limits_around_the_program_fit_around_its_own() {
    let defaults = HttpSettings::augment_args(Command::new("handbill")).get_matches_from(["handbill"]);
    let drain = HttpSettings::from_arg_matches(&defaults).unwrap().drain_timeout;
    let killed = "`SIGKILL` cuts off nothing that would have finished";
    for (why, shorter, longer) in [
        ("the proxy is the one that closes", time_in("deploy/edge/nginx.conf", "keepalive_timeout "), HEAD_TIMEOUT),
        (killed, drain + CLOSING_GRACE, time_in("deploy/compose.yaml", "stop_grace_period: ")),
        // What the chart adds to the times of a drain.
        (killed, CLOSING_GRACE, time_in("helm/handbill/templates/_settings.tpl", "$seconds := ")),
        ("the command reports the failure itself", PROBE_TIMEOUT, time_in("deploy/Dockerfile", "--timeout=")),
    ] {
        assert!(shorter < longer, "{why}: {shorter:?} < {longer:?}");
    }
}
