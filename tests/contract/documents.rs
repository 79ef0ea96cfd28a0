//! Checks names, commands and links in documents against the code.

use crate::architecture::dependencies;
use crate::files::{self, File};
use leasehold::LossReason;
use leasehold_core::script;
use std::collections::BTreeSet;

fn pages() -> Vec<File> {
    files::tracked().into_iter().filter(|file| file.has_ending("md")).collect()
}

/// The words between backticks that stand first in a row of a table.
fn first_cells(text: &str) -> BTreeSet<String> {
    text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(word, _)| word.to_owned()).collect()
}

/// The part of a page under a heading, up to the next heading of the same rank.
#[track_caller]
pub(crate) fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let rank = heading.split(' ').next().expect("a heading has a rank");
    let start =
        page.find(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("the page has a heading {heading:?}")) + 1;
    let body = &page[start + heading.len()..];
    &body[..body.find(&format!("\n{rank} ")).unwrap_or(body.len())]
}

/// The variants of a public enum.
fn variants(file: &str, name: &str) -> BTreeSet<String> {
    let text = files::read(file);
    let body = text.split(&format!("pub enum {name}")).nth(1).expect("the enum").split("\n}").next().expect("its end");
    body.lines()
        .filter(|line| line.starts_with("    ") && !line.starts_with("     "))
        .map(|line| line.trim().split(['(', ' ', '{', ',']).next().unwrap_or_default())
        .filter(|word| word.starts_with(|first: char| first.is_ascii_uppercase()))
        .map(str::to_owned)
        .collect()
}

/// The pages of tasks show code of programs that tests run.
const TASKS: &str = "docs/tasks/";

#[test]
fn the_code_of_every_page_is_compiled() {
    let lib = files::read("crates/leasehold/src/lib.rs");
    let pages = pages().into_iter().filter(|page| !page.path.starts_with(TASKS));
    for page in pages.filter(|page| page.text.contains("```rust") || page.text.contains("```\nuse ")) {
        assert!(lib.contains(&format!("include_str!(\"../../../{}\")", page.path)), "lib.rs includes {}", page.path);
    }
}

#[test]
fn tasks_show_code_of_programs_that_tests_run() {
    let trimmed =
        |text: &str| text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
    let programs = files::tracked().into_iter().filter(|file| file.path.starts_with("examples/tasks/"));
    let programs: Vec<_> = programs.map(|file| trimmed(&file.text)).collect();
    let mut blocks = 0;
    for page in pages().into_iter().filter(|page| page.path.starts_with(TASKS)) {
        for block in page.text.split("```rust\n").skip(1) {
            let block = trimmed(block.split("```").next().unwrap_or_default());
            let found = programs.iter().any(|program| program.contains(&block));
            assert!(found, "{}: no program in examples/tasks contains this block:\n{block}", page.path);
            blocks += 1;
        }
    }
    assert!(blocks >= 8, "{blocks} blocks");
}

#[test]
fn every_block_of_code_names_its_language() {
    for page in pages() {
        let mut open = false;
        for (at, line) in page.text.lines().enumerate() {
            if let Some(language) = line.trim_start().strip_prefix("```") {
                open = !open;
                assert!(!open || !language.is_empty(), "{}:{} opens a block without a language", page.path, at + 1);
            }
        }
        assert!(!open, "{} ends within a block", page.path);
    }
}

#[test]
fn links_lead_somewhere() {
    let anchor = |heading: &str| -> String {
        let kept =
            heading.to_lowercase().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>();
        kept.replace(' ', "-")
    };
    for page in pages() {
        for (at, _) in page.text.match_indices("](") {
            let target = page.text[at + 2..].split(')').next().expect("a link ends");
            if target.starts_with("http") {
                continue;
            }
            let (path, fragment) = target.split_once('#').unwrap_or((target, ""));
            let folder = page.path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let to =
                if path.is_empty() { files::root().join(&page.path) } else { files::root().join(folder).join(path) };
            assert!(to.exists(), "{}: {target} leads nowhere", page.path);
            if !fragment.is_empty() {
                let text = std::fs::read_to_string(&to).expect("a page can be read");
                let found = text
                    .lines()
                    .filter(|line| line.starts_with('#'))
                    .any(|line| anchor(line.trim_start_matches(['#', ' '])) == fragment);
                assert!(found, "{}: {target} leads to no heading", page.path);
            }
        }
    }
}

