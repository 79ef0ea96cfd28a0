//! The command behind `cargo xtask simulate`.

#![expect(clippy::print_stdout, reason = "a command line tool speaks on stdout")]

use clap::Parser;
use clap::ValueEnum;
use leasehold_simulation::{Failure, LockFamily, Mask, Options, Shrunk, replay, replay_without, run, shrink};
use std::process::ExitCode;
use std::time::Duration;

/// Worlds are made of many small values, which are taken and given back without end.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs random worlds of whole clients, and checks what must hold in every one of them.
#[derive(Parser)]
#[command(name = "simulate", version)]
struct Arguments {
    /// How many worlds to run
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// The first of them; `random` begins anywhere
    #[arg(long, default_value = "0", value_parser = first_seed)]
    from: u64,
    /// Run the world of this seed alone, and tell its history on standard error
    #[arg(long)]
    seed: Option<u64>,
    /// Shrink the world of `seed`: remove everything that is not needed for the failure
    #[arg(long, requires = "seed", conflicts_with = "without")]
    shrink: bool,
    /// Run the world of `seed` without some of its parts, as `o3,o7-12,f2,c1,rates:lose_notice`: operations and what gives back
    /// (o, g), planned faults (f), clients (c), locks (l), threads of JVMs (j), and chances of faults
    #[arg(long, requires = "seed")]
    without: Option<Mask>,
    /// Tell the world that failed as it is; otherwise it is made small, which takes up to a minute
    #[arg(long)]
    no_shrink: bool,
    /// Only locks of this family
    #[arg(long, value_enum)]
    kind: Option<LockFamily>,
    /// Begin no new world after so many minutes
    #[arg(long)]
    minutes: Option<f64>,
    /// Tell the digest of the histories of each family, `seeds` worlds of each: a change that is to change nothing leaves it as it is
    #[arg(long, conflicts_with_all = ["seed", "minutes"])]
    digest: bool,
    /// How many worlds run at once; one for each core, if not given
    #[arg(long)]
    threads: Option<usize>,
}

/// So many worlds must come to everything that worlds are for.
const ENOUGH: u64 = 4_000;

fn first_seed(text: &str) -> Result<u64, String> {
    if text == "random" {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        return Ok(since.map_or(0, |since| u64::from(since.subsec_nanos()) * 1_000_003 + since.as_secs() % 1_000_003));
    }
    text.parse().map_err(|_| "neither a number nor `random`".to_owned())
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(seed) = arguments.seed {
        let family = arguments.kind.unwrap_or_else(|| LockFamily::of_seed(seed));
        if arguments.shrink {
            return shrink_seed(seed, family);
        }
        if let Some(mask) = arguments.without {
            return without(seed, family, mask);
        }
        return match replay(seed, arguments.kind) {
            Ok(()) => {
                println!("the world of seed {seed} ends well");
                ExitCode::SUCCESS
            }
            Err(failure) => {
                println!("the world of seed {seed} fails: {}", failure.what);
                ExitCode::FAILURE
            }
        };
    }
    let mut options = Options::default();
    options.from = arguments.from;
    options.seeds = arguments.seeds;
    options.telling = true;
    options.family = arguments.kind;
    options.at_most = arguments.minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0));
    options.threads =
        arguments.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
    if arguments.digest {
        return digest(&options);
    }
    match run(&options) {
        Ok(report) => {
            println!("first seed          {}\n{report}", arguments.from);
            let missing = report.missing();
            if arguments.kind.is_none() && report.histories >= ENOUGH && !missing.is_empty() {
                println!("\nno world came to this: {}", missing.join("; "));
                return ExitCode::FAILURE;
            }
            ExitCode::SUCCESS
        }
        Err(failure) => show(&failure, arguments.kind, !arguments.no_shrink),
    }
}

/// Making a world small takes no longer than this.
const SHRINKING: Duration = Duration::from_secs(60);

/// Tells of a world that failed, and its history: that of a smaller one, if it is to be made small.
fn show(failure: &Failure, family: Option<LockFamily>, small: bool) -> ExitCode {
    let kind = family.map(|family| format!(" --kind {family}")).unwrap_or_default();
    println!("the world of seed {} fails: {}", failure.seed, failure.what);
    println!("to see it again: cargo xtask simulate --seed {}{kind}", failure.seed);
    let of_seed = family.unwrap_or_else(|| LockFamily::of_seed(failure.seed));
    match small.then(|| shrink(failure.seed, of_seed, SHRINKING)).flatten() {
        Some(shrunk) => show_small(failure.seed, of_seed, shrunk),
        None => {
            println!("its history follows on standard error");
            drop(replay(failure.seed, family));
        }
    }
    ExitCode::FAILURE
}

/// Tells what is left of a world, and the history of that.
fn show_small(seed: u64, family: LockFamily, shrunk: Shrunk) {
    let (before, after) = shrunk.steps;
    println!(
        "of {before} operations and faults before the failure {after} are left, after {} worlds in {:.1} s",
        shrunk.tries,
        shrunk.took.as_secs_f64()
    );
    if !shrunk.is_least {
        println!("the time was over before nothing more could be left out");
    }
    println!("the small world fails: {}", shrunk.what);
    println!("to see it again: cargo xtask simulate --seed {seed} --kind {family} --without {}", shrunk.mask);
    println!("its history follows on standard error");
    drop(replay_without(seed, family, shrunk.mask));
}

/// Makes the world of a seed small.
fn shrink_seed(seed: u64, family: LockFamily) -> ExitCode {
    match shrink(seed, family, SHRINKING) {
        Some(shrunk) => {
            show_small(seed, family, shrunk);
            ExitCode::FAILURE
        }
        None => {
            println!("the world of seed {seed} ends well");
            ExitCode::SUCCESS
        }
    }
}

/// Runs the world of a seed without some of its parts.
fn without(seed: u64, family: LockFamily, mask: Mask) -> ExitCode {
    match replay_without(seed, family, mask) {
        Some(what) => {
            println!("the world of seed {seed} fails: {what}");
            ExitCode::FAILURE
        }
        None => {
            println!("the world of seed {seed} ends well");
            ExitCode::SUCCESS
        }
    }
}

/// Runs the worlds of each family, and tells their digests.
fn digest(options: &Options) -> ExitCode {
    for family in LockFamily::value_variants() {
        if options.family.is_some_and(|only| only != *family) {
            continue;
        }
        let mut of_family = options.clone();
        of_family.family = Some(*family);
        match run(&of_family) {
            Ok(report) => {
                println!(
                    "{:<14} {:>9} histories {:>12} steps  {:016x}",
                    family.to_string(),
                    report.histories,
                    report.steps(),
                    report.digest()
                );
            }
            Err(failure) => return show(&failure, Some(*family), false),
        }
    }
    ExitCode::SUCCESS
}
