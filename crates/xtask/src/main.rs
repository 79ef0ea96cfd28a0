//! Development commands of the workspace: `cargo xtask <command>`.

#![expect(clippy::print_stdout, reason = "a command line tool speaks on stdout")]

mod bench;
mod book;
mod browser;
mod features;
mod forward;
mod interleave;
mod interop;
mod inventory;
mod licenses;
mod lint;
mod msrv;
mod mutate;
mod package;
mod record;
mod servers;
mod test;
mod weight;

use std::{
    path::Path,
    process::{Command, ExitCode},
};

use clap::{Parser, Subcommand};
use serde_json::Value;

#[derive(Parser)]
#[command(about = "Development commands of leasehold", version)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install Redis and Valkey for the tests, under the target directory and nowhere else
    Servers,
    /// Run all tests on every engine there is
    Test {
        /// Words for the test programs: a part of a name to filter by, or their options
        #[arg(last = true)]
        forwarded: Vec<String>,
    },
    /// Run what is done together with a real Redisson, which needs a JDK and Maven
    Interop {
        /// Parts of names of cases to filter by; or --dump, which shows what Redisson writes
        #[arg(last = true)]
        forwarded: Vec<String>,
    },
    /// Look at the web page of `leasehold serve` in Chromium, which is installed where that is possible without asking
    Browser {
        /// Parts of names of cases to filter by
        #[arg(last = true)]
        forwarded: Vec<String>,
    },
    /// Run whole clients in random worlds, from seeds; --help says more
    #[command(disable_help_flag = true)]
    Simulate(forward::Words),
    /// Run client processes on real servers while things go wrong, and check their histories; --help says more
    #[command(disable_help_flag = true)]
    Chaos(forward::Words),
    /// Break the code on purpose, one place at a time, and see who notices
    Mutate(mutate::Options),
    /// Follow everything that can happen in small worlds of whole clients; --help says more
    #[command(disable_help_flag = true)]
    Explore(forward::Words),
    /// Run the models of code that several threads share, in every order of these threads
    Interleave {
        /// Parts of names of models to filter by, or options of the test program
        #[arg(last = true)]
        forwarded: Vec<String>,
    },
    /// Run an instrument, and write its figures into docs/figures
    Record {
        instrument: record::Instrument,
        #[command(flatten)]
        words: forward::Words,
    },
    /// Check that the published crates build with the oldest toolchain that they name
    Msrv,
    /// Build the documents as a site, which needs mdBook, and check its links
    Book {
        #[arg(hide = true)]
        words: Vec<String>,
    },
    /// Check format, lints and documentation
    Lint,
    /// Rehearse the release: package and build every crate that is published
    Package {
        /// Package changes that are not committed, too
        #[arg(long)]
        allow_dirty: bool,
    },
    /// Check that the licence of every dependency is one of those that we accept
    Licenses,
    /// Build examples/axum-inventory and run its load test, on PostgreSQL where there is one, and on SQLite
    Inventory,
    /// Measure leasehold beside a floor and beside its peers, and write tables and pictures of it
    Bench(bench::Options),
    /// Measure the crates and the time of a first build of leasehold, by features, beside another lock crate
    Weight(weight::Options),
}

/// Why a task failed, as far as the command that it ran has not said so already.
type Outcome = Result<(), String>;

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Servers => servers::run(),
        Task::Test { forwarded } => test::run(&forwarded),
        Task::Interop { forwarded } => interop::run(&forwarded),
        Task::Browser { forwarded } => browser::check(&forwarded),
        Task::Simulate(words) => forward::run(forward::SIMULATE, &words.forwarded),
        Task::Chaos(words) => forward::run(forward::CHAOS, &words.forwarded),
        Task::Mutate(options) => mutate::run(&options),
        Task::Explore(words) => forward::run(forward::EXPLORE, &words.forwarded),
        Task::Interleave { forwarded } => interleave::run(&forwarded),
        Task::Record { instrument, words } => record::run(instrument, &words.forwarded),
        Task::Msrv => msrv::check(),
        Task::Book { words } => book::run_or_preprocess(&words),
        Task::Lint => lint::run(),
        Task::Package { allow_dirty } => package::run(allow_dirty),
        Task::Licenses => licenses::run(),
        Task::Inventory => inventory::run_all(),
        Task::Bench(options) => bench::run(&options),
        Task::Weight(options) => weight::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the workspace.
fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package)
}

/// The cargo that runs this program, at the root of the workspace.
fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    // The variables by which cargo tells this program of its package. Build scripts look at such variables, and would run again each time
    // that a command is started in another way.
    for (name, _) in std::env::vars_os() {
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|head| name.to_string_lossy().starts_with(head)) {
            command.env_remove(name);
        }
    }
    command
}

/// What cargo knows of the packages of the workspace.
fn metadata() -> Result<Value, String> {
    metadata_of(&["--no-deps"])
}

/// What cargo knows when it is asked with these options.
fn metadata_of(options: &[&str]) -> Result<Value, String> {
    let output = cargo(&["metadata", "--format-version", "1"]).args(options).output();
    let output = output.map_err(|error| format!("cargo metadata cannot be run: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim_end()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata is not read: {error}"))
}

/// The packages of the workspace, in what cargo knows of them.
fn packages(metadata: &Value) -> &[Value] {
    metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Shows a command, and runs it to its end.
fn run(command: &mut Command) -> Outcome {
    let shown = shown(command);
    println!("$ {shown}");
    let status = command.status().map_err(|error| format!("`{shown}` cannot be run: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{shown}` failed ({status})")) }
}

/// A command as one would type it.
fn shown(command: &Command) -> String {
    let args = command.get_args().map(|arg| arg.to_string_lossy());
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy();
    std::iter::once(program).chain(args).collect::<Vec<_>>().join(" ")
}
