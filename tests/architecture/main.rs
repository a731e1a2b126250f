//! Checks the architecture: which module may name which, no circles of files, a `//!` on every file, and which tests
//! run where.
//!
//! Sources are parsed with `syn`, so that comments and strings that mention a module do not count.

mod bare_driver;
mod commands;
mod prose;
mod references;
mod styles;
mod time_limits;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::Visit;
use syn::{Attribute, Item, UseTree, Visibility};
use walkdir::WalkDir;

/// Each module of the crate and the others that it may name.
const MAY_NAME: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("ports", &["domain"]),
    ("service", &["domain", "ports"]),
    // The service passes a store's error on, and a client must learn whether anything was changed.
    ("api", &["domain", "service", "ports"]),
    // The instruments of the service are declared beside all others.
    ("telemetry", &["domain", "ports", "service", "config", "log_throttle", "outbound"]),
    // Settings are plain values, and some are types of the domain.
    ("config", &["domain", "ports"]),
    ("web", &["api", "domain", "log_throttle", "service", "ports", "telemetry", "server", "mcp"]),
    ("mcp", &["api", "domain", "service", "ports", "telemetry"]),
    (
        "operators",
        &[
            "api",
            "backends",
            "config",
            "domain",
            "log_throttle",
            "niceness",
            "outbound",
            "ports",
            "server",
            "service",
            "stdout",
            "telemetry",
        ],
    ),
    ("server", &["api", "config", "domain", "telemetry"]),
    ("log_throttle", &[]),
    ("niceness", &[]),
    ("backends", &["domain", "log_throttle", "niceness", "ports", "telemetry", "config", "outbound"]),
    (
        "app",
        &["api", "domain", "ports", "service", "telemetry", "config", "web", "mcp", "operators", "server", "backends"],
    ),
    // The client is another program in the same binary: it knows a server only by its interface, and draws keys as one does.
    ("client", &["domain", "ports", "outbound", "stdout"]),
    ("cli", &["app", "client", "config", "domain", "operators", "stdout", "telemetry", "web"]),
    ("outbound", &[]),
    ("stdout", &[]),
];

/// Crates that `domain` may not use: it has no I/O, no clock, no randomness and no async.
const NOT_IN_DOMAIN: &[&str] = &["tokio", "rand", "getrandom", "axum", "hyper", "redb", "tracing"];

/// Modules of the standard library that `domain` may not use either.
const STD_NOT_IN_DOMAIN: &[&str] = &["fs", "io", "env", "process", "thread"];

/// Longest source file before its tests, in lines.
const MAX_LINES: usize = 400;

struct Source {
    /// The folder of the crate; empty for the one at the root.
    package: PathBuf,
    /// The path below the `src` of the crate.
    path: PathBuf,
    text: String,
    syntax: syn::File,
}

/// The folders of all crates; that of the one at the root is empty.
fn packages() -> Vec<PathBuf> {
    let folders = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("crates")).unwrap();
    let of_crates = folders.map(|entry| Path::new("crates").join(entry.unwrap().file_name()));
    std::iter::once(PathBuf::new()).chain(of_crates).collect()
}

fn sources() -> Vec<Source> {
    let mut sources = Vec::new();
    for package in packages() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(&package).join("src");
        let files = WalkDir::new(&root).into_iter().map(Result::unwrap);
        for entry in files.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "rs")) {
            let text = fs::read_to_string(entry.path()).unwrap();
            let syntax = syn::parse_file(&text).unwrap();
            let path = entry.path().strip_prefix(&root).unwrap().to_owned();
            sources.push(Source { package: package.clone(), path, text, syntax });
        }
    }
    assert!(sources.len() > 20, "the sources were found");
    sources
}

impl Source {
    /// The path from the root of the repository.
    fn place(&self) -> PathBuf {
        self.package.join("src").join(&self.path)
    }

    /// The module of the crate that this file belongs to.
    fn module(&self) -> String {
        let first = self.path.iter().next().unwrap().to_str().unwrap();
        first.trim_end_matches(".rs").to_owned()
    }

