//! The command line. Every command with its own options has a file in `args/`, including its help.

mod bench;
mod dashes;
mod doctor;
mod every;
mod help;
mod hold;
mod inspect;
mod leader;
mod ls;
mod permits;
mod records;
mod run;
mod schedule;
mod serve;
mod server;
mod top;
mod unlock;
mod watch;
mod words;

pub(crate) use bench::BenchOptions;
pub(crate) use dashes::parse;
pub(crate) use doctor::{CHECKS, DoctorOptions};
pub(crate) use help::long as long_help;
pub(crate) use hold::{HoldOptions, ReleaseOptions};
pub(crate) use inspect::InspectOptions;
pub(crate) use leader::LeaderOptions;
pub(crate) use ls::LsOptions;
pub(crate) use permits::PermitsOptions;
pub(crate) use records::RecordOptions;
pub(crate) use run::RunOptions;
pub(crate) use schedule::{At, Every};
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

  # one backup at a time across all machines; wait without a limit
  leasehold run backup -- pg_dump shop

  # once a night, although cron starts it on several hosts
  leasehold run --once 1d --at 02:00 nightly-report -- ./report.sh";

/// Run programs under distributed locks on Redis or Valkey; inspect, free and check locks
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, about, after_help = EXAMPLES)]
#[command(after_long_help = format!("{EXAMPLES}\n\n{}", failure::TABLE))]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    #[command(subcommand)]
    pub(crate) task: Task,
}

// The help of a command with options is in its own file. A doc comment here would become the help of `leasehold`.
#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    Run(RunOptions),
    Leader(LeaderOptions),
    Hold(HoldOptions),
    Release(ReleaseOptions),
    Ls(LsOptions),
    Watch(WatchOptions),
    Top(TopOptions),
    Serve(ServeOptions),
    /// Find deadlocks between announced processes
    ///
    /// Each line is a deadlock: a cycle in which every process waits for a lock that the next process holds. Announced
    /// programs publish the locks of their owner scopes, and `leasehold run` publishes the enclosing runs. A hold or a
    /// wait appears after its first second. The exit code is 1 for a deadlock. It is 77 if no deadlock was found but
    /// some locks could not be inspected; the error lists these locks.
    #[command(
        after_help = "Examples:\n  leasehold deadlocks\n  leasehold deadlocks --json | jq -r '.waits[] | [.host, .pid, .key] | @tsv'"
    )]
    Deadlocks,
    Inspect(InspectOptions),
    Unlock(UnlockOptions),
    Permits(PermitsOptions),
    Doctor(DoctorOptions),
    Bench(BenchOptions),
    /// Print shell completions
    #[command(after_help = "Example:\n  leasehold completions bash > /etc/bash_completion.d/leasehold")]
    Completions {
        /// Shell to generate completions for
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