/// A link to the file of the repository, as the documentation of a crate has it.
const REPOSITORY: &str = "https://github.com/leasehold/leasehold/blob/main/";

#[test]
fn links_from_crates_to_the_repository_lead_somewhere() {
    let mut links = 0;
    for file in files::tracked().into_iter().filter(|file| file.has_ending("rs") || file.has_ending("md")) {
        for (at, _) in file.text.match_indices(&format!("]({REPOSITORY}")) {
            let target = &file.text[at + 2 + REPOSITORY.len()..];
            let target = target.split([')', '#']).next().expect("a link has a target");
            assert!(files::root().join(target).exists(), "{}: {target} leads nowhere", file.path);
            links += 1;
        }
    }
    assert!(links > 3, "the documentation of leasehold has such links");
    for file in files::sources("crates/leasehold/src/").into_iter().chain(files::sources("crates/leasehold-tower/src/"))
    {
        let comments =
            file.text.lines().map(str::trim).filter(|line| line.starts_with("///") || line.starts_with("//!"));
        let unreachable = comments.filter(|line| line.contains("`docs/")).collect::<Vec<_>>();
        assert!(
            unreachable.is_empty(),
            "{}: pages that the reader of docs.rs cannot open: {unreachable:#?}",
            file.path
        );
    }
}

#[test]
fn published_crates_tell_docs_rs_what_to_build() {
    for file in files::tracked().into_iter().filter(|file| file.path.ends_with("Cargo.toml")) {
        let is_published = file.text.contains("license.workspace = true") && !file.text.contains("publish = false");
        let told = file.text.contains("[package.metadata.docs.rs]\nall-features = true\n");
        assert!(told || !is_published, "{}", file.path);
    }
}

/// The list of pages for readers of the repository, and the list for mdBook.
const LISTS: [&str; 2] = ["README.md", "SUMMARY.md"];

#[test]
fn every_page_is_listed() {
    let lists = LISTS.map(|list| (list, files::read(&format!("docs/{list}"))));
    for page in pages().iter().filter_map(|page| page.path.strip_prefix("docs/")).filter(|page| !LISTS.contains(page)) {
        for (list, text) in &lists {
            assert!(text.contains(&format!("({page})")), "docs/{list} lists {page}");
        }
    }
}

#[test]
fn operations_has_a_row_for_every_metric() {
    let text = files::read("crates/leasehold/src/telemetry/names.rs");
    let names: BTreeSet<_> = text
        .lines()
        .filter(|line| line.starts_with("pub const "))
        .filter_map(|line| line.split('"').nth(1))
        .filter(|name| name.starts_with("leasehold_"))
        .map(str::to_owned)
        .collect();
    assert!(names.len() > 10, "{names:?}");
    assert_eq!(first_cells(section(&files::read("docs/operations.md"), "## Metrics")), names);
}

#[test]
fn operations_has_a_row_for_every_setting_of_a_url() {
    let text = files::read("crates/leasehold/src/client/url.rs");
    let list = text.split("const SETTINGS").nth(1).and_then(|rest| rest.split("];").next()).expect("the list");
    // The commands that every sort of server takes beside them.
    let names: BTreeSet<_> = list.split('"').skip(1).step_by(2).chain(["protocol"]).map(str::to_owned).collect();
    assert!(names.len() > 10, "{names:?}");
    let page = files::read("docs/operations.md");
    assert_eq!(first_cells(section(&page, "## Where the server and the settings come from")), names);
    let connect = files::read("crates/leasehold/src/client/builder/connecting.rs");
    for name in &names {
        let told = connect.contains(&format!("`{name}`")) || connect.contains(&format!("`{name}="));
        assert!(told, "ClientBuilder::connect does not tell of {name}");
    }
}

