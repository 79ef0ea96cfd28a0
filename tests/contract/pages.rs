//! The pages that repeat the headers of the scripts: this file writes them, so that the header alone is edited.

use crate::files;
use crate::header::{Header, Slot};
use crate::lua;
use std::env;
use std::fmt::Write as _;
use std::fs;

/// The appendix of the wire protocol, which has a section for each script.
pub(crate) const OF_THE_SCRIPTS: &str = "docs/scripts.md";

/// The page that has the table of the scripts, between two marks.
const OF_THE_FILES: &str = "lua/README.md";
const MARKS: [&str; 2] = ["<!-- The table is written by `cargo xtask docs`. -->\n", "<!-- The end of the table. -->\n"];

/// Says so where the pages shall be written, and not compared.
const WRITE: &str = "LEASEHOLD_DOCS";

const OPENING: &str = "# The scripts

This appendix of the [wire protocol](wire-protocol.md) lists the slots, the replies and an example of each script. It is for people who call
a script from another language, and for people who change one. `cargo xtask docs` generates it from the headers of the files below
[`lua/`](../lua/README.md): edit a header, and not this page. What keys, fields and channels are called, and what the client makes of a
reply, stands in [wire-protocol.md](wire-protocol.md).
";

/// The kinds in the order of the appendix, each with the folders of its scripts.
const KINDS: [(&str, &[&str]); 12] = [
    ("Reentrant lock", &["lock"]),
    ("Fair lock", &["fair", "fenced_fair"]),
    ("Fenced lock", &["fenced"]),
    ("Simple lock", &["simple"]),
    ("Read-write lock", &["read", "write", "read_write"]),
    ("Semaphore", &["semaphore"]),
    ("Leased semaphore", &["permits"]),
    ("Count-down latch", &["latch"]),
    ("Fenced store", &["store"]),
    ("A lock of any kind", &["any"]),
    ("Record of a client", &["record"]),
    ("Replica acknowledgement", &["durable"]),
];

fn folder(script: &str) -> &str {
    script.split('/').next().unwrap_or_default()
}

/// The whole appendix.
fn page_of_the_scripts() -> String {
    let scripts = lua::scripts();
    let mut page = OPENING.to_owned();
    let mut told = 0;
    for (kind, folders) in KINDS {
        write!(page, "\n## {kind}\n").expect("a text takes everything");
        for folder_of_kind in folders {
            for (script, _, header) in scripts.iter().filter(|(script, ..)| folder(script.name()) == *folder_of_kind) {
                page.push_str(&section(script.name(), header));
                told += 1;
            }
        }
    }
    assert_eq!(told, scripts.len(), "each folder of scripts belongs to one kind of KINDS");
    page
}

/// What the header of one script says.
fn section(name: &str, header: &Header) -> String {
    let slots = |table: &str, slots: &[Slot]| -> String {
        let row = |slot: &Slot| {
            let Slot { index, word, sort, meaning } = slot;
            format!("| `{table}[{index}]` | {word} | {sort} | {} |\n", cell(meaning))
        };
        slots.iter().map(row).collect()
    };
    let mut section =
        format!("\n### `{name}`\n\n{}\n\n| slot | name | type | meaning |\n|---|---|---|---|\n", header.purpose);
    section += &slots("KEYS", &header.keys);
    section += &slots("ARGV", &header.args);
    match &header.returns[..] {
        // The replies of a repeated script are told in words.
        [only] if only.reply.is_empty() => {
            section += &format!("\nReturns {}.\n", only.meaning.replace("...} ", "...}; "));
        }
        rows => {
            section += "\n| reply | meaning |\n|---|---|\n";
            for row in rows {
                section += &format!("| `{}` | {} |\n", row.reply, cell(&row.meaning));
            }
        }
    }
    if !header.notes.is_empty() {
        section += &format!("\nIn the replies, {}.\n", header.notes);
    }
    let example = &header.example;
    section += &format!("\n```text\nKEYS     {}\n", example.keys.join(" "));
    if !example.args.is_empty() {
        section += &format!("ARGV     {}\n", example.args.join(" "));
    }
    section + &format!("returns  {}\n```\n", example.returns)
}

/// A text as it may stand in a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The table of the files: a row for each script, with its preludes and the first sentence of its header.
fn table_of_the_files() -> String {
    let preludes = lua::preludes();
    let mut table = "\n| script | preludes | does |\n|---|---|---|\n".to_owned();
    for (script, file, header) in lua::scripts() {
        let included = lua::included(script, &file, &preludes);
        let included: Vec<_> = included.iter().map(|name| name.trim_start_matches("shared/")).collect();
        let first = header.purpose.split_inclusive(". ").next().unwrap_or_default().trim();
        table += &format!("| `{}` | {} | {} |\n", script.name(), included.join(", "), cell(first));
    }
    table + "\n"
}

/// The page with another text between its marks.
fn with_between_marks(page: &str, between: &str) -> String {
    let [from, to] = MARKS.map(|mark| page.find(mark).unwrap_or_else(|| panic!("{OF_THE_FILES} has the line {mark}")));
    format!("{}{between}{}", &page[..from + MARKS[0].len()], &page[to..])
}

#[test]
fn a_changed_header_shows_in_the_pages_written_from_it() {
    let files = files::read(OF_THE_FILES);
    let pages =
        [(OF_THE_SCRIPTS, page_of_the_scripts()), (OF_THE_FILES, with_between_marks(&files, &table_of_the_files()))];
    for (path, text) in pages {
        let at = files::root().join(path);
        if env::var_os(WRITE).is_some_and(|word| word == "write") {
            fs::write(&at, &text).expect("the page can be written");
        }
        let is = fs::read_to_string(&at).unwrap_or_default();
        assert!(is == text, "{path} does not say what the headers of lua/ say: run `cargo xtask docs`");
    }
}

#[test]
fn a_text_between_marks_leaves_the_rest_as_it_is() {
    let page = format!("before\n{}old\n{}behind\n", MARKS[0], MARKS[1]);
    assert_eq!(with_between_marks(&page, "new\n"), page.replace("old", "new"));
}
