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
    /// How many clients there are; without this, several sizes are followed that come to their ends within minutes
    #[arg(long)]
    clients: Option<usize>,
    /// How many crashes and ends of leases there may be in all
    #[arg(long, default_value_t = 0, requires = "clients")]
    disturbances: u8,
    /// How many connections may be lost, with the replies on them
    #[arg(long, default_value_t = 0, requires = "clients")]
    losses: u8,
    /// Futures that are woken are polled at any time later
    #[arg(long)]
    late_polls: bool,
    /// No way is left out, not even those that come to nothing new
    #[arg(long)]
    whole: bool,
}

/// Clients, disturbances and losses of the worlds that are followed where nothing else is asked for.
const SIZES: [(usize, u8, u8); 3] = [(1, 2, 1), (2, 0, 1), (3, 0, 0)];

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let usual = SIZES.to_vec();
    let sizes = arguments.clients.map_or(usual, |clients| vec![(clients, arguments.disturbances, arguments.losses)]);
    for subject in Subject::ALL.into_iter().filter(|subject| arguments.kind.is_none_or(|kind| kind == *subject)) {
        for (clients, disturbances, losses) in sizes.iter().copied() {
            let mut options = Options::new(subject);
            (options.clients, options.disturbances, options.losses) = (clients, disturbances, losses);
            options.late_polls = arguments.late_polls;
            options.reduced = !arguments.whole;
            let size = format!("{subject}, {clients} clients, {disturbances} disturbances, {losses} losses");
            match explore(&options) {
                Ok(figures) => println!("{size}: nothing found. {figures}"),
                Err(fault) => {
                    println!("{size}: {fault}");
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    ExitCode::SUCCESS
}
