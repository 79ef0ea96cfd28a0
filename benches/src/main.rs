//! Measures leasehold, a floor and its peers, in one run and on one server.
//!
//! Each library does the same work in a process of its own, whichever language it is written in. The processes read their tasks line by line
//! ([benches/README.md](../README.md)). All libraries of a row are measured in turn, round after round.

#![expect(clippy::print_stdout, reason = "the tables go to stdout")]

mod crew;
mod figures;
mod page;
mod peer;
mod plan;
mod programs;
mod row;
mod rows;
mod server;
mod worker;

use std::{
    process::{Command, ExitCode},
    time::Instant,
};

use clap::{Parser, ValueEnum as _};

use crate::{crew::Crew, figures::Figures, peer::PEERS, plan::Plan, programs::Programs, row::Row, server::BenchServer};

/// Measure leasehold, a floor and its peers, and print the tables as Markdown
#[derive(Parser)]
struct Options {
    /// Measure fewer rounds and smaller crowds, in about three minutes
    #[arg(long)]
    quick: bool,
    /// The rows to measure; all of them by default
    rows: Vec<Row>,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("bench: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Measures the rows. Progress goes to stderr, the tables to stdout.
fn run(options: &Options) -> Result<(), String> {
    let plan = if options.quick { Plan::QUICK } else { Plan::FULL };
    let rows = if options.rows.is_empty() { Row::value_variants() } else { &options.rows[..] };
    let server = BenchServer::start()?;
    let wanted: Vec<_> = PEERS.iter().filter(|peer| rows.iter().any(|row| peer.rows.contains(row))).collect();
    let programs = Programs::build(wanted.iter().map(|peer| peer.language))?;
    let commit = commit();
    let begun = Instant::now();
    let mut crew = Crew::new(&programs, &server, plan);
    for peer in &wanted {
        crew.look_for(peer);
    }
    let mut figures = Figures::default();
    for row in rows {
        eprintln!("{}", row.title());
        rows::measure(*row, &mut crew, &mut figures);
        eprintln!("  {:.0} s so far", begun.elapsed().as_secs_f64());
    }
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    println!(
        "Commit {commit}, {}, {cores} cores, {:.0} s.\n\n\
         Each figure is the median of the rounds, with the least and the greatest in brackets. A table that names a base shows ratios to that \
         base within the same round.",
        server.version(),
        begun.elapsed().as_secs_f64(),
    );
    for left_out in crew.left_out() {
        println!("\nLeft out: {left_out}");
    }
    print!("{}", page::page(rows, &figures));
    let failed = crew.failed();
    if failed.is_empty() { Ok(()) } else { Err(format!("these peers failed: {}", failed.join(", "))) }
}

/// The commit that runs, which pins the versions of the peers.
fn commit() -> String {
    let output = Command::new("git").args(["describe", "--always", "--dirty", "--exclude=*"]).output();
    let output = output.ok().filter(|output| output.status.success());
    output.map_or_else(|| "unknown".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
