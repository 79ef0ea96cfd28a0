//! The rules of docs/architecture.md that a program can check.

use crate::files::{self, File};
use std::collections::{BTreeMap, BTreeSet};

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
    let arrows: [(&str, &[&str]); 4] = [
        ("lua/Cargo.toml", &[]),
        ("crates/leasehold-core/Cargo.toml", &["leasehold-lua"]),
        ("crates/leasehold-embedded/Cargo.toml", &["leasehold-core"]),
        ("crates/leasehold/Cargo.toml", &["leasehold-core", "leasehold-embedded"]),
    ];
    for (path, expected) in arrows {
        assert_eq!(of_ours(path, "dependencies"), expected, "{path}");
        assert_eq!(of_ours(path, "build-dependencies"), [""; 0], "{path}");
    }
    let optional = &manifest("crates/leasehold/Cargo.toml")["dependencies"]["leasehold-embedded"];
    assert!(optional.contains("optional = true"), "the engine is a feature");
    for tool in [
        "Cargo.toml",
        "benches/Cargo.toml",
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
        if file.path.starts_with("crates/leasehold/src/link/fred/") {
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
