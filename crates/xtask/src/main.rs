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
    /// Install Redis and Valkey for the tests, under the target directory and nowhere else
    Servers,
    /// Run the behaviour suite on imitations of managed services, proxies and other implementations
    Services {
        /// Names of services; default: all on which locks work
        names: Vec<String>,
    },
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
    /// Check format, lints and documentation
    Lint,
    /// Rehearse the release: package and build every crate that is published
    Package {
        /// Package changes that are not committed, too
        #[arg(long)]
        allow_dirty: bool,
    },
    /// Draw the terminal session of the quickstart: docs/figures/quickstart.svg
    Picture,
    /// Build examples/axum-inventory and run its load test, on PostgreSQL where there is one, and on SQLite
    Inventory,
    /// Measure leasehold and its peers, and print tables; see --help
    #[command(disable_help_flag = true)]
    Bench(forward::Words),
}

/// Why a task failed, as far as the command that it ran has not said so already.
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
