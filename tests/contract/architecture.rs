//! Checks the rules of docs/architecture.md that a program can check.

use crate::files::{self, File};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

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
    let arrows: [(&str, &[&str]); 7] = [
        ("lua/Cargo.toml", &[]),
        ("crates/leasehold-core/Cargo.toml", &["leasehold-lua"]),
        ("crates/leasehold-embedded/Cargo.toml", &["leasehold-core"]),
        ("crates/leasehold-macros/Cargo.toml", &[]),
        ("crates/leasehold/Cargo.toml", &["leasehold-core", "leasehold-embedded", "leasehold-macros"]),
        ("crates/leasehold-cli/Cargo.toml", &["leasehold"]),
        ("crates/leasehold-tower/Cargo.toml", &["leasehold"]),
    ];
    for (path, expected) in arrows {
        assert_eq!(of_ours(path, "dependencies"), expected, "{path}");
        assert_eq!(of_ours(path, "build-dependencies"), [""; 0], "{path}");
    }
    // The model stands apart from the code.
    assert_eq!(of_ours("crates/leasehold-model/Cargo.toml", "dependencies"), [""; 0]);
    for feature in ["leasehold-embedded", "leasehold-macros"] {
        let dependency = &manifest("crates/leasehold/Cargo.toml")["dependencies"][feature];
        assert!(dependency.contains("optional = true"), "{feature} is a feature");
    }
    for tool in [
        "Cargo.toml",
        "benches/Cargo.toml",
        "benches/peers/rust/Cargo.toml",
        "examples/Cargo.toml",
        "examples/opentelemetry/Cargo.toml",
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
    for refused in ["tokio", "tokio-util", "futures-util", "mlua", "metrics", "tracing", "rustix"] {
        assert!(!theirs.contains(refused), "leasehold-core depends on {refused}");
    }
    let words = ["tokio", "std::time::Instant", "SystemTime", "Instant::now", "std::thread", "std::net", "std::fs"];
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
fn builds_of_users_have_no_self_checks() {
    for path in
        ["leasehold-core", "leasehold-embedded", "leasehold-macros", "leasehold", "leasehold-cli", "leasehold-tower"]
    {
        let manifest = manifest(&format!("crates/{path}/Cargo.toml"));
        let chosen = ["dependencies", "features"].iter().flat_map(|section| manifest.get(*section)).flatten();
        for (name, value) in chosen {
            assert!(!value.contains("self-checks"), "{path} switches them on by {name}");
        }
    }
    let files = files::sources("crates/leasehold-core/src/");
    for file in files.iter().filter(|file| !file.path.ends_with("/tests.rs")) {
        for (line, code) in file.code() {
            let is_checked = code.contains("debug_assertions") && !code.contains("feature = \"self-checks\"");
            assert!(!is_checked, "{}:{line} checks in each debug build", file.path);
        }
    }
}

#[test]
fn only_telemetry_calls_recorders_and_subscribers() {
    // A panic of theirs ends in `foreign.rs`. What calls them elsewhere would let it through.
    let allowed = ["crates/leasehold/src/telemetry.rs", "crates/leasehold/src/runtime/user_code.rs"];
    let of_facades = ["tracing::", "metrics::", "counter!(", "gauge!(", "histogram!("];
    for file in files::sources("crates/leasehold/src/") {
        if allowed.contains(&file.path.as_str()) || file.path.starts_with("crates/leasehold/src/telemetry/") {
            continue;
        }
        for (line, code) in file.code() {
            let called = of_facades.iter().find(|facade| code.contains(**facade));
            assert_eq!(called, None, "{}:{line}: {}", file.path, code.trim());
        }
    }
}

#[test]
fn link_leaves_the_process_through_its_network_alone() {
    const LINK: &str = "crates/leasehold/src/link";
    let words = ["lookup_host", "TcpStream", "UnixStream", "Uuid", "std::thread", "std::time::Instant"];
    let is_door = |path: &str| path == format!("{LINK}/network.rs");
    let is_of_tests = |path: &str| path.starts_with(&format!("{LINK}/tests"));
    let files = files::sources("crates/leasehold/src/link/");
    for file in files.iter().filter(|file| !is_of_tests(&file.path)) {
        let code = file.code();
        for (line, code) in code.iter().filter(|_| !is_door(&file.path)) {
            let word = words.iter().find(|word| code.contains(**word));
            assert_eq!(word, None, "{}:{line}: {}", file.path, code.trim());
            let std_time = code.contains("use std::time::") && !code.contains("use std::time::Duration;");
            assert!(!std_time, "{}:{line} takes more than Duration from std::time", file.path);
        }
        for pair in code.windows(2).filter(|pair| pair[0].1.contains("select! {")) {
            assert!(pair[1].1.contains("biased;"), "{}:{} chooses at random", file.path, pair[0].0);
        }
    }
}

/// Pairs of sibling folders: the first names the second. The file `a.rs` belongs to the folder `a`, unless that folder has only its tests.
fn arrows(files: &[File], source: &str) -> BTreeSet<(String, String)> {
    let module = |file: &File| file.path.trim_start_matches(source).trim_end_matches(".rs").to_owned();
    let of_code = files.iter().filter(|file| !file.path.ends_with("/tests.rs") && !file.path.contains("/tests/"));
    let modules: Vec<_> = of_code.map(|file| (module(file), file)).collect();
    let parents = |module: &str| module.match_indices('/').map(|(at, _)| module[..at].to_owned()).collect::<Vec<_>>();
    let folders: BTreeSet<_> = modules.iter().flat_map(|(module, _)| parents(module)).collect();
    let mut arrows = BTreeSet::new();
    for (module, file) in &modules {
        let code = file.code().into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("\n");
        let from: Vec<_> = module.split('/').collect();
        for to in folders.iter().map(|folder| folder.split('/').collect::<Vec<_>>()) {
            let common = from.iter().zip(&to).take_while(|(from, to)| from == to).count();
            if common == from.len() || common == to.len() {
                continue;
            }
            let relative = "super::".repeat(from.len() - common) + &to[common..].join("::");
            let names = |path: &str| {
                let ends = |at: usize| !code[at..].starts_with(|next: char| next.is_alphanumeric() || next == '_');
                code.match_indices(path).any(|(at, _)| !code[..at].ends_with("::") && ends(at + path.len()))
            };
            let pair = (from[..=common].join("/"), to[..=common].join("/"));
            if folders.contains(&pair.0) && (names(&format!("crate::{}", to.join("::"))) || names(&relative)) {
                arrows.insert(pair);
            }
        }
    }
    arrows
}

/// Removes arrows that start at a folder without incoming arrows or end at one without outgoing arrows, until only circles remain.
fn circles(mut arrows: BTreeSet<(String, String)>) -> BTreeSet<(String, String)> {
    loop {
        let before = arrows.len();
        let (starts, ends): (BTreeSet<_>, BTreeSet<_>) = arrows.iter().cloned().unzip();
        arrows.retain(|(from, to)| ends.contains(from) && starts.contains(to));
        if arrows.len() == before {
            return arrows;
        }
    }
}

#[test]
fn folders_form_no_circles() {
    // `leasehold` is exempt: its API types name each other across folders. A client creates locks, and a lock keeps its client.
    for name in ["leasehold-core", "leasehold-embedded", "leasehold-cli"] {
        let source = format!("crates/{name}/src/");
        let circles = circles(arrows(&files::sources(&source), &source));
        assert!(circles.is_empty(), "folders of {source} name each other in a circle: {circles:#?}");
    }
}

#[test]
fn circles_of_folders_are_found() {
    let files = [
        ("a/x.rs", "use crate::b::y::Z;"),
        ("b/y.rs", "let c = super::super::c::new();"),
        ("c.rs", "use crate::a;"),
        ("c/z.rs", "use crate::bb;"),
        ("a/w.rs", "// use crate::d;"),
        ("d/e/f.rs", "use crate::d::g::h;"),
        ("d/g/h.rs", "use super::super::e;"),
        ("d/i.rs", "use crate::a;"),
    ];
    let files = files.map(|(path, text)| File { path: format!("src/{path}"), text: text.to_owned() });
    let pairs = [("a", "b"), ("b", "c"), ("c", "a"), ("d/e", "d/g"), ("d/g", "d/e")];
    assert_eq!(circles(arrows(&files, "src/")), pairs.map(|(a, b)| (a.to_owned(), b.to_owned())).into());
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
            // A colour looks like the number of an issue.
            assert!(file.path.ends_with(".css") || !names_an_issue(line), "the number of an issue in {place}");
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