    /// The paths that this file names outside of its tests, as their first two segments.
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
        // Every crate but these two is one module.
        let has_modules = [Path::new(""), Path::new("crates/core")].contains(&source.package.as_path());
        if module == "main" || module == "lib" || !has_modules {
            continue;
        }
        let (_, may) =
            MAY_NAME.iter().find(|(name, _)| *name == module).unwrap_or_else(|| panic!("{module} is listed"));
        for (first, second) in source.named() {
            if ["crate", "handbill_core"].contains(&first.as_str())
                && second != module
                && !may.contains(&second.as_str())
            {
                faults.push(format!("{} names {second}", source.place().display()));
            }
        }
    }
    assert_eq!(faults, Vec::<String>::new());
}

/// `config` makes their settings, `telemetry` shows their state, and the commands of `operators` work on stores themselves.
#[test]
fn only_app_and_commands_on_a_store_name_a_backend() {
    let is_backend = |name: &str| name.starts_with("handbill_store_") || name == "handbill_limiter";
    let place = |source: &Source| {
        let is_command = source.path.starts_with("operators/commands");
        if is_command { "operators/commands".to_owned() } else { source.module() }
    };
    let crates = sources()
        .iter()
        .filter(|source| source.package == Path::new("") && source.named().iter().any(|(first, _)| is_backend(first)))
        .map(place)
        .collect::<BTreeSet<_>>();
    assert_eq!(crates, ["app", "config", "operators/commands", "telemetry"].map(str::to_owned).into());
    let naming = sources()
        .iter()
        .filter(|source| source.named().contains(&("crate".to_owned(), "backends".to_owned())))
        .map(place)
        .filter(|module| module != "backends")
        .collect::<BTreeSet<_>>();
    assert_eq!(naming, ["app", "operators/commands"].map(str::to_owned).into());
}

#[test]
fn one_file_outside_config_knows_which_stores_there_are() {
    let is_choosing = |source: &Source| source.named().iter().any(|(first, _)| first == "StoreKind");
    let choosing: Vec<PathBuf> = sources()
        .into_iter()
        .filter(|source| source.module() != "config" && is_choosing(source))
        .map(|source| source.place())
        .collect();
    assert_eq!(choosing, [PathBuf::from("src/app/backends.rs")]);
}

#[test]
fn domain_has_no_io_no_clock_no_randomness_and_no_async() {
    let mut faults = Vec::new();
    let is_domain = |source: &&Source| source.module() == "domain" || source.package == Path::new("crates/markdown");
    for source in sources().iter().filter(is_domain) {
        for (first, second) in source.named() {
            let is_std = first == "std" && STD_NOT_IN_DOMAIN.contains(&second.as_str());
            let is_clock = ["Instant", "SystemTime", "OffsetDateTime"].contains(&first.as_str())
                && ["now", "now_utc"].contains(&second.as_str());
            if is_std || is_clock || NOT_IN_DOMAIN.contains(&first.as_str()) {
                faults.push(format!("{} names {first}::{second}", source.place().display()));
            }
        }
        if source.text.contains("async fn") {
            faults.push(format!("{} is async", source.place().display()));
        }
    }
    assert_eq!(faults, Vec::<String>::new());
}

#[test]
fn every_file_opens_by_saying_what_it_is_for() {
    let silent: Vec<PathBuf> =
        sources().iter().filter(|source| !source.text.starts_with("//! ")).map(Source::place).collect();
    assert_eq!(silent, Vec::<PathBuf>::new());
}

#[test]
fn no_file_is_longer_than_a_reader_can_hold() {
    let long: Vec<(PathBuf, usize)> = sources()
        .into_iter()
        .map(|source| {
            let lines = source.text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).count();
            (source.place(), lines)
        })
        .filter(|(_, lines)| *lines > MAX_LINES)
        .collect();
    assert_eq!(long, Vec::<(PathBuf, usize)>::new());
}

#[test]
fn the_table_lists_every_module_of_the_crate() {
    let libs = ["src/lib.rs", "crates/core/src/lib.rs"]
        .map(|lib| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(lib)).unwrap())
        .concat();
    let declared: BTreeSet<&str> =
        libs.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    assert_eq!(declared, MAY_NAME.iter().map(|(name, _)| *name).collect());
}

