//! The architecture, checked: who may name whom, what every file owes its reader, and which tests run where.
//!
//! Sources are parsed with `syn`, so that comments and strings that mention a module do not count.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::Visit;
use syn::{Item, UseTree};
use walkdir::WalkDir;

/// Each module of the crate and the others that it may name.
const MAY_NAME: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("ports", &["domain"]),
    ("service", &["domain", "ports"]),
    // The service hands on what a store said, and a client must be told whether anything was changed.
    ("api", &["domain", "service", "ports"]),
    ("telemetry", &["domain", "ports", "config"]),
    // Settings are plain values, and some are types of the domain.
    ("config", &["domain", "ports"]),
    ("http", &["api", "domain", "service", "ports", "telemetry", "server"]),
    ("mcp", &["api", "domain", "service", "ports", "telemetry"]),
    ("server", &["api", "domain", "ports", "telemetry"]),
    ("backends", &["domain", "ports", "telemetry", "config"]),
    (
        "app",
        &[
            "api",
            "domain",
            "ports",
            "service",
            "telemetry",
            "config",
            "http",
            "mcp",
            "server",
            "lifecycle",
            "admin",
            "backends",
        ],
    ),
    ("cli", &["app", "config", "domain", "http", "telemetry"]),
];

/// What `domain` may not use: it has no I/O, no clock, no randomness and no async.
const NOT_IN_DOMAIN: &[&str] = &["tokio", "rand", "getrandom", "axum", "hyper", "redb", "tracing"];

/// …nor these modules of the standard library.
const STD_NOT_IN_DOMAIN: &[&str] = &["fs", "io", "env", "process", "thread"];

/// Longest source file before its tests, in lines.
const MAX_LINES: usize = 400;

struct Source {
    path: PathBuf,
    text: String,
    syntax: syn::File,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = WalkDir::new(&root).into_iter().map(Result::unwrap);
    let sources: Vec<Source> = files
        .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "rs"))
        .map(|entry| {
            let text = fs::read_to_string(entry.path()).unwrap();
            let syntax = syn::parse_file(&text).unwrap();
            Source { path: entry.path().strip_prefix(&root).unwrap().to_owned(), text, syntax }
        })
        .collect();
    assert!(sources.len() > 20, "the sources were found");
    sources
}

impl Source {
    /// The module of the crate that this file belongs to.
    fn module(&self) -> String {
        let first = self.path.iter().next().unwrap().to_str().unwrap();
        first.trim_end_matches(".rs").to_owned()
    }

    /// The paths that it names outside of its tests, as their first two segments.
    fn named(&self) -> BTreeSet<(String, String)> {
        let mut names = Names::default();
        names.visit_file(&self.syntax);
        names.0
    }
}

/// Collects the first two segments of every path and every import; tests are left out.
#[derive(Default)]
struct Names(BTreeSet<(String, String)>);

impl Names {
    fn import(&mut self, first: Option<&str>, tree: &UseTree) {
        match (first, tree) {
            (None, UseTree::Path(path)) => self.import(Some(&path.ident.to_string()), &path.tree),
            (Some(first), UseTree::Path(path)) => self.add(first, &path.ident.to_string()),
            (Some(first), UseTree::Name(name)) => self.add(first, &name.ident.to_string()),
            (Some(first), UseTree::Rename(rename)) => self.add(first, &rename.ident.to_string()),
            (Some(first), UseTree::Glob(_)) => self.add(first, "*"),
            (_, UseTree::Group(group)) => group.items.iter().for_each(|tree| self.import(first, tree)),
            (None, _) => {}
        }
    }

