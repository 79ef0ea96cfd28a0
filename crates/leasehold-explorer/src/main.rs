//! The command behind `cargo xtask explore`.

#![expect(clippy::print_stdout, reason = "a command line tool speaks on stdout")]

use clap::Parser;
use leasehold_explorer::{Figures, Options, Subject, explore};
use std::process::ExitCode;

/// Explores small worlds of whole clients exhaustively, and checks the invariants in every state.
#[derive(Parser)]
#[command(name = "explore", version)]
struct Arguments {
    /// Only worlds of this kind
    #[arg(long, value_enum)]
    kind: Option<Subject>,
    /// Number of clients [default: the sizes that finish within minutes]
    #[arg(long)]
    clients: Option<usize>,
    /// Total number of crashes and held-up clients
    #[arg(long, default_value_t = 0, requires = "clients")]
    disturbances: u8,
    /// Number of lost connections
    #[arg(long, default_value_t = 0, requires = "clients")]
    losses: u8,
    /// Poll woken futures at any later time
    #[arg(long)]
    late_polls: bool,
    /// Follow every path, including redundant paths
    #[arg(long)]
    whole: bool,
    /// Print progress to stderr
    #[arg(long)]
    tell: bool,
}

/// Clients, disturbances and losses of the worlds of a kind that finish within minutes, smallest first.
fn complete(subject: Subject) -> Vec<(usize, u8, u8)> {
    match subject {
        Subject::HandOver => return vec![(1, 1, 1), (2, 1, 0), (2, 1, 1), (3, 0, 1)],
        Subject::Linger => return vec![(1, 1, 1), (2, 1, 0), (2, 0, 1)],
        _ => {}
    }
    let mut sizes = vec![(1, 2, 1), (2, 1, 1)];
    sizes.extend_from_slice(match subject {
        Subject::Reentrant => &[(2, 2, 0), (3, 0, 1), (3, 1, 1)],
        Subject::Permits => &[(2, 2, 0), (3, 2, 1)],
        Subject::ReadWrite => &[(3, 1, 1), (3, 2, 1)],
        _ => &[(3, 1, 0), (3, 1, 1), (3, 2, 0)],
    });
    sizes
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    println!("| kind | clients | disturbances | losses | states | transitions | end states | seconds |");
    println!("|---|---|---|---|---|---|---|---|");
    for subject in Subject::ALL.into_iter().filter(|subject| arguments.kind.is_none_or(|kind| kind == *subject)) {
        let asked = arguments.clients.map(|clients| vec![(clients, arguments.disturbances, arguments.losses)]);
        for (clients, disturbances, losses) in asked.unwrap_or_else(|| complete(subject)) {
            let mut options = Options::new(subject);
            (options.clients, options.disturbances, options.losses) = (clients, disturbances, losses);
            options.late_polls = arguments.late_polls;
            options.reduced = !arguments.whole;
            options.telling = arguments.tell;
            let size = format!("| {subject} | {clients} | {disturbances} | {losses} |");
            match explore(&options) {
                Ok(Figures { states, transitions, ends, took, .. }) => {
                    println!("{size} {states} | {transitions} | {ends} | {:.1} |", took.as_secs_f64());
                }
                Err(fault) => {
                    println!("{size} {fault}");
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    println!("Nothing was found.");
    ExitCode::SUCCESS
}
