//! `cargo xtask record`: runs an instrument, and writes what it printed into `docs/figures/`, with its version, its date and its machine.
//!
//! The documentation gives no figure of an instrument but those of these pages, so that each is one that a command has printed.

use std::{
    fmt::Write as _,
    fs,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use clap::ValueEnum as _;

use crate::{Outcome, root};

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
    /// Builds of a new user
    Weight,
}

impl Instrument {
    /// The pages that rest on its figures.
    const fn readers(self) -> &'static str {
        match self {
            Self::Weight => "[dependencies](../dependencies.md)",
            _ => "[safety](../safety.md) and [testing](../testing.md)",
        }
    }
}

/// Runs the instrument with these words, shows what it prints, and writes the page. A run that fails is written down as such.
pub(crate) fn run(instrument: Instrument, words: &[String]) -> Outcome {
    let value = instrument.to_possible_value().ok_or("the instrument has no name")?;
    let name = value.get_name();
    let root = root();
    let program = std::env::current_exe().map_err(|error| format!("this program is not found: {error}"))?;
    let mut command = Command::new(program);
    command.arg(name).args(words);
    let folder = root.join("docs/figures");
    if matches!(instrument, Instrument::Bench) {
        // It makes tables and pictures of its figures, and writes its page by itself.
        return crate::run(command.arg("--into").arg(folder));
    }
    let about = Run::begin(&[&["cargo", "xtask", name].map(str::to_owned), words].concat().join(" "));
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| format!("{name} cannot be run: {error}"))?;
    let mut printed = String::new();
    for line in child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).lines()) {
        let line = line.map_err(|error| format!("{name} prints what cannot be read: {error}"))?;
        println!("{line}");
        // A page names no path of a machine.
        let line = line.replace(&format!("{}/", root.display()), "");
        writeln!(printed, "{}", line.trim_end()).map_err(|error| error.to_string())?;
    }
    let status = child.wait().map_err(|error| format!("{name} cannot be waited for: {error}"))?;
    let facts =
        about.facts(&if status.success() { "it succeeded".to_owned() } else { format!("it failed ({status})") });
    let path = folder.join(format!("{name}.md"));
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(&path, page(name, instrument.readers(), &facts, printed.trim_end())))
        .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    if status.success() { Ok(()) } else { Err(format!("{name} failed ({status})")) }
}

/// The facts that are known when a run begins.
pub(crate) struct Run {
    command: String,
    commit: String,
    machine: String,
}

impl Run {
    pub(crate) fn begin(command: &str) -> Self {
        // A commit that is made during a run is not what ran.
        let commit = said_by("git", &["describe", "--always", "--dirty", "--exclude=*"]);
        Self { command: command.to_owned(), commit, machine: machine() }
    }

    /// The facts that every page has.
    pub(crate) fn facts(self, outcome: &str) -> Vec<(&'static str, String)> {
        vec![
            ("command", format!("`{}`", self.command)),
            ("version", format!("{}, commit {}", env!("CARGO_PKG_VERSION"), self.commit)),
            ("date", said_by("date", &["-u", "+%Y-%m-%d %H:%M UTC"])),
            ("machine", format!("{}, {} at the end", self.machine, load())),
            ("outcome", outcome.to_owned()),
        ]
    }
}

/// The facts as a table.
pub(crate) fn table(facts: &[(&str, String)]) -> String {
    let rows: String = facts.iter().map(|(fact, value)| format!("| {fact} | {value} |\n")).collect();
    format!("| | |\n|---|---|\n{rows}")
}

/// The page of a run.
fn page(name: &str, readers: &str, facts: &[(&str, String)], printed: &str) -> String {
    format!(
        "# Figures of `cargo xtask {name}`\n\nFor readers of {readers} who want the figures of the last recorded run.\n`cargo xtask record {name}` wrote this page.\n\n{}\n```text\n{printed}\n```\n",
        table(facts)
    )
}

/// The processors of this machine, and how busy it is.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    format!("{cores} cores, load {} at the start", load())
}

fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().filter(|load| !load.is_empty()).unwrap_or("unknown").to_owned()
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
        let page = page("chaos", Instrument::Chaos.readers(), &[("date", "2026-01-02".to_owned())], "0 hangs");
        let (facts, figures) = page.split_once("```text\n").expect("figures");
        assert!(facts.contains("# Figures of `cargo xtask chaos`") && facts.contains("| date | 2026-01-02 |"));
        assert_eq!(figures, "0 hangs\n```\n");
    }
}
