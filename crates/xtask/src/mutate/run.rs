//! Running a detector: its build, and then its programs, each with a limit of time.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use leasehold_test_support::binaries;

use super::mutant::Detector;
use crate::interleave::with_loom;
use crate::{cargo, shown};

/// How a detector ended.
pub(super) enum Verdict {
    /// It found nothing.
    Passed,
    /// It failed, after so long and with this finding.
    Failed { after: Duration, finding: String },
    /// It could not be built.
    NotBuilt(String),
}

/// How a program ended.
#[derive(Clone, Copy)]
enum End {
    Passed,
    Failed,
    /// Not by itself, within its time.
    Hung,
}

/// The folder in which detectors are run.
pub(super) struct Run<'a> {
    /// The copy of the workspace.
    pub(super) tree: &'a Path,
    /// Its target directory, and the output of what is run.
    pub(super) folder: &'a Path,
    /// A program that runs for longer has failed.
    pub(super) limit: Duration,
}

impl Run<'_> {
    /// Builds and runs a detector.
    pub(super) fn run(&self, detector: &Detector) -> Result<Verdict, String> {
        let programs = match self.build(detector)? {
            Ok(programs) => programs,
            Err(output) => return Ok(Verdict::NotBuilt(output)),
        };
        let began = Instant::now();
        let mut tests = 0;
        for (program, package) in &programs {
            let mut command = Command::new(program);
            match detector {
                // The finding is all that counts, and a world need not be made small for that.
                Detector::Simulation(args) => command.args(args).arg("--no-shrink"),
                Detector::Test(_, args) | Detector::Interleaving(_, args) => command.args(args),
            };
            command.current_dir(package);
            let (end, output) = self.finish(command)?;
            let finding = match end {
                End::Passed => None,
                End::Failed => {
                    // A detector that fails for another reason than what it looks for, such as arguments that it does not know, has caught
                    // nothing.
                    let last = output.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
                    Some(
                        first_finding(&output)
                            .ok_or_else(|| format!("`{detector}` failed and has found nothing: {last}"))?,
                    )
                }
                End::Hung => Some(format!("no end within {} s", self.limit.as_secs())),
            };
            if let Some(finding) = finding {
                return Ok(Verdict::Failed { after: began.elapsed(), finding });
            }
            tests += passed(&output);
        }
        if !matches!(detector, Detector::Simulation(_)) && tests == 0 {
            return Err(format!("`{detector}` runs no test"));
        }
        Ok(Verdict::Passed)
    }

    /// The programs of a detector, each with the folder of its package; or what the compiler said.
    fn build(&self, detector: &Detector) -> Result<Result<Vec<(PathBuf, PathBuf)>, String>, String> {
        let mut command = match detector {
            Detector::Simulation(_) => {
                let package = "leasehold-simulation";
                cargo(&["build", "--profile", "test", "--package", package, "--bin", package])
            }
            Detector::Test(args, _) | Detector::Interleaving(args, _) => {
                let mut command = cargo(&["test", "--no-run"]);
                command.args(args);
                command
            }
        };
        command.args(["--quiet", "--message-format", "json-render-diagnostics"]);
        command
            .current_dir(self.tree)
            .env("CARGO_TARGET_DIR", self.folder.join("target"))
            .env("CARGO_INCREMENTAL", "1");
        if matches!(detector, Detector::Interleaving(..)) {
            command = with_loom(command, &self.folder.join("target"));
        }
        let output = command.output().map_err(|error| format!("`{}` cannot be run: {error}", shown(&command)))?;
        if !output.status.success() {
            let output = String::from_utf8_lossy(&output.stderr);
            let first = output.lines().find(|line| line.starts_with("error")).unwrap_or("cargo failed");
            return Ok(Err(first.to_owned()));
        }
        let is_test = !matches!(detector, Detector::Simulation(_));
        let lines = String::from_utf8_lossy(&output.stdout);
        let programs: Vec<_> = lines
            .lines()
            .filter(|line| line.contains("\"test\":true},\"features\"") == is_test)
            .filter_map(|line| {
                let manifest = PathBuf::from(text_of(line, "manifest_path")?);
                Some((PathBuf::from(text_of(line, "executable")?), manifest.parent()?.to_owned()))
            })
            .collect();
        if programs.is_empty() { Err(format!("`{detector}` builds no program")) } else { Ok(Ok(programs)) }
    }

    /// Runs a program to its end, or to the end of its time.
    fn finish(&self, mut command: Command) -> Result<(End, String), String> {
        let path = self.folder.join("output.txt");
        let failed = |error: std::io::Error| format!("the output of `{}` is lost: {error}", path.display());
        let file = File::create(&path).map_err(failed)?;
        let both = file.try_clone().map_err(failed)?;
        let servers = std::env::join_paths(binaries().iter().map(|binary| binary.path.clone())).unwrap_or_default();
        if !servers.is_empty() {
            command.env("LEASEHOLD_SERVERS", servers);
        }
        command.env("RUST_BACKTRACE", "0");
        command.stdin(Stdio::null()).stdout(file).stderr(both);
        let mut child = command.spawn().map_err(|error| format!("`{}` cannot be run: {error}", shown(&command)))?;
        let until = Instant::now() + self.limit;
        let end = loop {
            if let Some(status) = child.try_wait().map_err(failed)? {
                break if status.success() { End::Passed } else { End::Failed };
            }
            if Instant::now() >= until {
                // It may have ended just now.
                let _ = child.kill();
                let _ = child.wait();
                break End::Hung;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let output = fs::read(&path).map_err(failed)?;
        Ok((end, String::from_utf8_lossy(&output).into_owned()))
    }
}

/// The value of a text in a line of JSON. Paths have nothing in them that would be escaped, elsewhere than on Windows.
fn text_of(line: &str, name: &str) -> Option<String> {
    let (_, rest) = line.split_once(&format!("\"{name}\":\""))?;
    Some(rest.split('"').next()?.replace("\\\\", "\\"))
}

/// How many tests a program says that have passed.
fn passed(output: &str) -> u64 {
    let count = |line: &str| line.strip_prefix("test result: ok. ")?.split(' ').next()?.parse::<u64>().ok();
    output.lines().filter_map(count).sum()
}

/// The first finding of a failure: the world that failed, or the first panic with the test that it happened in. `None` where it names
/// neither.
fn first_finding(output: &str) -> Option<String> {
    let mut lines = output.lines();
    let world = output.lines().find_map(|line| line.strip_prefix("the world of "));
    if let Some(world) = world {
        return Some(world.to_owned());
    }
    let failed = output.lines().find_map(|line| line.strip_prefix("---- ")?.strip_suffix(" stdout ----"));
    let panic = lines.by_ref().find(|line| line.contains(" panicked at "));
    let mut message = lines.find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned();
    if message.ends_with("failed") {
        // The compared values stand in the next two lines.
        lines.take(2).for_each(|line| message.extend([", ", line.trim()]));
    }
    match (failed, panic) {
        (Some(test), Some(_)) => Some(format!("{test}: {message}")),
        (None, Some(_)) => Some(message),
        (Some(test), None) => Some(test.to_owned()),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_is_told() {
        let output = "running 2 tests\ntest a::b ... FAILED\n\nfailures:\n\n---- a::b stdout ----\n\n\
                      thread 'a::b' (7) panicked at tests/x.rs:1:1:\nassertion failed: held\nnote: run\n";
        assert_eq!(first_finding(output).as_deref(), Some("a::b: assertion failed: held"));
        let output =
            "thread '<unnamed>' panicked at x.rs:1:1:\nboom\nthe world of seed 3 fails: boom\nits history: x\n";
        assert_eq!(first_finding(output).as_deref(), Some("seed 3 fails: boom"));
    }

    #[test]
    fn program_with_unknown_arguments_has_found_nothing() {
        let output = "error: unexpected argument '--seeds' found\n\nFor more information, try '--help'.\n";
        assert_eq!(first_finding(output), None);
    }

    #[test]
    fn tests_that_passed_are_counted() {
        assert_eq!(passed("test result: ok. 12 passed; 0 failed\n\ntest result: ok. 1 passed; 0 failed"), 13);
        assert_eq!(passed("running 0 tests"), 0);
    }

    #[test]
    fn programs_are_found_in_what_cargo_says() {
        let line = r#"{"reason":"compiler-artifact","manifest_path":"/w/Cargo.toml","executable":"/t/deps/a-1"}"#;
        assert_eq!(text_of(line, "executable").as_deref(), Some("/t/deps/a-1"));
        assert_eq!(text_of(r#"{"executable":null}"#, "executable"), None);
    }
}
