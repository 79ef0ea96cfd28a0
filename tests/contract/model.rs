//! The page of the model names the functions that carry out its actions.

use crate::files;
use std::collections::BTreeSet;

const PAGE: &str = "docs/model.md";
const MODEL: &str = "crates/leasehold-model/src/model.rs";

/// The rows of the table of actions: the actions, and the words in backticks that say who carries them out.
fn rows() -> Vec<(Vec<String>, Vec<String>)> {
    let words = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let page = files::read(PAGE);
    let (_, table) = page.split_once("\n| action | carried out by |\n").expect("the page has a table of actions");
    let lines = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    lines
        .map(|line| line.trim_matches(['|', ' ']).split_once(" | ").expect("two cells"))
        .map(|(a, b)| (words(a), words(b)))
        .collect()
}

/// Where a file of the table stands.
fn place(file: &str) -> String {
    if file.starts_with("lua/") { file.to_owned() } else { format!("crates/leasehold-core/src/{file}") }
}

#[test]
fn the_page_of_the_model_names_every_action() {
    let text = files::read(MODEL);
    let body = text.split("pub enum Action {").nth(1).and_then(|rest| rest.split("\n}").next()).expect("the actions");
    let variants =
        body.lines().map(str::trim).filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()));
    let variants: BTreeSet<_> = variants
        .filter_map(|line| line.split(|next: char| !next.is_alphanumeric()).next())
        .map(str::to_owned)
        .collect();
    assert!(variants.len() > 10, "{variants:?}");
    let told: BTreeSet<_> = rows().into_iter().flat_map(|(actions, _)| actions).collect();
    assert_eq!(told, variants, "the actions of {PAGE}, and those of {MODEL}");
}

#[test]
fn functions_that_carry_out_the_model_exist() {
    let mut functions = 0;
    for (actions, words) in rows() {
        let mut file = String::new();
        for word in words {
            if word.contains('.') {
                file = place(&word);
                files::read(&file);
                continue;
            }
            let text = files::read(&file);
            let heads = [format!("fn {word}("), format!("fn {word}<"), format!("function {word}(")];
            assert!(
                heads.iter().any(|head| text.contains(head.as_str())),
                "{actions:?}: {file} has no function {word}"
            );
            functions += 1;
        }
    }
    assert!(functions > 20, "{functions} functions");
}