/// A path as its segments, from the root of the crate.
type Segments = Vec<String>;

/// The names in one file, outside of its tests.
#[derive(Default)]
struct FileNames {
    /// The path of the file's own module.
    module: Segments,
    /// Items that are declared in the file.
    declared: BTreeSet<String>,
    /// The path that each imported name is short for, as it was written, and whether the import is a re-export.
    imported: BTreeMap<String, (Segments, bool)>,
    /// Paths that are written in the file's code, apart from imports.
    paths: BTreeSet<Segments>,
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|argument| argument.is_ident("test"))
    })
}

impl FileNames {
    fn of(source: &Source) -> Self {
        let mut module: Segments =
            source.path.with_extension("").iter().map(|part| part.to_str().unwrap().to_owned()).collect();
        if module.last().is_some_and(|last| last == "mod" || last == "lib") {
            module.pop();
        }
        let mut names = Self { module, ..Self::default() };
        names.visit_file(&source.syntax);
        names
    }

    fn import(&mut self, before: &[String], tree: &UseTree, is_reexport: bool) {
        let with = |last: &syn::Ident| [before, &[last.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.import(&with(&path.ident), &path.tree, is_reexport),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(before, tree, is_reexport)),
            UseTree::Name(name) if name.ident == "self" => {
                self.imported.insert(before.last().unwrap().clone(), (before.to_vec(), is_reexport));
            }
            UseTree::Name(name) => {
                self.imported.insert(name.ident.to_string(), (with(&name.ident), is_reexport));
            }
            UseTree::Rename(rename) => {
                // Several traits may be imported as `_`, so the name is made unique.
                let name =
                    if rename.rename == "_" { with(&rename.ident).join("::") } else { rename.rename.to_string() };
                self.imported.insert(name, (with(&rename.ident), is_reexport));
            }
            UseTree::Glob(_) => {
                self.imported.insert(format!("{}::*", before.join("::")), (before.to_vec(), is_reexport));
            }
        }
    }
}

impl<'ast> Visit<'ast> for FileNames {
    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, name) = match item {
            Item::Const(item) => (&item.attrs, Some(&item.ident)),
            Item::Enum(item) => (&item.attrs, Some(&item.ident)),
            Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
            Item::Impl(item) => (&item.attrs, None),
            Item::Mod(item) => (&item.attrs, None),
            Item::Static(item) => (&item.attrs, Some(&item.ident)),
            Item::Struct(item) => (&item.attrs, Some(&item.ident)),
            Item::Trait(item) => (&item.attrs, Some(&item.ident)),
            Item::Type(item) => (&item.attrs, Some(&item.ident)),
            Item::Use(item) => (&item.attrs, None),
            _ => return syn::visit::visit_item(self, item),
        };
        if !is_test(attributes) {
            self.declared.extend(name.map(ToString::to_string));
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.import(&[], &item.tree, !matches!(item.vis, Visibility::Inherited));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.paths.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        syn::visit::visit_path(self, path);
    }
}

/// Every file of one crate by its module.
struct Crate {
    files: BTreeMap<Segments, FileNames>,
    paths: BTreeMap<Segments, String>,
}

impl Crate {
    fn read(package: &Path) -> Self {
        let (mut files, mut paths) = (BTreeMap::new(), BTreeMap::new());
        let is_its = |source: &&Source| source.package == package && source.module() != "main";
        for source in sources().iter().filter(is_its) {
            let names = FileNames::of(source);
            paths.insert(names.module.clone(), source.place().display().to_string());
            files.insert(names.module.clone(), names);
        }
        Self { files, paths }
    }