#[test]
fn operations_names_every_error_in_one_sorted_table() {
    let page = files::read("docs/operations.md");
    let table = section(&page, "## Troubleshooting");
    let sources: Vec<_> = table.lines().filter_map(|line| line.split(" | ").nth(1)).collect();
    for (file, name) in [
        ("crates/leasehold/src/error.rs", "Error"),
        ("crates/leasehold/src/error/connect.rs", "ConnectError"),
        ("crates/leasehold/src/error/invalid.rs", "InvalidInput"),
    ] {
        let transparent = ["Invalid", "Name"];
        for variant in variants(file, name)
            .into_iter()
            .filter(|one| name == "ConnectError" || !transparent.contains(&one.as_str()))
        {
            let enums = sources.iter().filter(|source| source.contains(&format!("`{name}::")));
            let named = enums.into_iter().any(|source| {
                source.contains(&format!("`{name}::{variant}`")) || source.contains(&format!(", `{variant}`"))
            });
            assert!(named, "the table names {name}::{variant}");
        }
    }
    let words = |line: &str| -> String {
        let first = line.split(" | ").next().unwrap_or_default().to_lowercase();
        first.chars().filter(|c| c.is_ascii_alphanumeric() || *c == ' ').collect::<String>().trim().to_owned()
    };
    let rows: Vec<_> = table.lines().filter(|line| line.starts_with("| `")).map(words).collect();
    assert!(rows.len() > 50 && rows.is_sorted(), "{rows:#?}");
}

#[test]
fn safety_has_a_row_for_every_reason_of_a_loss() {
    let reasons: BTreeSet<_> = LossReason::ALL.iter().map(|reason| format!("{reason:?}")).collect();
    assert_eq!(first_cells(section(&files::read("docs/safety.md"), "## What a lost lock means")), reasons);
}

#[test]
fn every_dependency_is_named_with_its_reason() {
    let page = files::read("docs/dependencies.md");
    for manifest in files::tracked().into_iter().filter(|file| file.path.ends_with("Cargo.toml")) {
        for section in ["workspace.dependencies", "dependencies", "dev-dependencies", "build-dependencies"] {
            for name in dependencies(&manifest.path, section).into_iter().filter(|name| name != "leasehold") {
                assert!(page.contains(&format!("`{name}`")), "docs/dependencies.md names {name} of {}", manifest.path);
            }
        }
    }
}

/// The commands of the data that some scripts use.
fn commands_of(folders: &[&str]) -> BTreeSet<String> {
    let of_folder = |name: &str| folders.contains(&name.split('/').next().unwrap_or_default());
    let scripts = script::ALL.iter().filter(|script| of_folder(script.name()));
    let calls = scripts.flat_map(|script| ["call('", "in_parts('"].map(|call| script.source().split(call).skip(1)));
    calls.flatten().filter_map(|rest| rest.split('\'').next()).map(str::to_lowercase).collect()
}

