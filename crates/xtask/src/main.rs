//! Development commands of the workspace: `cargo xtask <command>`.

#![expect(clippy::print_stdout, reason = "a command line tool speaks on stdout")]

mod forward;
mod interleave;
mod interop;
mod inventory;
mod lint;
mod mutate;
mod package;
mod picture;
mod servers;
mod services;
mod test;

use std::{
    path::Path,
    process::{Command, ExitCode},
};

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Development commands of leasehold", version)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install Redis and Valkey for the tests, below the target directory
    Servers,
    /// Run the behaviour suite on imitations of managed services, proxies and other implementations
    Services {
        /// Names of services; default: every service with working locks
        names: Vec<String>,
    },
    /// Run all tests on every engine
    Test {
        /// Arguments for the test programs: a part of a test name, or options
        #[arg(last = true)]
        forwarded: Vec<String>,
    },
    /// Run the tests with a real Redisson; needs a JDK and Maven
    Interop {
        /// Parts of case names to filter by; or --dump, which prints the keys that Redisson writes
        #[arg(last = true)]
        forwarded: Vec<String>,
    },
    /// Simulate clients in random worlds, from seeds; see --help
    #[command(disable_help_flag = true)]
    Simulate(forward::Words),
    /// Run client processes on real servers with injected faults, and check their histories; see --help
    #[command(disable_help_flag = true)]
    Chaos(forward::Words),
    /// Apply mutants one by one, and report the checks that detect them
    Mutate(mutate::Options),
    /// Explore every state of small worlds of clients; see --help
    #[command(disable_help_flag = true)]
    Explore(forward::Words),
    /// Run the models of shared code in every order of their threads
    Interleave {
        /// Parts of model names to filter by, or options of the test program
        #[arg(last = true)]
        forwarded: Vec<String>,
    },
    /// Check format, lints and documentation
    Lint,
    /// Rehearse the release: package and build every published crate
    Package {
        /// Also package uncommitted changes
        #[arg(long)]
        allow_dirty: bool,
    },
    /// Draw the terminal session of the quickstart: docs/figures/quickstart.svg
    Picture,
    /// Build examples/axum-inventory and run its load test, on SQLite, and on PostgreSQL if installed
    Inventory,
    /// Measure leasehold and its peers, and print tables; see --help
    #[command(disable_help_flag = true)]
    Bench(forward::Words),
}

/// The failure of a task, unless its command has already reported it.
type Outcome = Result<(), String>;

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Servers => servers::run(),
        Task::Services { names } => services::run(&names),
        Task::Test { forwarded } => test::run(&forwarded),
        Task::Interop { forwarded } => interop::run(&forwarded),
        Task::Simulate(words) => forward::run(forward::SIMULATE, &words.forwarded),
        Task::Chaos(words) => forward::run(forward::CHAOS, &words.forwarded),
        Task::Mutate(options) => mutate::run(&options),
        Task::Explore(words) => forward::run(forward::EXPLORE, &words.forwarded),
        Task::Interleave { forwarded } => interleave::run(&forwarded),
        Task::Lint => lint::run(),
        Task::Package { allow_dirty } => package::run(allow_dirty),
        Task::Picture => picture::run(),
        Task::Inventory => inventory::run_all(),
        Task::Bench(words) => forward::run(forward::BENCH, &words.forwarded),
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
