//! The rules of docs/architecture.md that a program can check.

use crate::files::{self, File};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The most lines of a source file of the core and the runtime, of any other, and of a file of tests.
const MOST_LINES_OF_THE_LIBRARY: usize = 400;
const MOST_LINES: usize = 700;
const MOST_LINES_OF_TESTS: usize = 1000;

/// The sections of a manifest, as far as the rules need them: the keys of each table.
fn manifest(path: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut sections: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let mut section = String::new();
    for line in files::read(path).lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name.to_owned();
        } else if let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
            let key = key.trim().split('.').next().unwrap_or_default().to_owned();
            sections.entry(section.clone()).or_default().insert(key, value.trim().to_owned());
        }
    }
    sections
}

/// The crates of a manifest's section.
pub(crate) fn dependencies(path: &str, section: &str) -> BTreeSet<String> {
    manifest(path).remove(section).unwrap_or_default().into_keys().collect()
}

fn of_ours(path: &str, section: &str) -> Vec<String> {
    dependencies(path, section).into_iter().filter(|name| name.starts_with("leasehold")).collect()
}

#[test]
fn arrows_between_crates_point_one_way() {
    let arrows: [(&str, &[&str]); 6] = [
        ("lua/Cargo.toml", &[]),
        ("crates/leasehold-core/Cargo.toml", &["leasehold-lua"]),
        ("crates/leasehold-embedded/Cargo.toml", &["leasehold-core"]),
        ("crates/leasehold/Cargo.toml", &["leasehold-core", "leasehold-embedded"]),
        ("crates/leasehold-cli/Cargo.toml", &["leasehold"]),
        ("crates/leasehold-tower/Cargo.toml", &["leasehold"]),
    ];
    for (path, expected) in arrows {
        assert_eq!(of_ours(path, "dependencies"), expected, "{path}");
        assert_eq!(of_ours(path, "build-dependencies"), [""; 0], "{path}");
    }
    // The model stands apart from the code.
    assert_eq!(of_ours("crates/leasehold-model/Cargo.toml", "dependencies"), [""; 0]);
    let optional = &manifest("crates/leasehold/Cargo.toml")["dependencies"]["leasehold-embedded"];
    assert!(optional.contains("optional = true"), "the engine is a feature");
    for tool in [
        "Cargo.toml",
        "benches/Cargo.toml",
        "crates/leasehold-explorer/Cargo.toml",
        "crates/leasehold-model/Cargo.toml",
        "crates/leasehold-simulation/Cargo.toml",
        "crates/leasehold-test-support/Cargo.toml",
        "crates/xtask/Cargo.toml",
    ] {
        let package = &manifest(tool)["package"];
        assert_eq!(package.get("publish").map(String::as_str), Some("false"), "{tool} is not published");
    }
}

#[test]
fn the_core_has_no_runtime_no_client_and_no_clock() {
    let theirs = dependencies("crates/leasehold-core/Cargo.toml", "dependencies");
    for refused in ["tokio", "tokio-util", "fred", "futures-util", "mlua", "metrics", "tracing", "rustix"] {
        assert!(!theirs.contains(refused), "leasehold-core depends on {refused}");
    }
    let words =
        ["tokio", "fred", "std::time::Instant", "SystemTime", "Instant::now", "std::thread", "std::net", "std::fs"];
    for file in files::sources("crates/leasehold-core/src/") {
        for (line, code) in file.code() {
            for word in words {
                assert!(!code.contains(word), "{}:{line} names {word}", file.path);
            }
            let std_time = code.contains("use std::time::") && !code.contains("use std::time::Duration;");
            assert!(!std_time, "{}:{line} takes more than Duration from std::time", file.path);
        }
    }
}

#[test]
fn only_the_link_names_fred() {
    let mut exceptions = Vec::new();
    let published = ["crates/leasehold/src/", "crates/leasehold-embedded/src/", "crates/leasehold-core/src/"];
    for file in published.into_iter().flat_map(files::sources) {
        if file.path.starts_with("crates/leasehold/src/link/fred/") || file.path == "crates/leasehold/src/link/fred.rs"
        {
            continue;
        }
        // `use crate::link::fred` brings in our own module, under the same name.
        let is_module = file.text.contains("use crate::link::fred;");
        for (line, code) in file.code() {
            for (at, _) in code.match_indices("fred::") {
                let before = &code[..at];
                let through_ours = before.ends_with("crate::link::") || before.ends_with("self::");
                let bare = !before.ends_with(':');
                if !(through_ours || (bare && is_module)) {
                    exceptions.push(format!("{}:{line}: {}", file.path, code.trim()));
                }
            }
        }
    }
    let [only] = &exceptions[..] else { panic!("one method may name fred, not {exceptions:#?}") };
    assert!(only.contains("builder/connecting.rs") && only.contains("fn connect_with("), "{only}");
}

