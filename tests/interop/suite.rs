//! Running cases, and counting them.

use crate::agent::Jvm;
use crate::place::{Place, PlaceName};
use crate::world::{Shared, World, settings};
use futures_util::future::BoxFuture;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// The longest that a case may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// How many cases run at once. They wait for most of their time.
const AT_ONCE: usize = 60;

/// A case that runs at a place.
pub(crate) struct Case {
    name: String,
    place: PlaceName,
    alone: bool,
    run: Box<dyn FnOnce(World) -> BoxFuture<'static, ()> + Send>,
}

/// The cases of a run.
#[derive(Default)]
pub(crate) struct Cases(Vec<Case>);

impl Cases {
    /// Adds a case, which fails by a panic.
    pub(crate) fn add<F>(&mut self, place: PlaceName, name: impl fmt::Display, run: fn(World) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.push(place, name, false, run);
    }

    /// Adds a case that needs an argument, such as a kind of lock.
    pub(crate) fn add_with<A, F>(&mut self, place: PlaceName, name: impl fmt::Display, with: A, run: fn(World, A) -> F)
    where
        A: Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        self.push(place, name, false, move |world| run(world, with));
    }

    /// Adds a case that measures time, and therefore runs alone.
    pub(crate) fn add_alone<A, F>(&mut self, place: PlaceName, name: impl fmt::Display, with: A, run: fn(World, A) -> F)
    where
        A: Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        self.push(place, name, true, move |world| run(world, with));
    }

    fn push<F>(
        &mut self,
        place: PlaceName,
        name: impl fmt::Display,
        alone: bool,
        run: impl FnOnce(World) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let name = format!("{:<10}  {name}", place.word());
        self.0.push(Case { name, place, alone, run: Box::new(move |world| Box::pin(run(world))) });
    }
}

/// How many cases passed and failed.
pub(crate) struct Tally {
    passed: usize,
    failed: usize,
    took: Duration,
}

impl Tally {
    /// Whether there were cases, and none failed.
    pub(crate) const fn is_good(&self) -> bool {
        self.failed == 0 && self.passed > 0
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "in {:.0?}", self.took)?;
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// Runs the cases whose names hold one of the filters; without filters, all.
pub(crate) async fn run(cases: Cases, filters: &[String]) -> Tally {
    let began = Instant::now();
    std::panic::set_hook(Box::new(remember));
    let wanted = |case: &Case| filters.is_empty() || filters.iter().any(|filter| case.name.contains(filter));
    let cases: Vec<_> = cases.0.into_iter().filter(wanted).collect();
    let mut places = BTreeMap::new();
    let mut opening = JoinSet::new();
    for place in PlaceName::ALL.into_iter().filter(|place| cases.iter().any(|case| case.place == *place)) {
        opening.spawn(async move { (place, open(place).await) });
    }
    while let Some(opened) = opening.join_next().await {
        let (name, place) = opened.expect("a place to run at");
        places.insert(name, place);
    }
    println!("{} cases", cases.len());
    let mut tally = Tally { passed: 0, failed: 0, took: Duration::ZERO };
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = JoinSet::new();
    let (alone, together): (Vec<_>, Vec<_>) = cases.into_iter().enumerate().partition(|(_, case)| case.alone);
    for (number, case) in alone {
        let shared = places[&case.place].clone();
        tally.count(finish(number, case, shared).await);
    }
    for (number, case) in together {
        let (turns, shared) = (turns.clone(), places[&case.place].clone());
        running.spawn(async move {
            let _turn = turns.acquire().await.expect("a turn");
            finish(number, case, shared).await
        });
    }
    while let Some(passed) = running.join_next().await {
        tally.count(passed.expect("a case that was judged"));
    }
    tally.took = began.elapsed();
    tally
}

impl Tally {
    const fn count(&mut self, passed: bool) {
        if passed {
            self.passed += 1;
        } else {
            self.failed += 1;
        }
    }
}

/// Starts the servers of a place, and both sides.
async fn open(name: PlaceName) -> Arc<Shared> {
    let place = Place::start(name);
    let jvm = Jvm::start();
    let (target, url) = (place.target(), place.url());
    let target = [target[0].as_str(), &target[1]];
    let (uuid, rust) = tokio::join!(jvm.connect(name.word(), &target, &[]), settings().connect(&url));
    let rust = rust.expect("a client");
    let starting = Arc::new(Semaphore::new(2));
    Arc::new(Shared { name, place, rust, jvm, uuid, starting })
}

tokio::task_local! {
    /// The complaint of a case, with the place in its source.
    static COMPLAINT: Arc<Mutex<String>>;
}

/// Takes a panic of a case down.
fn remember(panic: &std::panic::PanicHookInfo<'_>) {
    let complaint = panic.to_string();
    let noted = COMPLAINT.try_with(|place| {
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        // The first is the cause of the others.
        if place.is_empty() {
            place.clone_from(&complaint);
        }
    });
    if noted.is_err() {
        println!("{complaint}");
    }
}

/// Runs a case to its end, and tells how it went.
async fn finish(number: usize, case: Case, shared: Arc<Shared>) -> bool {
    let began = Instant::now();
    let note = Arc::new(Mutex::new(String::new()));
    let name = format!("case-{number}");
    let rust = shared.rust.clone();
    let world = World { shared, rust, name, note: note.clone() };
    let complaint = Arc::new(Mutex::new(String::new()));
    let work = COMPLAINT.scope(complaint.clone(), (case.run)(world));
    let outcome = tokio::spawn(tokio::time::timeout(PATIENCE, work)).await;
    let took = began.elapsed().as_secs_f64();
    let passed = matches!(outcome, Ok(Ok(())));
    let note = std::mem::take(&mut *note.lock().unwrap_or_else(PoisonError::into_inner));
    println!("{} {} ({took:.2} s) {note}", if passed { "ok    " } else { "FAILED" }, case.name);
    if !passed {
        let complaint = std::mem::take(&mut *complaint.lock().unwrap_or_else(PoisonError::into_inner));
        let complaint = if complaint.is_empty() { format!("it was not done in {PATIENCE:?}") } else { complaint };
        println!("       {}", complaint.replace('\n', "\n       "));
    }
    passed
}
