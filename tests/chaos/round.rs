//! A round: clients work at a place while things go wrong, come to rest, and are judged by their histories.

use crate::check::{self, Bounds};
use crate::client::{LEASE, TIMEOUT, UNREACHABLE};
use crate::fault::{self, Fault};
use crate::figures::Figures;
use crate::fleet::{Fleet, Told};
use crate::history::Op;
use crate::lineage::{Cause, Event, Shard};
use crate::moment::now;
use crate::place::{Place, PlaceName};
use crate::store::{Store, Totals};
use crate::succession::{LEADER, succession};
use crate::work::{CAPACITY, DELIVERY};
use fastrand::Rng;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Room for a busy machine.
const SLACK: Duration = Duration::from_secs(5);

/// How long after the end of a dead leader's lease another candidate leads.
const FOLLOWED: Duration = Duration::from_secs(1);

/// How long things may take. A waiter asks within a lease, and a server that does not answer is given up after a time; what is settled
/// before it is released may need that twice. The news of a loss needs nothing but a timer, and a processor.
const BOUNDS: Bounds = Bounds {
    acquire: UNREACHABLE.saturating_add(TIMEOUT).saturating_add(TIMEOUT).saturating_add(SLACK),
    release: UNREACHABLE.saturating_add(TIMEOUT).saturating_add(TIMEOUT).saturating_add(SLACK),
    loss: Duration::from_millis(500),
};

/// A place with its clients, for the whole run.
pub(crate) struct Site {
    pub(crate) name: PlaceName,
    pub(crate) place: Place,
    pub(crate) fleet: Fleet,
    /// The faults that are still to come until all have been.
    pub(crate) deck: Vec<Fault>,
}

impl Site {
    /// The next fault: each sort in its turn, in an order of its own every time.
    fn draw(&mut self, rng: &mut Rng) -> Fault {
        if self.deck.is_empty() {
            self.deck = Fault::of(self.name);
            self.deck.retain(|fault| fault.cannot(&self.place).is_none());
            rng.shuffle(&mut self.deck);
        }
        self.deck.pop().unwrap_or(Fault::ClientStopped)
    }
}

/// The subject of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    /// Everything, and whatever can go wrong.
    Mixed,
    /// Locks on a majority of servers, and whatever can go wrong with a minority or with all.
    Majority,
    /// Registers, and clients that are stopped beyond their leases.
    Pauses,
    /// Locks on a primary that dies with what its replica has not heard of.
    Failover,
}

impl Workload {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Mixed => "mixed",
            Self::Majority => "majority",
            Self::Pauses => "pauses",
            Self::Failover => "failover",
        }
    }
}

/// An account of what becomes of the servers' data.
struct Chronicle {
    events: Vec<Event>,
    /// The servers at the last look, their epoch, and its instant.
    shards: Vec<Shard>,
    epoch: u64,
    at: u64,
}

impl Chronicle {
    fn begin(place: &Place) -> Self {
        Self { events: Vec::new(), shards: place.shards(), epoch: place.epoch(), at: now() }
    }

    /// Writes down what has happened since the last look, by a fault or without any. Whether a primary was replaced that no fault wanted to be.
    fn look(&mut self, place: &Place, fault: Option<Fault>) -> bool {
        let cause = fault.map_or(Cause::Keeps, Fault::cause);
        let mut later = Self::begin(place);
        let primaries =
            |chronicle: &Self| chronicle.shards.iter().map(|shard| shard.primary.clone()).collect::<Vec<_>>();
        if primaries(self) != primaries(&later) {
            // A replaced primary acts as primary until it learns of the failover.
            place.heals();
            later = Self::begin(place);
        }
        let replaced = self.shards.iter().zip(&later.shards).filter(|(before, after)| before.primary != after.primary);
        let wanted = match (fault, cause) {
            (_, Cause::Replaces(_)) => usize::MAX,
            // One restarts, or one gives way to its replica in agreement with it.
            (Some(Fault::ServerRestarted | Fault::ServerEmptiedAway | Fault::ReplicaPromoted), _) => 1,
            _ => 0,
        };
        let replaced = replaced.count();
        let moved = self.epoch != later.epoch;
        let epoch_stays = !matches!(fault, Some(Fault::SlotMoved | Fault::ReplicaPromoted));
        let unwanted = replaced > wanted || (replaced == 0 && moved && epoch_stays && wanted == 0);
        let mut record = |cause| {
            let unseen = replaced == 0 && moved;
            let event = Event::new((self.at, later.at), &self.shards, &later.shards, cause, unseen);
            if !event.steps.is_empty() {
                self.events.push(event);
            }
        };
        if unwanted {
            record(Cause::Replaces("a primary was replaced, and no fault wanted that"));
        }
        if cause != Cause::Keeps || (fault.is_some() && !unwanted) {
            record(cause);
        }
        (self.shards, self.epoch, self.at) = (later.shards, later.epoch, later.at);
        unwanted
    }

