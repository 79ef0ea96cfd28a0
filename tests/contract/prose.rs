//! Sentences of comments and pages name their subject: the waiter, the client, the server, the reply, the guard, the hold.
//!
//! A sentence with such a word has to be read twice, and so has one that begins with a clause in the place of its subject.

use crate::files::{self, File};
use crate::pages;
use std::collections::BTreeMap;

/// These are no subjects.
const NO_SUBJECTS: [&str; 5] = ["nobody", "somebody", "everybody", "whoever", "anybody"];

/// A sentence that begins so puts a clause before its subject, or in the place of it.
const BEGINNINGS: [&str; 5] = ["Who", "Whoever", "What", "Where", "Of"];

/// The most of both sorts among a thousand sentences of a folder that keeps the rule.
const RULE: [usize; 2] = [5, 30];

/// Folders that do not keep the rule yet: the most of both sorts that they may have, in sentences. These numbers only ever go down.
const OLD: [(&str, [usize; 2]); 1] = [("lua", [51, 13])];

/// The sentences of a file: of its comments, or of a page. Code, tables and headings are none.
fn sentences(file: &File) -> Vec<String> {
    let marks: &[&str] = match file.path.rsplit_once('.') {
        Some((_, "rs")) => &["///", "//!", "//"],
        Some((_, "lua")) => &["--"],
        Some((_, "md")) => &[""],
        _ => return Vec::new(),
    };
    let mut paragraphs = vec![String::new()];
    let mut in_code = false;
    for line in file.text.lines().map(str::trim) {
        let comment = marks.iter().find_map(|mark| line.strip_prefix(mark)).map(str::trim);
        in_code ^= comment.is_some_and(|comment| comment.starts_with("```"));
        in_code &= comment.is_some();
        let text = comment.filter(|text| !in_code && !text.is_empty() && !text.starts_with(['|', '#', '`']));
        let begins =
            text.is_none_or(|text| text.starts_with("- ") || text.starts_with(|first: char| first.is_ascii_digit()));
        if begins {
            paragraphs.push(String::new());
        }
        if let (Some(text), Some(paragraph)) = (text, paragraphs.last_mut()) {
            paragraph.push_str(text.trim_start_matches("- "));
            paragraph.push(' ');
        }
    }
    paragraphs.iter().flat_map(|paragraph| paragraph.split_inclusive(". ")).map(|one| one.trim().to_owned()).collect()
}

/// Whether a sentence lacks a subject, and whether it begins with a clause.
fn faults(sentence: &str) -> [bool; 2] {
    let words = || sentence.split(|other: char| !other.is_alphanumeric()).filter(|word| !word.is_empty());
    let nameless = words().any(|word| NO_SUBJECTS.contains(&word.to_lowercase().as_str()));
    let begins = words().next().is_some_and(|first| BEGINNINGS.contains(&first)) && !sentence.contains('?');
    [nameless, begins]
}

/// The folder under which the sentences of a file are counted.
fn folder(path: &str) -> String {
    let depth = if path.starts_with("crates/") { 3 } else { 1 };
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    parts.truncate(depth);
    parts.join("/")
}

#[test]
fn every_sentence_names_its_subject() {
    let mut counts: BTreeMap<String, (usize, [Vec<String>; 2])> = BTreeMap::new();
    // The page of the scripts repeats the sentences of `lua`, which count there.
    for file in files::tracked().into_iter().filter(|file| file.path != pages::OF_THE_SCRIPTS) {
        let (all, found) = counts.entry(folder(&file.path)).or_default();
        for sentence in sentences(&file).into_iter().filter(|sentence| sentence.contains(' ')) {
            *all += 1;
            for (sort, fault) in faults(&sentence).into_iter().enumerate() {
                if fault {
                    found[sort].push(format!("{}: {sentence}", file.path));
                }
            }
        }
    }
    let mut broken = Vec::new();
    for (folder, (all, found)) in &counts {
        let old = OLD.iter().find(|(name, _)| name == folder).map(|(_, most)| *most);
        for (sort, found) in found.iter().enumerate() {
            let most = old.map_or(all * RULE[sort] / 1_000, |old| old[sort]).max(1);
            if found.len() > most {
                let last = found[found.len().saturating_sub(5)..].join("\n");
                broken.push(format!("{folder}: {} of {all} sentences, {most} at most; the last:\n{last}", found.len()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n\n"));
}

#[test]
fn sentences_without_a_subject_are_found() {
    assert_eq!(faults("Nobody waits."), [true, false]);
    assert_eq!(faults("What is left goes."), [false, true]);
    assert_eq!(faults("Whoever comes next waits."), [true, true]);
    assert_eq!(faults("The waiter waits, because what it wants is held."), [false, false]);
    let page = File {
        path: "page.md".to_owned(),
        text:
            "# Who\n\nThe lock is held. Nobody waits\nfor it.\n\n- One item.\n- Two items.\n\n```rust\n// What\n```\n"
                .to_owned(),
    };
    let found: Vec<_> = sentences(&page).into_iter().filter(|sentence| !sentence.is_empty()).collect();
    assert_eq!(found, ["The lock is held.", "Nobody waits for it.", "One item.", "Two items."]);
}
