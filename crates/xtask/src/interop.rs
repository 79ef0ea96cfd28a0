//! `cargo xtask interop`: what leasehold and a real Redisson do to each other on one server.

use std::{
    env, fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Outcome, cargo, root};

/// The oldest Java that the agent is built for.
const OLDEST_JAVA: u32 = 17;

/// Builds the agent where its sources have changed, and runs the cases; what is forwarded filters them by a part of their names.
pub(crate) fn run(forwarded: &[String]) -> Outcome {
    tools().map_err(|missing| {
        format!(
            "{missing}. A JDK of Java {OLDEST_JAVA} or later and Maven are needed. Install them (on Debian: apt-get install \
             default-jdk-headless maven; with Homebrew: brew install openjdk maven) and run this again"
        )
    })?;
    let classes = target().join("interop");
    build(&classes)?;
    // The cases run the program, which `cargo test` does not build for a test of another package. This uses the tests'
    // profile and features, so that no dependency is built twice.
    let selected = ["--workspace", "--all-features", "--bin", "leasehold", "--test", "interop"];
    crate::run(cargo(&["build", "--profile", "test"]).args(selected))?;
    let mut cases = cargo(&["test", "--workspace", "--all-features", "--test", "interop", "--"]);
    crate::run(cases.args(forwarded).env("LEASEHOLD_INTEROP_CLASSES", &classes))
}

/// The tools that are missing, or too old, if any.
fn tools() -> Outcome {
    let missing = [java(), tool("javac"), tool("mvn")].into_iter().filter_map(Result::err).collect::<Vec<_>>();
    if missing.is_empty() { Ok(()) } else { Err(missing.join("; ")) }
}

fn project() -> PathBuf {
    root().join("tests/interop")
}

/// Compiles the agent and fetches Redisson with Maven, unless the sources are unchanged.
fn build(classes: &Path) -> Outcome {
    let sources = fingerprint(&project().join("agent"))?;
    let stamp = classes.join("built-from");
    let is_there = ["classes", "lib"].iter().all(|part| classes.join(part).is_dir());
    if is_there && fs::read_to_string(&stamp).is_ok_and(|built| built == sources) {
        return Ok(());
    }
    // A library of another version must not stay beside the one that replaces it.
    let _ = fs::remove_dir_all(classes);
    let mut maven = Command::new("mvn");
    maven.args(["--quiet", "--batch-mode", "process-classes"]).current_dir(project());
    maven.arg(format!("-Dagent.directory={}", classes.display()));
    crate::run(&mut maven)?;
    fs::write(&stamp, sources).map_err(|error| format!("{} cannot be written: {error}", stamp.display()))
}

/// The sources below a folder, as one number.
fn fingerprint(folder: &Path) -> Result<String, String> {
    let mut files = vec![project().join("pom.xml")];
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(&folder).map_err(|error| format!("{} cannot be listed: {error}", folder.display()))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() { &mut folders } else { &mut files }.push(path);
        }
    }
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        let text = fs::read(&file).map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
        (file, text).hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

/// Whether there is a Java that is new enough.
fn java() -> Result<(), String> {
    let output = Command::new("java").arg("-version").output().map_err(|_| "java is missing".to_owned())?;
    let text = String::from_utf8_lossy(&output.stderr);
    match version(&text) {
        Some(major) if major >= OLDEST_JAVA => Ok(()),
        Some(major) => Err(format!("java is of version {major}")),
        None => Err(format!("java does not run: {}", text.lines().next().unwrap_or("it says nothing"))),
    }
}

/// The first number of a version, such as 17 of `openjdk version "17.0.15" 2025-04-15`, or 1 of `"1.8.0_402"`.
fn version(text: &str) -> Option<u32> {
    let quoted = text.split('"').nth(1)?;
    quoted.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn tool(name: &str) -> Result<(), String> {
    let output = Command::new(name).arg("-version").output().map_err(|_| format!("{name} is missing"))?;
    if output.status.success() { Ok(()) } else { Err(format!("{name} does not run ({})", output.status)) }
}

/// The target directory, which cargo marks, wherever the user told it to be.
fn target() -> PathBuf {
    let exe = env::current_exe().ok();
    let marked = exe.iter().flat_map(|exe| exe.ancestors()).find(|dir| dir.join("CACHEDIR.TAG").is_file());
    marked.map_or_else(|| root().join("target"), Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_java_are_read() {
        assert_eq!(version("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime"), Some(17));
        assert_eq!(version("openjdk version \"21\" 2023-09-19"), Some(21));
        assert_eq!(version("openjdk version \"25-ea\" 2025-09-16"), Some(25));
        assert_eq!(version("java version \"1.8.0_402\""), Some(1));
        assert_eq!(version("no such thing"), None);
    }
}
