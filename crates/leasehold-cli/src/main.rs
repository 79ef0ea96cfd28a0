//! The command `leasehold`: runs programs under distributed locks; inspects, frees and checks locks.
//!
//! `args.rs` defines the command line, `failure.rs` the exit codes. Each subcommand is a module that returns an exit code
//! or a [`Failure`]. Only this file prints failures.

mod args;
mod bench;
mod capacity;
mod certificates;
mod config;
mod connection;
mod deadlocks;
mod doctor;
mod duration;
mod ending;
mod failure;
mod files;
mod generate;
mod http;
mod inspect;
mod look;
mod ls;
mod moment;
mod output;
mod overview;
mod people;
mod permits;
mod raw;
mod run;
mod seen;
mod serve;
mod shim;
mod shown;
mod signals;
mod similar;
mod table;
mod top;
mod unlock;
mod watch;

use args::{Cli, Task};
use clap::error::ErrorKind;
use ending::Ending;
use failure::{Exit, Failure};
use std::os::fd::AsFd as _;
use std::process::ExitCode;

/// The file descriptors that a command needs: for two runtimes, signals, and connections to one server.
const DESCRIPTORS: usize = 16;

fn main() -> ExitCode {
    // The shim has a command line of its own, which users never type.
    if let Some(words) = shim::asked_for(std::env::args_os()) {
        return ExitCode::from(shim::become_the_command(words));
    }
    let words: Vec<_> = std::env::args_os().collect();
    let json = words.iter().take_while(|word| *word != "--").any(|word| word == "--json");
    let result = match args::parse(&words) {
        Ok(mut cli) => config::complete(&mut cli).and_then(|()| perform(&cli)),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            let help = Some(error.kind()).filter(|kind| *kind == ErrorKind::DisplayHelp);
            let help = help.and_then(|_| args::long_help(&words));
            output::print(&help.unwrap_or_else(|| error.render().to_string())).map(|()| 0.into())
        }
        Err(error) => Err(Failure::of_usage(&error)),
    };
    let ending = result.unwrap_or_else(|failure| {
        if let Some(line) = failure.line(json) {
            output::complain(&line);
        }
        failure.code().into()
    });
    ending.end()
}

fn perform(cli: &Cli) -> Result<Ending, Failure> {
    match &cli.task {
        Task::Completions { shell } => generate::completions(*shell).map(|()| 0.into()),
        Task::Man => generate::man_pages().map(|()| 0.into()),
        Task::Ls(options) => in_runtime(ls::ls(options, &cli.server)),
        Task::Deadlocks => in_runtime(deadlocks::deadlocks(&cli.server)),
        Task::Watch(options) => in_runtime(watch::watch(options, &cli.server)),
        Task::Top(options) => in_runtime(top::top(options, &cli.server)),
        Task::Serve(options) => in_runtime(serve::serve(options, &cli.server)),
        Task::Inspect(options) => in_runtime(inspect::inspect(options, &cli.server)),
        Task::Unlock(options) => in_runtime(unlock::unlock(options, &cli.server)),
        Task::Permits(options) => in_runtime(capacity::permits(options, &cli.server)),
        Task::Bench(options) => in_runtime(bench::bench(options, &cli.server)),
        Task::Doctor(options) => in_runtime(doctor::doctor(options, &cli.server)),
        Task::Run(options) => in_runtime(run::run(options, &cli.server)),
        Task::Hold(options) => in_runtime(run::keep::hold(options, &cli.server)),
        Task::Release(options) => in_runtime(run::keep::release(options, &cli.server)),
        Task::Leader(options) => in_runtime(run::leader::lead(options, &cli.server)),
    }
}

/// Runs a subcommand on the main thread. The kernel kills a child when the thread that started the child ends.
fn in_runtime<E: Into<Ending>>(task: impl Future<Output = Result<E, Failure>>) -> Result<Ending, Failure> {
    has_room_for_descriptors()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::new(Exit::Other, format!("cannot start the async runtime: {error}")))?;
    let result = runtime.block_on(task);
    // Do not wait for a thread that a silent DNS resolver blocks.
    runtime.shutdown_background();
    result.map(Into::into)
}

/// Checks that this process can open enough file descriptors. Otherwise a runtime panics, or `run` retries a hopeless
/// connection.
fn has_room_for_descriptors() -> Result<(), Failure> {
    let room: std::io::Result<Vec<_>> =
        (0..DESCRIPTORS).map(|_| std::io::stderr().as_fd().try_clone_to_owned()).collect();
    room.map(drop).map_err(|error| {
        Failure::new(
            Exit::Other,
            format!("cannot open more files: {error}; raise the limit, for example with `ulimit -n 64`"),
        )
    })
}