/// A module, by its path from the root of its crate.
type Module = Vec<String>;

/// Circles of modules that may stay.
const CIRCLES: [(&str, &[&str]); 1] = [
    // One family of types: a lock makes acquires, an acquire ends in a guard, and a guard may be acquired once more.
    ("crates/leasehold/src/", &["acquire", "guard", "lock"]),
];

/// The modules of a crate, each with those that it names. Modules of tests are left out, and so is the way between a module and its own
/// submodules, which are one thing in several files.
fn named_modules(source: &str) -> Vec<(Module, Module)> {
    let files = files::sources(source);
    let path = |file: &File| -> Module {
        let path = file.path.trim_start_matches(source).trim_end_matches(".rs");
        path.split('/').map(str::to_owned).collect()
    };
    let modules: BTreeSet<Module> = files.iter().map(path).filter(|module| module[0] != "lib").collect();
    let mut named = Vec::new();
    for file in &files {
        let module = path(file);
        let code: Vec<_> = file.code().into_iter().map(|(_, line)| line).collect();
        for words in paths_in(&code.join("\n")) {
            let mut full = if words[0] == "super" { module.clone() } else { Module::new() };
            for word in words {
                match word.as_str() {
                    "crate" => {}
                    "super" => drop(full.pop()),
                    _ => full.push(word),
                }
            }
            let other = (1..=full.len()).rev().map(|end| &full[..end]).find(|start| modules.contains(*start));
            if let Some(other) = other
                && !module.starts_with(other)
                && !other.starts_with(&module)
            {
                named.push((module.clone(), other.to_vec()));
            }
        }
    }
    named
}

/// The paths that begin with `crate::` or `super::`, in `use` declarations and elsewhere.
fn paths_in(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for root in ["crate::", "super::"] {
        for (at, _) in code.match_indices(root) {
            let is_inside = |before: char| before.is_alphanumeric() || "_:$".contains(before);
            if !code[..at].ends_with(is_inside) {
                path_tree(&code[at..], &[], &mut found);
            }
        }
    }
    found
}

/// Reads a tree of paths, such as `a::{b, c::d as e}`, and returns what comes after it.
fn path_tree<'a>(mut rest: &'a str, before: &[String], found: &mut Vec<Vec<String>>) -> &'a str {
    let mut path = before.to_vec();
    loop {
        rest = rest.trim_start();
        if let Some(mut inner) = rest.strip_prefix('{') {
            loop {
                inner = path_tree(inner, &path, found).trim_start();
                match inner.strip_prefix(',') {
                    Some(next) => inner = next,
                    None => return inner.strip_prefix('}').unwrap_or(inner),
                }
            }
        }
        let end = rest.find(|next: char| !next.is_alphanumeric() && next != '_').unwrap_or(rest.len());
        path.push(rest[..end].to_owned());
        match rest[end..].strip_prefix("::") {
            Some(next) if end > 0 => rest = next,
            _ => {
                found.push(path);
                let after = &rest[end..];
                return if after.starts_with(" as ") {
                    &after[after.find([',', '}', ';']).unwrap_or(0)..]
                } else {
                    after
                };
            }
        }
    }
}

/// The largest sets of modules in which each leads to each.
fn circles(named: &[(Module, Module)]) -> BTreeSet<Vec<String>> {
    let reachable = |from: &Module| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            let others = named.iter().filter(|(a, _)| a == module).map(|(_, b)| b);
            next.extend(others.filter(|other| seen.insert((*other).clone())));
        }
        seen
    };
    let all: BTreeSet<_> = named.iter().map(|(module, _)| module).collect();
    let reach: BTreeMap<_, _> = all.into_iter().map(|module| (module, reachable(module))).collect();
    let round = reach.iter().filter(|(module, seen)| seen.contains(**module));
    round
        .map(|(module, seen)| {
            let each = seen.iter().filter(|other| reach.get(other).is_some_and(|back| back.contains(*module)));
            each.map(|other| other.join("/")).collect()
        })
        .collect()
}

