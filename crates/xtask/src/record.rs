//! `cargo xtask record`: runs an instrument, and writes what it printed into `docs/figures/`, with its version, its date and its machine.
//!
//! The documentation gives no figure of an instrument but those of these pages, so that each is one that a command has printed.

use std::{
    fmt::Write as _,
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use clap::ValueEnum as _;

use crate::Outcome;

/// The instruments whose figures the documentation gives.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Instrument {
    /// Random worlds
    Simulate,
    /// Client processes on real servers
    Chaos,
    /// Small worlds
    Explore,
    /// Deliberate breakages
    Mutate,
    /// Benchmarks
    Bench,
}

/// Runs the instrument with these words, shows what it prints, and writes the page. A run that fails is written down as such.
pub(crate) fn run(instrument: Instrument, words: &[String]) -> Outcome {
    let value = instrument.to_possible_value().ok_or("the instrument has no name")?;
    let name = value.get_name();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().map_err(|error| format!("the workspace is not there: {error}"))?;
    let program = std::env::current_exe().map_err(|error| format!("this program is not found: {error}"))?;
    let before = machine();
    // A commit that is made during a run is not what ran.
    let commit = said_by("git", &["describe", "--always", "--dirty", "--exclude=*"]);
    let mut child = Command::new(program)
        .arg(name)
        .args(words)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{name} cannot be run: {error}"))?;
    let mut printed = String::new();
    for line in child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).lines()) {
        let line = line.map_err(|error| format!("{name} prints what cannot be read: {error}"))?;
        println!("{line}");
        // A page names no path of a machine.
        let line = line.replace(&format!("{}/", root.display()), "");
        writeln!(printed, "{}", line.trim_end()).map_err(|error| error.to_string())?;
    }
    let status = child.wait().map_err(|error| format!("{name} cannot be waited for: {error}"))?;
    let command = [&["cargo", "xtask", name].map(str::to_owned), words].concat().join(" ");
    let facts = [
        ("command", format!("`{command}`")),
        ("version", format!("{}, commit {commit}", env!("CARGO_PKG_VERSION"))),
        ("date", said_by("date", &["-u", "+%Y-%m-%d %H:%M UTC"])),
        ("machine", before),
        ("outcome", if status.success() { "it succeeded".to_owned() } else { format!("it failed ({status})") }),
    ];
    let folder = root.join("docs/figures");
    let path = folder.join(format!("{name}.md"));
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(&path, page(name, &facts, printed.trim_end())))
        .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    if status.success() { Ok(()) } else { Err(format!("{name} failed ({status})")) }
}

/// The page of a run.
fn page(name: &str, facts: &[(&str, String)], printed: &str) -> String {
    let rows: String = facts.iter().map(|(fact, value)| format!("| {fact} | {value} |\n")).collect();
    format!(
        "# Figures of `cargo xtask {name}`\n\nFor readers of [safety](../safety.md) and [testing](../testing.md) who want the figures of the \
         last recorded run.\n`cargo xtask record {name}` wrote this page.\n\n| | |\n|---|---|\n{rows}\n```text\n{printed}\n```\n"
    )
}

/// The processors of this machine, and how busy it is.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().filter(|load| !load.is_empty()).unwrap_or("unknown").to_owned();
    format!("{cores} cores, load {load} at the start")
}

/// The words that a program prints; a word that says so where it does not.
fn said_by(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output();
    let said = output.ok().filter(|output| output.status.success());
    said.map_or_else(|| "unknown".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_facts_before_figures() {
        let page = page("chaos", &[("date", "2026-01-02".to_owned())], "0 hangs");
        let (facts, figures) = page.split_once("```text\n").expect("figures");
        assert!(facts.contains("# Figures of `cargo xtask chaos`") && facts.contains("| date | 2026-01-02 |"));
        assert_eq!(figures, "0 hangs\n```\n");
    }
}
