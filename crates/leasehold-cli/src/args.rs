//! The command line. Each command that has options of its own has a file in `args/`, with its help.

mod bench;
mod dashes;
mod doctor;
mod every;
mod inspect;
mod ls;
mod permits;
mod run;
mod serve;
mod server;
mod top;
mod unlock;
mod watch;
mod words;

pub(crate) use bench::BenchOptions;
pub(crate) use dashes::parse;
pub(crate) use doctor::{CHECKS, DoctorOptions};
pub(crate) use inspect::InspectOptions;
pub(crate) use ls::LsOptions;
pub(crate) use permits::PermitsOptions;
pub(crate) use run::RunOptions;
pub(crate) use serve::ServeOptions;
pub(crate) use server::ServerOptions;
pub(crate) use top::TopOptions;
pub(crate) use unlock::UnlockOptions;
pub(crate) use watch::WatchOptions;
pub(crate) use words::{Column, KindWord};

use crate::failure;
use clap::{Parser, Subcommand};
use clap_complete::Shell;

const EXAMPLES: &str = "\
Examples:
  export LEASEHOLD_URL=redis://127.0.0.1:6379

  # one backup at a time, over all machines; wait for as long as it takes
  leasehold run backup -- pg_dump shop

  # once a night, although cron starts it on several machines whose clocks are seconds apart
  leasehold run --try --at-least 5m nightly-report -- ./report.sh";

/// Runs programs under distributed locks on Redis and Valkey, and shows, frees and checks locks
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, about, after_help = EXAMPLES)]
#[command(after_long_help = format!("{EXAMPLES}\n\n{}", failure::TABLE))]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    #[command(subcommand)]
    pub(crate) task: Task,
}

// The help of a command that has options stands with these. A doc comment here would be that of `leasehold` itself.
#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    Run(RunOptions),
    Ls(LsOptions),
    Watch(WatchOptions),
    Top(TopOptions),
    Serve(ServeOptions),
    /// Find processes that wait for each other in a circle
    ///
    /// Each line is one circle: every process waits for a lock that the next process holds. Announced programs publish
    /// the locks of their owner scopes, and `leasehold run` publishes the enclosing runs, one second after a hold or a
    /// wait began. The exit code is 1 for a deadlock. It is 77 if none was found but this user may not inspect all
    /// locks; the output names these locks.
    #[command(
        after_help = "Examples:\n  leasehold deadlocks\n  leasehold deadlocks --json | jq -r '.waits[] | [.host, .pid, .key] | @tsv'"
    )]
    Deadlocks,
    Inspect(InspectOptions),
    Unlock(UnlockOptions),
    Permits(PermitsOptions),
    Doctor(DoctorOptions),
    Bench(BenchOptions),
    /// Print completions for a shell
    #[command(after_help = "Example:\n  leasehold completions bash > /etc/bash_completion.d/leasehold")]
    Completions {
        shell: Shell,
    },
    /// Print the manual pages
    #[command(after_help = "Example:\n  leasehold man | man -l -")]
    Man,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_says_what_it_does_and_has_examples() {
        for command in Cli::command().get_subcommands() {
            let text = |text: Option<&clap::builder::StyledStr>| text.map(ToString::to_string).unwrap_or_default();
            let (about, examples) = (text(command.get_about()), text(command.get_after_help()));
            assert!(!about.is_empty() && examples.contains("leasehold "), "{}: {about:?}", command.get_name());
        }
    }
}
