//! Client processes on real servers, while things go wrong. `cargo xtask chaos` runs this; [its README](README.md) says what it does.

#![expect(clippy::print_stdout, reason = "a command line tool speaks on stdout")]

mod check;
mod client;
mod fault;
mod figures;
mod fleet;
mod history;
mod lineage;
mod moment;
mod options;
mod place;
mod relay;
mod round;
mod stall;
mod store;
mod succession;
mod work;

use fastrand::Rng;
use figures::Figures;
use fleet::Fleet;
use leasehold_test_support::Binary;
use options::{Options, Part, USAGE};
use place::{Place, PlaceName};
use round::{Site, Workload};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use store::{Fence, Store};

/// The longest round. Histories are read when it has ended.
const LONGEST: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    if let Ok(servers) = std::env::var(client::SERVERS) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        client::obey(&runtime.expect("a runtime"), &servers);
        return ExitCode::SUCCESS;
    }
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match Options::parse(arguments) {
        Ok(options) => run(&options),
        Err(why) => {
            println!("{why}\n\n{USAGE}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> ExitCode {
    let began = Instant::now();
    let binary = Binary::with_sharded_notices().unwrap_or_else(|missing| panic!("{missing}"));
    println!("seed {}, on {binary}", options.seed);
    let mut rng = Rng::with_seed(options.seed);
    let store = stocked();
    let machine: Arc<Mutex<Vec<_>>> = Arc::default();
    let stalls = machine.clone();
    std::thread::spawn(move || {
        moment::watch_for_stalls(|from, to| stalls.lock().expect("nobody panics with it").push((from, to)));
    });
    let mut figures = Figures::default();
    let mut sites = Vec::new();
    for &name in &options.places {
        match open(name, &binary, options.clients, &store) {
            Ok(site) => {
                for fault in fault::Fault::of(name) {
                    let why = fault.cannot(&site.place).map(|why| format!("{}, {} ({why})", name.word(), fault.word()));
                    figures.skipped.extend(why);
                }
                sites.push(site);
            }
            Err(why) => figures.skipped.push(format!("{} ({why})", name.word())),
        }
    }
    let plan = plan(&sites, options.part);
    if plan.is_empty() {
        println!("nothing was done: no place could be made that has such a workload. {}", figures.skipped.join(", "));
        return ExitCode::FAILURE;
    }
    let length = (options.time / u32::try_from(plan.len().max(1)).unwrap_or(1)).min(LONGEST);
    let mut spent = Duration::ZERO;
    let root = histories();
    println!("histories are below {}", root.display());
    for (number, (name, workload)) in plan.iter().cycle().enumerate() {
        if spent >= options.time {
            break;
        }
        let site = sites.iter_mut().find(|site| site.name == *name).expect("a place of this run");
        let dir = root.join(format!("{:04}-{}-{}", number + 1, name.word(), workload.word()));
        let failed = figures.failures();
        round::run(site, (&store, &machine), *workload, length, &dir, &mut rng, &mut figures);
        if figures.failures() == failed {
            // A history without a fault need not be kept.
            let _ = std::fs::remove_dir_all(&dir);
        }
        spent += length;
    }
    figures.check_memory();
    if options.part != Part::MustPass {
        figures.check_must_fail();
    }
    figures.took = began.elapsed();
    println!("{figures}");
    if figures.is_good() {
        let _ = std::fs::remove_dir_all(&root);
        ExitCode::SUCCESS
    } else {
        println!("histories of what failed are below {}; once more: --seed {}", root.display(), options.seed);
        ExitCode::FAILURE
    }
}

/// The rounds of a run, which are repeated until its time is over.
fn plan(sites: &[Site], part: Part) -> Vec<(PlaceName, Workload)> {
    let of = |name: PlaceName, workload| {
        sites.iter().filter(move |site| name == site.name).map(move |site| (site.name, workload))
    };
    let must_pass = sites
        .iter()
        .map(|site| (site.name, if site.name == PlaceName::Quorum { Workload::Majority } else { Workload::Mixed }));
    let must_fail = of(PlaceName::Standalone, Workload::Pauses);
    let must_fail = must_fail.chain(of(PlaceName::Sentinel, Workload::Failover));
    match part {
        Part::All => must_pass.chain(must_fail).collect(),
        Part::MustPass => must_pass.collect(),
        Part::MustFail => must_fail.collect(),
    }
}

/// Starts the servers of a place, and its clients.
fn open(name: PlaceName, binary: &Binary, clients: usize, store: &Store) -> Result<Site, String> {
    let place = Place::start(name, binary)?;
    let fleet = Fleet::start(name.word(), place.seats(clients), store);
    Ok(Site { name, place, fleet, deck: Vec::new() })
}

/// The store, with everything that the workloads change.
fn stocked() -> Store {
    let store = Store::open();
    (0..work::BANKS).for_each(|bank| store.add(&format!("bank:{bank}"), work::ACCOUNTS, work::MONEY));
    (0..work::ARTICLES).for_each(|article| store.add(&format!("stock:{article}"), 1, work::DELIVERY));
    for (fence, word) in Fence::ALL {
        debug_assert_eq!(fence.word(), word);
        (0..work::REGISTERS).for_each(|register| store.add(&format!("{word}:{register}"), 1, 0));
    }
    store
}

/// A directory below the target directory, which cargo marks.
fn histories() -> PathBuf {
    let exe = std::env::current_exe().expect("this program");
    let target = exe.ancestors().find(|dir| dir.join("CACHEDIR.TAG").is_file()).unwrap_or_else(|| Path::new("."));
    let root = target.join("chaos").join(std::process::id().to_string());
    std::fs::create_dir_all(&root).expect("a directory for histories");
    root
}