/// The same between the folders in which the modules stand.
fn named_folders(named: &[(Module, Module)]) -> Vec<(Module, Module)> {
    let of = |(a, b): &(Module, Module)| {
        let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
        (a[..=common].to_vec(), b[..=common].to_vec())
    };
    named.iter().map(of).collect()
}

#[test]
fn modules_form_no_circles() {
    let published = ["leasehold-core", "leasehold-embedded", "leasehold", "leasehold-cli", "leasehold-tower"];
    let published = published.map(|name| format!("crates/{name}/src/"));
    for source in ["lua/"].into_iter().chain(published.iter().map(String::as_str)) {
        let named = named_modules(source);
        let allowed = CIRCLES.iter().filter(|(of, _)| *of == source);
        let allowed: BTreeSet<Vec<_>> =
            allowed.map(|(_, all)| all.iter().map(|one| (*one).to_owned()).collect()).collect();
        assert_eq!(circles(&named), allowed, "circles of modules in {source}, and those that may stay");
        // The types of the API name each other across folders: a client makes locks, and a lock is made of a client.
        if source != "crates/leasehold/src/" {
            assert_eq!(circles(&named_folders(&named)), BTreeSet::new(), "circles of folders in {source}");
        }
    }
}

#[test]
fn circles_of_modules_are_found() {
    let module = |path: &str| path.split('/').map(str::to_owned).collect::<Module>();
    let named: Vec<_> = [("a/x", "b/y"), ("b/y", "b/z"), ("b/z", "a/w"), ("c", "a/x"), ("d", "e"), ("e", "d")]
        .map(|(a, b)| (module(a), module(b)))
        .into();
    assert_eq!(circles(&named), BTreeSet::from([vec!["d".to_owned(), "e".to_owned()]]));
    assert!(circles(&named_folders(&named)).contains(&vec!["a".to_owned(), "b".to_owned()]));
    let code =
        "use crate::a::{b, c::{D, e as f}};\nuse super::{g, h};\nlet x = crate::i::j(1); $crate::k; super::super::l()";
    let found: BTreeSet<_> = paths_in(code).into_iter().map(|path| path.join("::")).collect();
    let expected =
        ["crate::a::b", "crate::a::c::D", "crate::a::c::e", "crate::i::j", "super::g", "super::h", "super::super::l"];
    assert_eq!(found, expected.map(str::to_owned).into());
}

#[test]
fn nothing_unwraps_outside_of_tests() {
    for file in files::sources("crates/").into_iter().chain(files::sources("lua/")) {
        for (line, code) in file.code() {
            let unwraps = code.contains(".unwrap()") || code.contains("unsafe ");
            assert!(!unwraps, "{}:{line}: {}", file.path, code.trim());
        }
    }
}

#[test]
fn no_file_is_too_long() {
    for file in files::tracked().iter().filter(|file| file.has_ending("rs") || file.has_ending("lua")) {
        let lines = file.text.lines().count();
        let is_test = file.path.starts_with("tests/") || file.path.contains("/tests/");
        let library = ["crates/leasehold-core/src/", "crates/leasehold/src/"];
        let most = match file.path.as_str() {
            _ if is_test => MOST_LINES_OF_TESTS,
            path if library.iter().any(|folder| path.starts_with(folder)) => MOST_LINES_OF_THE_LIBRARY,
            _ => MOST_LINES,
        };
        assert!(lines <= most, "{} has {lines} lines, and {most} are allowed: split it", file.path);
    }
}