#[test]
fn security_allows_the_commands_of_the_scripts_and_no_others() {
    let page = files::read("docs/security.md");
    let block = |name: &str| -> BTreeSet<String> {
        let (_, rest) = page.split_once(&format!("```acl {name}\n")).unwrap_or_else(|| panic!("a rule for {name}"));
        let (rule, _) = rest.split_once("```").expect("the end of the rule");
        rule.split_whitespace().filter_map(|part| part.strip_prefix('+')).map(str::to_owned).collect()
    };
    let base = block("server");
    let of_connections = [
        "eval",
        "evalsha",
        "publish",
        "subscribe",
        "unsubscribe",
        "ping",
        "info",
        "client|id",
        "client|info",
        "client|kill",
    ];
    let of_connections: BTreeSet<String> = of_connections.map(str::to_owned).into();
    assert_eq!(base, commands_of(&["lock"]).union(&of_connections).cloned().collect(), "the first rule");
    let mut told = BTreeSet::from(["lock"]);
    let blocks: [(&str, &[&str]); 10] = [
        ("fair", &["fair"]),
        ("fenced", &["fenced"]),
        ("simple", &["simple"]),
        ("read_write", &["read", "write", "read_write"]),
        ("semaphore", &["semaphore"]),
        ("permits", &["permits"]),
        ("latch", &["latch"]),
        ("fence", &["store"]),
        ("record", &["record"]),
        ("ticket", &["ticket"]),
    ];
    for (name, folders) in blocks {
        let more: BTreeSet<_> = commands_of(folders).difference(&base).cloned().collect();
        assert_eq!(block(name), more, "the rule for {name}");
        told.extend(folders);
    }
    // Those need nothing of their own but `WAIT`.
    let both: BTreeSet<_> = base.iter().cloned().chain(block("fair")).chain(block("fenced")).collect();
    assert!(commands_of(&["fenced_fair"]).is_subset(&both));
    assert!(commands_of(&["durable"]).is_subset(&base));
    assert_eq!(block("durable"), BTreeSet::from(["wait".to_owned()]));
    told.extend(["fenced_fair", "durable"]);
    // The question for the listeners of a channel is one of many that `PUBSUB` has, and a search asks for names by `SCAN`.
    let mut looks: BTreeSet<_> = commands_of(&["any"]).difference(&base).cloned().collect();
    assert!(looks.remove("pubsub"));
    looks.extend(["pubsub|numsub", "scan"].map(str::to_owned));
    assert_eq!(block("locks"), looks, "the rule for locks of any kind");
    told.insert("any");
    let all: BTreeSet<_> = script::ALL.iter().filter_map(|script| script.name().split('/').next()).collect();
    assert_eq!(told, all, "every folder of scripts has its rule");
}

#[test]
fn the_readme_names_the_rust_version() {
    let manifest = files::read("Cargo.toml");
    let version =
        manifest.lines().find_map(|line| line.strip_prefix("rust-version = ")).expect("the version").trim_matches('"');
    assert!(files::read("README.md").contains(version), "README.md names Rust {version}");
}

#[test]
fn crate_of_a_new_user_has_the_readmes_dependencies() {
    let dependencies = |text: &str| -> Vec<String> {
        let lines = text.lines().skip_while(|line| *line != "[dependencies]").skip(1);
        lines.take_while(|line| line.contains(" = ")).map(str::to_owned).collect()
    };
    let manifest = files::read("tests/newcomer/first/Cargo.toml");
    let path = r#"{ version = "0.1", path = "../../../crates/leasehold" }"#;
    let shown = dependencies(&files::read("README.md"));
    assert!(shown.len() >= 2, "README.md shows {shown:?}");
    let has: Vec<_> = dependencies(&manifest).iter().map(|line| line.replace(path, r#""0.1""#)).collect();
    assert_eq!(shown, has);
}

/// The id of a bug with which the name of a test begins: `rw13` of `rw13_one_name_for_two_kinds`. One test may have several.
fn ids_of_bugs(name: &str) -> Vec<String> {
    let is_id = |word: &&str| {
        let family = word.trim_end_matches(|last: char| last.is_ascii_digit());
        family.len() < word.len() && ["f", "rw", "s", "l", "m", "c", "fr"].contains(&family)
    };
    name.split('_').take_while(is_id).map(str::to_uppercase).collect()
}

#[test]
fn every_listed_bug_has_a_test_named_after_it() {
    let page = files::read("docs/field-bugs.md");
    let listed: BTreeSet<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" |"))
        .map(|(first, _)| first.to_owned())
        .filter(|first| !ids_of_bugs(&first.to_lowercase()).is_empty())
        .collect();
    let names = files::tracked().into_iter().filter(|file| file.has_ending("rs")).flat_map(|file| {
        let names = file.text.split("fn ").skip(1).filter_map(|rest| Some(rest.split_once('(')?.0.to_owned()));
        names.collect::<Vec<_>>()
    });
    let tested: BTreeSet<String> =
        names.filter(|name| name.contains('_')).flat_map(|name| ids_of_bugs(&name)).collect();
    assert!(listed.len() >= 50, "{listed:?}");
    let untested: Vec<_> = listed.difference(&tested).collect();
    assert!(untested.is_empty(), "docs/field-bugs.md lists {untested:?}, and no test is named after them");
}
