//! `cargo xtask bench`: leasehold beside a floor and beside its peers, everything in one run and on one server.
//!
//! Each library does the same work in a process of its own, whichever language it is written in, and is told by lines of text what to do
//! ([benches/README.md](../../../benches/README.md)). All libraries of a row are measured in turn, round after round.

mod chart;
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

use self::{
    crew::Crew, figures::Figures, page::Page, peer::PEERS, plan::Plan, programs::Programs, row::Row,
    server::BenchServer,
};
use crate::{Outcome, interop::target, record};
use clap::{Args, ValueEnum as _};
use std::{path::PathBuf, time::Instant};

#[derive(Args)]
pub(crate) struct Options {
    /// A first answer in about two minutes, with fewer rounds and smaller crowds
    #[arg(long)]
    quick: bool,
    /// The folder for the page and the charts, in the place of target/bench
    #[arg(long)]
    into: Option<PathBuf>,
    /// The rows to measure; all of them if none is named
    rows: Vec<Row>,
}

/// Measures the rows, and writes the page, the charts and the figures of every round.
pub(crate) fn run(options: &Options) -> Outcome {
    let about = record::Run::begin(&command(options));
    let plan = if options.quick { Plan::QUICK } else { Plan::FULL };
    let folder = options.into.clone().unwrap_or_else(|| target().join("bench"));
    let rows = if options.rows.is_empty() { Row::value_variants() } else { &options.rows[..] };
    let server = BenchServer::start()?;
    let wanted: Vec<_> = PEERS.iter().filter(|peer| rows.iter().any(|row| peer.rows.contains(row))).collect();
    let programs = Programs::build(wanted.iter().map(|peer| peer.language))?;
    let begun = Instant::now();
    let mut crew = Crew::new(&programs, &server, plan);
    for peer in &wanted {
        crew.look_for(peer);
    }
    let mut figures = Figures::default();
    for row in rows {
        println!("{}", row.title());
        rows::measure(*row, &mut crew, &mut figures);
        println!("  {:.0} s so far", begun.elapsed().as_secs_f64());
    }
    let failed = crew.failed();
    let mut facts = about.facts(if failed.is_empty() { "it succeeded" } else { "it failed, see below" });
    facts.push(("server", server.version()));
    facts.push(("peers", programs.versions().join(", ")));
    facts.push(("duration", format!("{:.0} s, without building", begun.elapsed().as_secs_f64())));
    let page = Page { facts: &facts, rows, figures: &figures, left_out: &crew.left_out() };
    let path = page.write(&folder)?;
    println!("{}\nwritten to {}", page.tables(), path.display());
    if failed.is_empty() { Ok(()) } else { Err(format!("these peers failed: {}", failed.join("; "))) }
}

/// The command without the folder, as a reader of the page would type it.
fn command(options: &Options) -> String {
    let rows = options.rows.iter().filter_map(Row::to_possible_value).map(|row| row.get_name().to_owned());
    let words = ["cargo xtask bench".to_owned()].into_iter().chain(options.quick.then(|| "--quick".to_owned()));
    words.chain(rows).collect::<Vec<_>>().join(" ")
}