/// A file that no module names is not compiled, so that a test in it cannot fail.
#[test]
fn files_that_nothing_compiles_are_found() {
    let files = files::tracked();
    let with_ending = |ending: &'static str| files.iter().filter(move |file| file.has_ending(ending));
    let manifests: Vec<_> = with_ending("toml").map(|file| &file.text).collect();
    let sources: Vec<_> = with_ending("rs").map(|file| (Path::new(&file.path), &file.text)).collect();
    for (path, _) in &sources {
        let (stem, folder) = (path.file_stem().expect("a name"), path.parent().expect("a folder"));
        // Cargo finds these by itself.
        let is_of_targets = folder.ends_with("tests") || folder.ends_with("examples");
        let is_target = is_of_targets && files::root().join(folder).with_file_name("Cargo.toml").exists();
        if is_target || ["main", "lib", "build"].iter().any(|root| stem == *root) {
            continue;
        }
        let (name, folder) = if stem == "mod" {
            (folder.file_name().expect("a name"), folder.parent().expect("a folder"))
        } else {
            (stem, folder)
        };
        let module = format!("mod {};", name.to_string_lossy());
        let file = format!("{}\"", path.file_name().expect("a name").to_string_lossy());
        let is_named = |(other, text): &(&Path, &String)| {
            let may_name = other.parent() == Some(folder) || **other == folder.with_extension("rs");
            may_name && other != path && text.contains(&module) || text.contains("#[path = ") && text.contains(&file)
        };
        let is_compiled = sources.iter().any(is_named) || manifests.iter().any(|manifest| manifest.contains(&file));
        assert!(is_compiled, "nothing compiles {}: no file beside it says `{module}`", path.display());
    }
}

#[test]
fn nothing_names_a_machine_a_registry_or_an_issue() {
    // Put together here, so that this file does not name them.
    let machines: Vec<String> = ["work", "farm", "root", "home", "Users"]
        .iter()
        .map(|folder| format!("/{folder}/"))
        .chain([["/tmp", "wt"].join("/")])
        .collect();
    let hosts = [
        ["index.crates", "io"],
        ["static.crates", "io"],
        ["pypi", "org"],
        ["files.pythonhosted", "org"],
        ["proxy.golang", "org"],
        ["registry.npmjs", "org"],
        ["deb.debian", "org"],
        ["repo1.maven", "org"],
    ]
    .map(|parts| parts.join("."));
    for file in files::tracked() {
        if file.path == "Cargo.lock" {
            assert_one_registry(&file);
            continue;
        }
        for (at, line) in file.text.lines().enumerate() {
            let place = format!("{}:{}: {}", file.path, at + 1, line.trim());
            for machine in &machines {
                let absolute = line.match_indices(machine.as_str()).any(|(at, _)| {
                    !line[..at].ends_with(|before: char| before.is_alphanumeric() || "._-/}>*".contains(before))
                });
                assert!(!absolute, "a path of a machine in {place}");
            }
            for host in &hosts {
                assert!(!line.contains(host.as_str()), "the host of a registry in {place}");
            }
            assert!(!names_an_issue(line), "the number of an issue in {place}");
        }
    }
}

/// Dependencies come from where cargo gets them by default.
fn assert_one_registry(lock: &File) {
    let sources: BTreeSet<_> = lock.text.lines().filter(|line| line.starts_with("source = ")).collect();
    assert!(sources.len() <= 1, "dependencies come from one registry, not from {sources:#?}");
    assert!(sources.iter().all(|source| source.contains("github.com/rust-lang/")), "{sources:#?}");
}

/// `#` and a number, or "issue" and a number.
fn names_an_issue(line: &str) -> bool {
    let lower = line.to_lowercase();
    let numbered = |text: &str| text.trim_start_matches([' ', '#']).starts_with(|next: char| next.is_ascii_digit());
    let by_sign = line.match_indices('#').any(|(at, _)| {
        let free = !line[..at].ends_with(|before: char| before.is_alphanumeric() || "{:&\"'/".contains(before));
        free && line[at + 1..].starts_with(|next: char| next.is_ascii_digit())
    });
    by_sign
        || ["issue ", "issues/", "pull/"]
            .iter()
            .any(|word| lower.match_indices(word).any(|(at, _)| numbered(&lower[at + word.len()..])))
}

#[test]
fn numbers_of_issues_are_recognised() {
    for named in
        [format!("fixes {}12", '#'), format!("see issue{}7", ' '), format!("a/b/issues/{}", 7), format!("({}3)", '#')]
    {
        assert!(names_an_issue(&named), "{named}");
    }
    for plain in ["#!/usr/bin/env bash", "# 1. A heading", "format!(\"{:#010x}\")", "no issue here", "#[test]"] {
        assert!(!names_an_issue(plain), "{plain}");
    }
}