    fn add(&mut self, first: &str, second: &str) {
        self.0.insert((first.to_owned(), second.to_owned()));
    }
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item(&mut self, item: &'ast Item) {
        let is_test = matches!(item, Item::Mod(module) if module.ident == "tests");
        if !is_test {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.import(None, &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let mut segments = path.segments.iter().map(|segment| segment.ident.to_string());
        if let (Some(first), Some(second)) = (segments.next(), segments.next()) {
            self.add(&first, &second);
        }
        syn::visit::visit_path(self, path);
    }
}

#[test]
fn a_module_names_only_those_that_it_may() {
    let mut faults = Vec::new();
    for source in sources() {
        let module = source.module();
        if module == "main" || module == "lib" {
            continue;
        }
        let (_, may) =
            MAY_NAME.iter().find(|(name, _)| *name == module).unwrap_or_else(|| panic!("{module} is listed"));
        for (first, second) in source.named() {
            if first == "crate" && second != module && !may.contains(&second.as_str()) {
                faults.push(format!("{} names {second}", source.path.display()));
            }
        }
    }
    assert_eq!(faults, Vec::<String>::new());
}

#[test]
fn only_app_names_a_backend() {
    let naming = sources()
        .iter()
        .filter(|source| source.named().contains(&("crate".to_owned(), "backends".to_owned())))
        .map(Source::module)
        .filter(|module| module != "backends")
        .collect::<BTreeSet<_>>();
    assert_eq!(naming, BTreeSet::from(["app".to_owned()]));
}

#[test]
fn domain_has_no_io_no_clock_no_randomness_and_no_async() {
    let mut faults = Vec::new();
    for source in sources().iter().filter(|source| source.module() == "domain") {
        for (first, second) in source.named() {
            let is_std = first == "std" && STD_NOT_IN_DOMAIN.contains(&second.as_str());
            let is_clock = ["Instant", "SystemTime", "OffsetDateTime"].contains(&first.as_str())
                && ["now", "now_utc"].contains(&second.as_str());
            if is_std || is_clock || NOT_IN_DOMAIN.contains(&first.as_str()) {
                faults.push(format!("{} names {first}::{second}", source.path.display()));
            }
        }
        if source.text.contains("async fn") {
            faults.push(format!("{} is async", source.path.display()));
        }
    }
    assert_eq!(faults, Vec::<String>::new());
}

#[test]
fn every_file_opens_by_saying_what_it_is_for() {
    let silent: Vec<PathBuf> =
        sources().into_iter().filter(|source| !source.text.starts_with("//! ")).map(|source| source.path).collect();
    assert_eq!(silent, Vec::<PathBuf>::new());
}

#[test]
fn no_file_is_longer_than_a_reader_can_hold() {
    let long: Vec<(PathBuf, usize)> = sources()
        .into_iter()
        .map(|source| {
            let lines = source.text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).count();
            (source.path, lines)
        })
        .filter(|(_, lines)| *lines > MAX_LINES)
        .collect();
    assert_eq!(long, Vec::<(PathBuf, usize)>::new());
}

#[test]
fn the_table_lists_every_module_of_the_crate() {
    let lib = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    let declared: BTreeSet<&str> =
        lib.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    assert_eq!(declared, MAY_NAME.iter().map(|(name, _)| *name).collect());
}

/// The modules that a file of `tests/` declares.
fn modules_of(file: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file)).unwrap();
    let modules = syn::parse_file(&text).unwrap().items.into_iter().filter_map(|item| match item {
        Item::Mod(module) => Some(module.ident.to_string()),
        _ => None,
    });
    modules.collect()
}

/// The source files of a folder of `tests/`, by what they would be called as modules.
fn files_of(folder: &str) -> BTreeSet<String> {
    let folder = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder)).unwrap();
    let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter_map(|name| name.strip_suffix(".rs").map(str::to_owned)).collect()
}

#[test]
fn every_section_of_the_specification_runs_against_one_process_and_against_replicas() {
    for program in ["it/main.rs", "services/replicas/mod.rs"] {
        assert!(modules_of(program).contains("spec"), "{program}");
    }
    let mut sections = files_of("it/spec");
    assert!(sections.remove("mod"));
    assert_eq!(modules_of("it/spec/mod.rs"), sections);
}

#[test]
fn rules_that_need_a_controlled_service_run_against_one_process_alone() {
    assert!(modules_of("it/main.rs").contains("controlled"));
    let mut controlled = files_of("it/controlled");
    assert!(controlled.remove("mod"));
    assert_eq!(modules_of("it/controlled/mod.rs"), controlled);
    // Each holds the rest of a section. Outages are the exception, since no client can cause one.
    let sections = modules_of("it/spec/mod.rs");
    assert_eq!(controlled.difference(&sections).collect::<Vec<_>>(), ["outages"]);
}
