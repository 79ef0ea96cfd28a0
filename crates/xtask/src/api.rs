//! `cargo xtask api`: the public API of the published libraries, as lists that a change of it must bring along.

use crate::{Outcome, cargo, root, shown};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program that makes the list, and the version that reads what the rustdoc of this year writes.
const TOOL: &str = "cargo-public-api";
const VERSION: &str = "0.52.0";

/// The libraries whose API is promised.
const PROMISED: [&str; 2] = ["leasehold", "leasehold-tower"];

/// The internal libraries some of whose types `leasehold` shows as its own.
const SHOWN: [&str; 2] = ["leasehold-core", "leasehold-embedded"];

/// Writes the lists anew, or says where they are not what would be written.
pub(crate) fn run(check: bool) -> Outcome {
    if Command::new(TOOL).arg("--version").output().is_err() {
        return Err(format!("{TOOL} is missing: cargo install {TOOL}@{VERSION} --locked"));
    }
    let mut stale = Vec::new();
    for package in PROMISED {
        let mut lines = api_of(package)?;
        if package == "leasehold" {
            let names = shown_names(&lines);
            for inner in SHOWN {
                lines.extend(api_of(inner)?.into_iter().filter(|line| is_of(line, inner, &names)));
            }
        }
        let path = root().join("docs/api").join(format!("{package}.txt"));
        let known = fs::read_to_string(&path).unwrap_or_default();
        let changes = changes(&known, &lines);
        changes.iter().for_each(|change| println!("{package}: {change}"));
        if !check {
            write(&path, &lines)?;
        } else if !changes.is_empty() {
            stale.push(package);
        }
    }
    if stale.is_empty() {
        return Ok(());
    }
    Err(format!("the recorded API of {} is not what it is: `cargo xtask api` writes it", stale.join(" and ")))
}

/// Every public item of a library with all features, one a line. The JSON of rustdoc is a matter of nightly compilers, which a stable one
/// makes as well when it is told so.
fn api_of(package: &str) -> Result<Vec<String>, String> {
    let target = root().join("target/api");
    let mut doc = cargo(&["rustdoc", "--quiet", "--package", package, "--all-features", "--lib", "--target-dir"]);
    doc.arg(&target).args(["--", "-Z", "unstable-options", "--output-format", "json", "--cap-lints", "allow"]);
    crate::run(doc.env("RUSTC_BOOTSTRAP", "1"))?;
    let json: PathBuf = target.join("doc").join(format!("{}.json", package.replace('-', "_")));
    let mut list = Command::new(TOOL);
    // Blanket and automatic implementations are left out: tests/contract/auto_traits.rs has what is promised of those.
    list.args(["public-api", "-ss", "--rustdoc-json"]).arg(&json);
    let output = list.output().map_err(|error| format!("`{}` cannot be run: {error}", shown(&list)))?;
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stderr);
        let first = told.lines().find(|line| !line.trim().is_empty()).unwrap_or("it says nothing").to_owned();
        return Err(format!("{TOOL} {VERSION} does not read what this rustdoc writes, another version may: {first}"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// The names of the types that a library shows from others.
fn shown_names(lines: &[String]) -> BTreeSet<String> {
    let shown = lines.iter().filter_map(|line| line.strip_prefix("pub use ")?.rsplit("::").next());
    shown.map(str::to_owned).collect()
}

/// Whether a line of an internal library is about one of these types, or about what is in it.
fn is_of(line: &str, package: &str, names: &BTreeSet<String>) -> bool {
    let root = format!("{}::", package.replace('-', "_"));
    let Some((_, path)) = line.split_once(&root) else { return false };
    let end = path.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(path.len());
    !line.starts_with("pub use ") && path[..end].split("::").any(|name| names.contains(name))
}

/// The lines that are new, and those that are gone.
fn changes(known: &str, lines: &[String]) -> Vec<String> {
    let known: BTreeSet<_> = known.lines().collect();
    let now: BTreeSet<_> = lines.iter().map(String::as_str).collect();
    let gone = known.difference(&now).map(|line| format!("- {line}"));
    gone.chain(now.difference(&known).map(|line| format!("+ {line}"))).collect()
}

fn write(path: &Path, lines: &[String]) -> Outcome {
    let told = |error: std::io::Error| format!("{} cannot be written: {error}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(path)).map_err(told)?;
    fs::write(path, lines.join("\n") + "\n").map_err(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_are_shown_are_told_from_others() {
        let names = shown_names(&["pub use leasehold::HoldEnd".to_owned(), "pub mod leasehold".to_owned()]);
        for (line, is_shown) in [
            ("pub enum leasehold_core::error::HoldEnd", true),
            ("pub leasehold_core::error::HoldEnd::Released", true),
            ("impl core::fmt::Display for leasehold_core::error::HoldEnd", true),
            ("pub fn leasehold_core::hold_cell::HoldCell::ended(&self) -> leasehold_core::error::HoldEnd", false),
            ("pub mod leasehold_core::error", false),
            ("pub struct leasehold_core::error::HoldEnded", false),
        ] {
            assert_eq!(is_of(line, "leasehold-core", &names), is_shown, "{line}");
        }
    }

    #[test]
    fn what_is_gone_is_told_before_what_is_new() {
        let now = ["a", "c"].map(str::to_owned);
        assert_eq!(changes("a\nb\n", &now), ["- b", "+ c"]);
        assert_eq!(changes("c\na\n", &now), [""; 0]);
    }
}
