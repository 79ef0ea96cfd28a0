//! `cargo xtask msrv`: whether the published crates build with the oldest toolchain that they name.

use crate::{Outcome, metadata_of, packages, root, run};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};

/// The crates that a user builds; tests and tools may need a newer toolchain.
const PUBLISHED: [&str; 3] = ["leasehold", "leasehold-cli", "leasehold-tower"];

/// Looks at what their dependencies state, and builds them with all features. Where rustup cannot get the toolchain, the build is left out.
pub(crate) fn check() -> Outcome {
    let known = metadata_of(&["--locked", "--all-features"])?;
    let ours = packages(&known).iter().find(|package| package["name"] == PUBLISHED[0]);
    let version = ours.and_then(|ours| ours["rust_version"].as_str()).ok_or("the packages state no rust-version")?;
    let needed = needed(&known);
    let newer: Vec<_> = needed.iter().filter(|(_, stated)| number(stated) > number(version)).collect();
    newer.iter().for_each(|(name, stated)| println!("{name} needs Rust {stated}, and not {version}"));
    println!("{} packages are built that state a rust-version, {} of them a newer one", needed.len(), newer.len());
    if !newer.is_empty() {
        return Err(format!("a dependency does not build with the stated rust-version {version}"));
    }
    let toolchain = match toolchain(version) {
        Ok(toolchain) => toolchain,
        Err(why) => {
            println!("left out: a build with Rust {version}, because {why}");
            println!(
                "Words of the language that are newer are not found without it. `cargo xtask lint` finds newer functions of the standard library."
            );
            return Ok(());
        }
    };
    let mut command = Command::new("rustup");
    command.args(["run", &toolchain, "cargo", "check", "--locked", "--all-features", "--target-dir", "target/msrv"]);
    command.args(PUBLISHED.iter().flat_map(|package| ["--package", package]));
    // cargo has told this program of itself and of its toolchain, which are not those that are asked for.
    for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(name);
    }
    run(command.current_dir(root()))
}

/// What is built with the published crates, on any platform, and states a rust-version: its name, and that version.
fn needed(known: &Value) -> BTreeMap<String, String> {
    let nodes = list(&known["resolve"]["nodes"]).iter().map(|node| (node["id"].as_str(), list(&node["deps"])));
    let dependencies: BTreeMap<_, _> = nodes.collect();
    let is_published = |package: &&Value| PUBLISHED.iter().any(|name| package["name"] == *name);
    let mut unseen: Vec<_> =
        packages(known).iter().filter(is_published).map(|package| package["id"].as_str()).collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = unseen.pop() {
        if seen.insert(id) {
            let of = dependencies.get(&id).copied().unwrap_or_default();
            let built = of.iter().filter(|to| list(&to["dep_kinds"]).iter().any(|kind| kind["kind"] != "dev"));
            unseen.extend(built.map(|to| to["pkg"].as_str()));
        }
    }
    let built = packages(known).iter().filter(|package| seen.contains(&package["id"].as_str()));
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let stated = built.filter_map(|package| {
        let name = format!("{} {}", text(&package["name"])?, text(&package["version"])?);
        Some((name, text(&package["rust_version"])?))
    });
    stated.collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A version as numbers that can be compared.
fn number(version: &str) -> [u32; 3] {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or_default());
    [(); 3].map(|()| parts.next().unwrap_or_default())
}

/// The name by which rustup has a toolchain of this version, or gets it.
fn toolchain(version: &str) -> Result<String, String> {
    let listed = Command::new("rustup").args(["toolchain", "list"]).output().map_err(|_| "there is no rustup")?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let names = listed.lines().filter_map(|line| line.split_whitespace().next());
    if let Some(known) = names.into_iter().find(|name| is_of(name, version)) {
        return Ok(known.to_owned());
    }
    let mut install = Command::new("rustup");
    install.args(["toolchain", "install", version, "--profile", "minimal"]).stdin(Stdio::null());
    run(&mut install).map_err(|_| "rustup cannot get this toolchain here".to_owned())?;
    Ok(version.to_owned())
}

/// Whether a toolchain is of the version: `1.89.1-x86_64-unknown-linux-gnu` is of `1.89`.
fn is_of(toolchain: &str, version: &str) -> bool {
    toolchain.strip_prefix(version).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_newer_rust_version_of_what_is_built_is_found() {
        let package = |name: &str, rust: Option<&str>| json!({"id": name, "name": name, "version": "1.0.0", "rust_version": rust});
        let to = |name: &str, kind: Option<&str>| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let known = json!({
            "packages": [
                package("leasehold", Some("1.89")), package("near", None), package("far", Some("1.90.0")),
                package("build", Some("1.5")), package("test", Some("1.95")), package("apart", Some("1.96")),
            ],
            "resolve": {"nodes": [
                {"id": "leasehold", "deps": [to("near", None), to("build", Some("build")), to("test", Some("dev"))]},
                {"id": "near", "deps": [to("far", None), to("leasehold", None)]},
            ]},
        });
        let needed: Vec<_> = needed(&known).into_iter().collect();
        let expected = [("build 1.0.0", "1.5"), ("far 1.0.0", "1.90.0"), ("leasehold 1.0.0", "1.89")];
        assert_eq!(needed, expected.map(|(name, stated)| (name.to_owned(), stated.to_owned())));
        assert!(
            number("1.90.0") > number("1.89") && number("1.5") < number("1.89") && number("1.89.0") == number("1.89")
        );
    }

    #[test]
    fn toolchains_of_a_version_are_those_of_its_patches() {
        for (name, is) in
            [("1.89-x86_64", true), ("1.89.1-x86_64", true), ("1.89", true), ("1.890", false), ("stable", false)]
        {
            assert_eq!(is_of(name, "1.89"), is, "{name}");
        }
    }
}
