//! The allowed content of `/metrics`: the metrics, labels and values that `docs/monitoring.md` lists, and nothing
//! else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The labels that a metric may have, each with its values.
pub(crate) type Labels = BTreeMap<String, BTreeSet<String>>;

/// Every metric of the document, by its name there.
pub(crate) fn documented() -> BTreeMap<String, Labels> {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/monitoring.md");
    let document = fs::read_to_string(document).expect("it is there");
    let (_, section) = document.split_once("\n## Metrics\n").expect("it has the section");
    let (section, _) = section.split_once("\n## ").expect("another follows");
    let rows = || section.lines().filter(|line| line.starts_with("| `")).map(cells);
    let own = rows().filter(|row| row.len() == 2).map(|row| (quoted(row[0]).remove(0), quoted(row[1])));
    let mut shared: BTreeMap<String, Vec<String>> = own.collect();
    // These values depend on the build.
    shared.insert("version".to_owned(), vec![env!("CARGO_PKG_VERSION").to_owned()]);
    shared.insert("commit".to_owned(), vec![option_env!("GIT_COMMIT").unwrap_or("unknown").to_owned()]);
    let mut metrics = BTreeMap::new();
    for row in rows().filter(|row| row.len() == 4) {
        let mut labels = Labels::new();
        for part in row[2].split(';') {
            if let Some((name, values)) = part.split_once(':') {
                labels.insert(quoted(name).remove(0), quoted(values).into_iter().collect());
                continue;
            }
            for name in quoted(part) {
                let values = shared.get(&name).unwrap_or_else(|| panic!("no values of {name} in {row:?}"));
                labels.insert(name, values.iter().cloned().collect());
            }
        }
        metrics.extend(quoted(row[0]).into_iter().map(|name| (name, labels.clone())));
    }
    assert!(metrics.len() > 20, "the table was found");
    metrics
}

/// Everything in a scrape that the document does not list.
pub(crate) fn undocumented(scrape: &str) -> BTreeSet<String> {
    let documented = documented();
    let mut faults = BTreeSet::new();
    for line in scrape.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().expect("there is a first part");
        let parts = ["_bucket", "_count", "_sum"];
        let known = documented.get_key_value(name).or_else(|| {
            let family = parts.iter().find_map(|part| name.strip_suffix(part))?;
            documented.get_key_value(family)
        });
        let Some((family, labels)) = known else {
            faults.insert(format!("{name} is not listed"));
            continue;
        };
        for (label, value) in pairs(line) {
            let is_bound = label == "le" && name.ends_with("_bucket");
            if !is_bound && !labels.get(label).is_some_and(|values| values.contains(value)) {
                faults.insert(format!("{family} is not listed with {label}={value:?}"));
            }
        }
    }
    faults
}

/// The cells of a row of a table.
fn cells(row: &str) -> Vec<&str> {
    row.trim().trim_matches('|').split('|').map(str::trim).collect()
}

/// The texts between backquotes.
fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The labels with their values. No value holds a quotation mark.
fn pairs(text: &str) -> Vec<(&str, &str)> {
    let parts: Vec<_> = text.split('"').collect();
    let pairs = parts.chunks_exact(2);
    pairs.filter_map(|pair| Some((pair[0].trim_end_matches('=').rsplit(['{', ',']).next()?, pair[1]))).collect()
}