    /// The module of the file that declares what `path`, written in `file`, leads to. `None` where that is another
    /// crate, or a module as a whole.
    fn declaring(&self, file: &FileNames, path: &[String]) -> Option<Segments> {
        let (first, rest) = path.split_first()?;
        let parent = || file.module[..file.module.len().saturating_sub(1)].to_vec();
        match first.as_str() {
            "crate" => self.walk(Vec::new(), rest),
            "self" => self.walk(file.module.clone(), rest),
            "super" => {
                let mut module = parent();
                let mut rest = rest;
                while let Some(("super", after)) = rest.split_first().map(|(first, after)| (first.as_str(), after)) {
                    module.pop();
                    rest = after;
                }
                self.walk(module, rest)
            }
            name => {
                let is_child = self.files.contains_key(&[&file.module[..], &[name.to_owned()]].concat());
                // `use serde;` and `use serde::{self}` import another crate under its own name.
                let is_imported = file.imported.get(name).is_some_and(|(path, _)| path[0] != name);
                let is_ours = is_child || file.declared.contains(name) || is_imported;
                if is_ours { self.walk(file.module.clone(), path) } else { None }
            }
        }
    }

    /// Follows `path` from `module`, through re-exports, to the file that declares its item.
    fn walk(&self, module: Segments, path: &[String]) -> Option<Segments> {
        let (first, rest) = path.split_first()?;
        let child = [&module[..], std::slice::from_ref(first)].concat();
        let file = &self.files[&module];
        if self.files.contains_key(&child) {
            self.walk(child, rest)
        } else if let (false, Some((target, _))) = (file.declared.contains(first), file.imported.get(first)) {
            self.declaring(file, &[target, rest].concat())
        } else {
            // An item of this file, or one that a macro makes in it.
            Some(module)
        }
    }

    /// The files that `file` names. A re-export counts where the file uses the name itself.
    fn named_by(&self, file: &FileNames) -> BTreeSet<Segments> {
        let used = |name: &String| file.paths.iter().any(|path| path.first() == Some(name));
        let imports = file.imported.iter().filter(|(name, (_, is_reexport))| !is_reexport || used(name));
        let written = imports.map(|(_, (path, _))| path).chain(&file.paths);
        let named = written.filter_map(|path| self.declaring(file, path));
        named.filter(|module| *module != file.module).collect()
    }

    /// The groups of files in which every file leads to every other one.
    fn circles(&self) -> BTreeSet<BTreeSet<String>> {
        let names: BTreeMap<_, _> = self.files.iter().map(|(module, file)| (module, self.named_by(file))).collect();
        let reached: BTreeMap<_, _> = names
            .iter()
            .map(|(module, named)| {
                let mut reached = BTreeSet::new();
                let mut next: Vec<_> = named.iter().collect();
                while let Some(found) = next.pop() {
                    if reached.insert(found) {
                        next.extend(&names[found]);
                    }
                }
                (*module, reached)
            })
            .collect();
        let in_a_circle = reached.iter().filter(|(module, reached)| reached.contains(*module));
        in_a_circle
            .map(|(module, others)| {
                let circle = others.iter().filter(|other| reached[**other].contains(*module));
                circle.map(|other| self.paths[*other].clone()).collect()
            })
            .collect()
    }
}

/// A file names another if a path in the first leads, directly or through re-exports, to an item that is declared in
/// the second. A parent's `mod` lines and re-exports name nothing by themselves.
#[test]
fn no_files_name_each_other_in_a_circle() {
    for package in packages() {
        assert_eq!(Crate::read(&package).circles(), BTreeSet::new());
    }
}

#[test]
fn the_map_of_the_crate_names_every_top_level_module() {
    let lib = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    let map: String = lib.lines().filter(|line| line.starts_with("//! |")).collect();
    let missing: Vec<&str> = lib
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'))
        .filter(|module| !map.contains(&format!("[`{module}`]")) && !map.contains(&format!("[`{module}::")))
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
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

/// The source files of a folder of `tests/`, by the names that they would have as modules.
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
    assert!(!modules_of("services/replicas/mod.rs").contains("controlled"));
    let mut controlled = files_of("it/controlled");
    assert!(controlled.remove("mod"));
    assert_eq!(modules_of("it/controlled/mod.rs"), controlled);
    // Each file of `controlled` holds the rest of a section of `spec`. There are four exceptions: no client can see
    // which path answered or whether a slug was reserved, and none can cause an outage or see what is rendered.
    let sections = modules_of("it/spec/mod.rs");
    assert_eq!(controlled.difference(&sections).collect::<Vec<_>>(), ["front", "outages", "rendering", "reservations"]);
}
