//! `cargo xtask msrv`: whether the published crates build with the oldest toolchain that they name.

use crate::{Outcome, metadata, packages, root, run};
use std::process::{Command, Stdio};

/// The crates that a user builds; tests and tools may need a newer toolchain.
const PUBLISHED: [&str; 3] = ["leasehold", "leasehold-cli", "leasehold-tower"];

/// Checks them with all features. Where rustup cannot get the toolchain, it says so and checks nothing.
pub(crate) fn check() -> Outcome {
    let known = metadata()?;
    let ours = packages(&known).iter().find(|package| package["name"] == PUBLISHED[0]);
    let version = ours.and_then(|ours| ours["rust_version"].as_str()).ok_or("the packages state no rust-version")?;
    let toolchain = match toolchain(version) {
        Ok(toolchain) => toolchain,
        Err(why) => {
            println!("The stated rust-version {version} is not checked: {why}.");
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
    use super::is_of;

    #[test]
    fn toolchains_of_a_version_are_those_of_its_patches() {
        for (name, is) in
            [("1.89-x86_64", true), ("1.89.1-x86_64", true), ("1.89", true), ("1.890", false), ("stable", false)]
        {
            assert_eq!(is_of(name, "1.89"), is, "{name}");
        }
    }
}
