//! The programs that do the work, one for each language.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::peer::{Language, Peer};

/// The command that starts a program, or the reason why it is missing.
type Program = Result<Vec<OsString>, String>;

/// The programs of the languages that a run needs.
pub(crate) struct Programs {
    built: BTreeMap<Language, Program>,
}

impl Programs {
    /// Builds the programs. A machine without Go or a JDK measures the other languages; the Rust program is required.
    pub(crate) fn build(languages: impl Iterator<Item = Language>) -> Result<Self, String> {
        let target = target()?;
        let mut built = BTreeMap::new();
        for language in languages.collect::<BTreeSet<_>>() {
            let program = match language {
                Language::Rust => Ok(rust(&target)?),
                Language::Go => go(&target),
                Language::Java => java(&target),
            };
            built.insert(language, program);
        }
        Ok(Self { built })
    }

    /// The command that starts a peer, or the reason why it is missing.
    pub(crate) fn command(&self, peer: &Peer, url: &str) -> Result<Command, String> {
        match self.built.get(&peer.language) {
            Some(Ok(words)) => {
                let mut command = Command::new(&words[0]);
                command.args(&words[1..]).args([peer.library, url]);
                Ok(command)
            }
            Some(Err(why)) => Err(why.clone()),
            None => Err("its program is not built".to_owned()),
        }
    }
}

fn rust(target: &Path) -> Program {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--release", "--package", "leasehold-bench-peers", "--bin", "peer", "--target-dir"])
        .arg(target);
    run(cargo.current_dir(root()).stderr(Stdio::inherit()))?;
    Ok(vec![target.join("release/peer").into()])
}

fn go(target: &Path) -> Program {
    let program = target.join("bench/go-peers");
    run(Command::new("go").arg("build").arg("-o").arg(&program).arg(".").current_dir(root().join("benches/peers/go")))?;
    Ok(vec![program.into()])
}

/// Compiles the peer with the project of the interop agent, which pins the version of Redisson.
fn java(target: &Path) -> Program {
    let folder = target.join("bench/java");
    // Maven would keep the old version of a library next to the new version.
    let _ = fs::remove_dir_all(&folder);
    let mut maven = Command::new("mvn");
    maven.args(["--quiet", "--batch-mode", "process-classes"]).current_dir(root().join("tests/interop"));
    maven.arg(format!("-Dagent.directory={}", folder.display()));
    maven.arg(format!("-Dagent.sources={}", root().join("benches/peers/java").display()));
    run(&mut maven)?;
    let mut path = folder.join("classes").into_os_string();
    path.push(":");
    path.push(folder.join("lib/*"));
    Ok(vec!["java".into(), "-cp".into(), path, "leasehold.bench.Peer".into()])
}

/// Runs a build to its end.
fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{program} cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let told = String::from_utf8_lossy(&[output.stderr, output.stdout].concat()).trim().to_owned();
    Err(format!("{program} failed ({}): {}", output.status, told.lines().next().unwrap_or_default()))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The target directory: this program is in `release` or `debug` below it.
fn target() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| format!("this program is not found: {error}"))?;
    program
        .ancestors()
        .nth(2)
        .map(Path::to_owned)
        .ok_or_else(|| format!("{} is in no target directory", program.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::PEERS;

    #[test]
    fn missing_language_excludes_each_of_its_peers() {
        let built = BTreeMap::from([
            (Language::Rust, Ok(vec!["peer".into()])),
            (Language::Go, Err("go cannot be run".to_owned())),
        ]);
        let programs = Programs { built };
        for peer in &PEERS {
            let command = programs.command(peer, "redis://localhost");
            match peer.language {
                Language::Rust => {
                    let args: Vec<_> = command.as_ref().expect("a command").get_args().collect();
                    assert_eq!(args, [peer.library, "redis://localhost"]);
                }
                Language::Go => assert_eq!(command.expect_err("none"), "go cannot be run"),
                Language::Java => assert_eq!(command.expect_err("none"), "its program is not built"),
            }
        }
    }
}
