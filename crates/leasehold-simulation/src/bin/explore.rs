//! The command behind `cargo xtask explore`.

#![expect(clippy::print_stdout, reason = "a command line tool speaks on stdout")]

use clap::Parser;
use leasehold_simulation::explore::{Options, Subject, explore};
use std::process::ExitCode;

/// Follows everything that can happen in small worlds of whole clients, and checks what must hold in every state.
#[derive(Parser)]
#[command(name = "explore", version)]
struct Arguments {
    /// Only worlds of this kind
    #[arg(long, value_enum)]
    kind: Option<Subject>,
    /// How many clients there are
    #[arg(long, default_value_t = 3)]
    clients: usize,
    /// How many crashes and ends of leases there may be in all
    #[arg(long, default_value_t = 2)]
    disturbances: u8,
    /// How many connections may be lost, with the replies on them
    #[arg(long, default_value_t = 1)]
    losses: u8,
    /// Futures that are woken are polled at any time later
    #[arg(long)]
    late_polls: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    for subject in Subject::ALL.into_iter().filter(|subject| arguments.kind.is_none_or(|kind| kind == *subject)) {
        let mut options = Options::new(subject);
        options.clients = arguments.clients;
        options.disturbances = arguments.disturbances;
        options.losses = arguments.losses;
        options.late_polls = arguments.late_polls;
        match explore(&options) {
            Ok(figures) => println!("{subject}: nothing found. {figures}"),
            Err(fault) => {
                println!("{subject}: {fault}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