    fn loses(&self) -> bool {
        self.events.iter().any(Event::loses)
    }
}

/// Runs a round, and judges it. `machine` tells when this process did not run.
pub(crate) fn run(
    site: &mut Site,
    (store, machine): (&Store, &Mutex<Vec<(u64, u64)>>),
    workload: Workload,
    length: Duration,
    dir: &Path,
    rng: &mut Rng,
    figures: &mut Figures,
) {
    let title = format!("round {} {} {}", figures.rounds + 1, site.name.word(), workload.word());
    site.fleet.begin(dir, workload.word(), rng.u64(..));
    let began = Instant::now();
    let mut notes = Vec::new();
    let mut healed = site.place.heals();
    let mut chronicle = Chronicle::begin(&site.place);
    let faults = |figures: &Figures| figures.faults.values().sum::<u64>();
    let faults_before = faults(figures);
    let mut disturbed = Vec::new();
    let silence = if workload == Workload::Failover { 500 } else { 1_500 };
    site.place.dead_after(Duration::from_millis(silence));
    while began.elapsed() < length && healed {
        match workload {
            Workload::Mixed | Workload::Majority => {
                std::thread::sleep(Duration::from_millis(rng.u64(200..1_200)));
                let fault = site.draw(rng);
                if fault == Fault::ClientKilled {
                    // The clients are well again after the fault before.
                    std::thread::sleep(FOLLOWED);
                }
                let from = now();
                chronicle.look(&site.place, None);
                notes.push(format!("{} {}", now(), fault.word()));
                // Now and then a task sleeps through it all.
                let may_sleep = fault != Fault::ClientKilled;
                let sleeper = (may_sleep && rng.u32(0..4) == 0).then(|| rng.usize(0..site.fleet.len()));
                if let Some(sleeper) = sleeper {
                    site.fleet.stop(sleeper);
                    *figures.faults.entry(Fault::ClientStopped).or_default() += 1;
                }
                let done = fault.inflict(&site.place, &mut site.fleet, rng);
                if let Some(sleeper) = sleeper {
                    site.fleet.resume(sleeper);
                }
                *figures.faults.entry(fault).or_default() += u64::from(done);
                healed = site.place.heals();
                if fault == Fault::ClientKilled {
                    // Nothing else goes wrong until somebody follows it.
                    std::thread::sleep(LEASE + FOLLOWED);
                } else {
                    disturbed.push((from, now()));
                }
                if chronicle.look(&site.place, Some(fault)) {
                    notes.push(format!("{} a primary was replaced, and no fault wanted that", now()));
                    figures.unwanted += 1;
                }
            }
            Workload::Pauses => {
                std::thread::sleep(Duration::from_millis(rng.u64(200..600)));
                fault::pause_beyond_lease(&mut site.fleet, rng);
                *figures.faults.entry(Fault::ClientStopped).or_default() += 1;
            }
            Workload::Failover => {
                std::thread::sleep(Duration::from_millis(rng.u64(1_000..2_000)));
                Fault::PrimaryKilledCutOff.inflict(&site.place, &mut site.fleet, rng);
                *figures.faults.entry(Fault::PrimaryKilledCutOff).or_default() += 1;
                healed = site.place.heals();
            }
        }
    }
    // The end of the round has all candidates resign.
    disturbed.push((now(), u64::MAX / 2));
    let rests = site.fleet.rest();
    chronicle.look(&site.place, None);
    notes.extend(chronicle.events.iter().map(|event| format!("{event:?}")));
    let history = site.fleet.history();
    figures.rounds += 1;
    let _ = std::fs::write(dir.join("faults"), notes.join("\n") + "\n");
    figures
        .check(&format!("{title}: the servers healed"), &if healed { vec![] } else { vec!["they did not".to_owned()] });
    let Told { ops, stalls, stuck, batches } = match history {
        Ok(told) => told,
        Err(error) => return figures.check(&format!("{title}: the history can be read"), &[error]),
    };
    count(&ops, figures);
    figures.stuck += stuck;
    figures.batches += batches.len() as u64;
    figures.batched += batches.iter().sum::<u64>();
    let unwitnessed = check::unwitnessed(&ops);
    figures.unwitnessed += unwitnessed.len() as u64;
    figures.check(&format!("{title}: the server process of every grant is known"), &unwitnessed);
    // A majority of servers outlives each of them: nothing excuses two holders there.
    let events = if workload == Workload::Majority { &[][..] } else { &chronicle.events };
    let overlaps = check::overlaps(&ops, CAPACITY);
    match workload {
        Workload::Failover => tell_failover(&ops, &overlaps, figures),
        _ => {
            let (excused, failures) = check::judge(&overlaps, events, CAPACITY);
            excused.into_iter().for_each(|(excuse, pair)| figures.excused.add(excuse, pair));
            let outside: Vec<_> = failures.iter().map(|pair| format!("{pair:?}")).collect();
            figures.doubled += outside.len() as u64;
            figures.check(&format!("{title}: nobody holds beside another"), &outside);
        }
    }
    // A place with one server has no two primaries.
    let divided = if matches!(site.place, Place::Standalone { .. }) { &[] } else { events };
    figures.check(&format!("{title}: fencing tokens grow"), &check::tokens(&ops, divided));
    figures.check(&format!("{title}: nobody is told of what is not so"), &check::confused(&ops));
    let unreported = check::unreported(&ops);
    figures.unreported += unreported.len() as u64;
    figures.check(&format!("{title}: every lost lock is reported"), &unreported);
    // Neither a stopped process nor a machine without a free processor is a hang.
    let here = machine.lock().expect("no watcher panics").clone();
    let hangs = check::hangs(&ops, BOUNDS, |process, from, to| {
        let of_it = stalls.get(process).into_iter().flatten();
        check::within(of_it.chain(&here).copied(), from, to)
    });
    let follow = succession(&ops, (LEASE, FOLLOWED), &disturbed, |process, from, to| {
        let of_it = stalls.get(process).into_iter().flatten();
        check::within(of_it.chain(&here).copied(), from, to)
    });
    figures.followed += follow.followed;
    figures.longest_without_a_leader = figures.longest_without_a_leader.max(Duration::from_nanos(follow.longest));
    figures.check(&format!("{title}: a leader that died is followed in time"), &follow.late);
    figures.hangs += hangs.len() as u64;
    figures.check(&format!("{title}: nothing hangs"), &hangs);
    let unclean: Vec<_> =
        rests.iter().filter(|rest| !(rest.clean && rest.ended)).map(|rest| rest.to_string()).collect();
    figures.unclean += unclean.len() as u64;
    figures.check(&format!("{title}: the clients clean up"), &unclean);
    let lost_data = chronicle.loses() || matches!(workload, Workload::Failover);
    let (keys, subscriptions) = site.place.clears(lost_data);
    figures.left_keys += keys.len() as u64;
    figures.left_subscriptions += subscriptions as u64;
    figures.check(&format!("{title}: no key is left"), &keys);
    let subscriptions = if subscriptions == 0 { vec![] } else { vec![format!("{subscriptions} are")] };
    figures.check(&format!("{title}: no subscription is left"), &subscriptions);
    if let Some(first) = rests.first() {
        figures.resident.entry(site.name).or_default().push(first.resident);
    }
    for op in &ops {
        *figures.confirmed.entry(op.wish.lock.clone()).or_default() += u64::from(op.stored);
    }
    let totals = tell_store(store, figures, &title);
    let grants = ops.iter().filter(|op| op.granted.is_some()).count();
    println!(
        "{title}: {} operations, {grants} grants, {} faults; {totals}",
        ops.len(),
        faults(figures) - faults_before
    );
}

fn count(ops: &[Op], figures: &mut Figures) {
    figures.operations += ops.len() as u64;
    for op in ops {
        let mut end = |how: String| *figures.ends.entry(how).or_default() += 1;
        match (&op.granted, &op.refused, &op.ended) {
            (Some(_), _, Some((_, how))) => end(format!("released: {how}")),
            (Some(_), _, None) => end("died holding".to_owned()),
            (None, Some((_, why)), _) => end(format!("not granted: {why}")),
            (None, None, _) => end("died waiting".to_owned()),
        }
        figures.grants += u64::from(op.granted.is_some());
        figures.terms += u64::from(op.granted.is_some() && op.wish.lock.starts_with(LEADER));
        figures.jobs += u64::from(op.ended.as_ref().is_some_and(|(_, how)| how == "kept"));
        let is_found_done = op.refused.as_ref().is_some_and(|(_, why)| why == "done" || why == "elsewhere");
        figures.found_done += u64::from(is_found_done);
        figures.handed_on += u64::from(op.was_handed_on());
        if let Some((_, reason)) = &op.lost {
            *figures.losses.entry(reason.clone()).or_default() += 1;
        }
    }
}

/// The store's content at the end of a round. Its totals are those of the whole run.
fn tell_store(store: &Store, figures: &mut Figures, title: &str) -> String {
    let (banks, articles) = (store.totals("bank:"), store.totals("stock:"));
    let names = |found: Vec<&Totals>| found.into_iter().map(Totals::to_string).collect::<Vec<_>>();
    let wrong = banks.iter().filter(|bank| bank.sum != bank.stocked).collect();
    figures.check(&format!("{title}: the totals of the banks are exact"), &names(wrong));
    let wrong = articles.iter().filter(|article| article.least < 0 || article.stocked - sold(article) != article.sum);
    figures.check(&format!("{title}: every article is sold once"), &names(wrong.collect()));
    let guarded = || banks.iter().chain(&articles);
    let stale: Vec<_> = guarded().filter(|group| group.stale > 0).collect();
    figures.check(&format!("{title}: no stale write is accepted"), &names(stale));
    // A killed process may not have read the answer; no process has read one that was not given.
    let confirmed = |group: &Totals| figures.confirmed.get(&group.group).copied().unwrap_or_default();
    let counted =
        |group: &Totals| if group.group.starts_with("stock:") { sold(group).unsigned_abs() } else { group.commits };
    let forgotten: Vec<_> = guarded().filter(|group| confirmed(group) > counted(group)).collect();
    figures.check(&format!("{title}: every confirmed change is there"), &names(forgotten));
    figures.stale = guarded().map(|group| group.stale).sum();
    figures.stored = guarded().map(|group| group.commits).sum();
    figures.refused_by_store = guarded().map(|group| group.refused).sum();
    for (prefix, what) in [
        ("unfenced:", "pauses, no fencing"),
        ("writes-alone:", "pauses, token checked on write alone"),
        ("fenced:", "pauses, token checked on read and write (0)"),
    ] {
        let registers = store.totals(prefix);
        let commits: u64 = registers.iter().map(|register| register.commits).sum();
        let counted: i64 = registers.iter().map(|register| register.sum).sum();
        if commits > 0 {
            figures.must_fail.insert(what, (commits.saturating_sub(counted.unsigned_abs()), commits));
        }
    }
    let sales: i64 = articles.iter().map(sold).sum();
    let transfers: u64 = banks.iter().map(|bank| bank.commits).sum();
    format!("{transfers} transfers and {sales} sales so far")
}

/// How many units of an article were sold: every change that is no delivery.
fn sold(article: &Totals) -> i64 {
    article.commits.cast_signed() - (article.stocked / DELIVERY - 1)
}

/// The fate of the locks that were held through failovers.
fn tell_failover(ops: &[Op], overlaps: &[check::Overlap], figures: &mut Figures) {
    for (prefix, what) in [
        ("default:", "failover, locks without acknowledgement"),
        ("acknowledged:", "failover, locks that a replica acknowledged (0)"),
    ] {
        let mut lost = 0;
        let mut held = 0;
        for op in ops.iter().filter(|op| op.wish.lock.starts_with(prefix) && op.granted.is_some()) {
            held += 1;
            lost += u64::from(op.lost.as_ref().is_some_and(|(_, reason)| reason == "removed"));
        }
        let sum = figures.must_fail.entry(what).or_default();
        *sum = (sum.0 + lost, sum.1 + held);
        let doubled = overlaps.iter().filter(|two| two.lock.starts_with(prefix)).count() as u64;
        *figures.doubled_by_failover.entry(what).or_default() += doubled;
    }
}
