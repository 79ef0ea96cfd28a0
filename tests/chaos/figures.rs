//! The counts of a run, and the table at its end.

use crate::check::{Excuse, Overlap};
use crate::fault::Fault;
use crate::place::PlaceName;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Pairs of holders at once that have an excuse.
#[derive(Default)]
pub(crate) struct Excused {
    /// By reason and by the processes that granted.
    by_excuse: BTreeMap<Excuse, u64>,
    longest: Duration,
    /// By whether the earlier holder was told of its loss, and whether the later one was.
    told: BTreeMap<[bool; 2], u64>,
}

impl Excused {
    pub(crate) fn add(&mut self, excuse: Excuse, pair: &Overlap) {
        *self.by_excuse.entry(excuse).or_default() += 1;
        *self.told.entry(pair.told).or_default() += 1;
        self.longest = self.longest.max(Duration::from_nanos(pair.to - pair.from));
    }

    fn told(&self, told: [bool; 2]) -> u64 {
        self.told.get(&told).copied().unwrap_or_default()
    }
}

/// The figures of a run.
#[derive(Default)]
pub(crate) struct Figures {
    pub(crate) took: Duration,
    pub(crate) rounds: u64,
    pub(crate) operations: u64,
    pub(crate) grants: u64,
    /// Of these, the grants of a hold that another task of the process had.
    pub(crate) handed_on: u64,
    /// Commands that several calls shared, and how many calls these were.
    pub(crate) batches: u64,
    pub(crate) batched: u64,
    pub(crate) stored: u64,
    pub(crate) refused_by_store: u64,
    /// The changes that clients know the store to have accepted, by group.
    pub(crate) confirmed: BTreeMap<String, u64>,
    pub(crate) faults: BTreeMap<Fault, u64>,
    /// Primaries that were replaced because the machine was busy.
    pub(crate) unwanted: u64,
    pub(crate) skipped: Vec<String>,
    pub(crate) ends: BTreeMap<String, u64>,
    pub(crate) losses: BTreeMap<String, u64>,
    pub(crate) doubled: u64,
    /// Those that have an excuse.
    pub(crate) excused: Excused,
    /// Guards of which it is not known who granted them.
    pub(crate) unwitnessed: u64,
    /// Backgrounds that were held up.
    pub(crate) stuck: u64,
    pub(crate) stale: u64,
    pub(crate) unreported: u64,
    pub(crate) hangs: u64,
    pub(crate) left_keys: u64,
    pub(crate) left_subscriptions: u64,
    pub(crate) unclean: u64,
    /// The terms of leaders.
    pub(crate) terms: u64,
    /// The jobs of schedules that were done, and how often a process came for one that was done or under way.
    pub(crate) jobs: u64,
    pub(crate) found_done: u64,
    /// Leaders that died while nothing else went wrong, and were followed; and how long that took at most.
    pub(crate) followed: u64,
    pub(crate) longest_without_a_leader: Duration,
    /// The memory of the client that lives through the run, at the end of each round, by place.
    pub(crate) resident: BTreeMap<PlaceName, Vec<u64>>,
    /// The losses of each workload that must fail, and of its opposite, with the totals.
    pub(crate) must_fail: BTreeMap<&'static str, (u64, u64)>,
    /// Locks of the workload of failovers that two held at once.
    pub(crate) doubled_by_failover: BTreeMap<&'static str, u64>,
    passed: u64,
    failed: u64,
}

impl Figures {
    /// A check, with what it found.
    pub(crate) fn check(&mut self, what: &str, found: &[String]) {
        if found.is_empty() {
            self.passed += 1;
            return;
        }
        self.failed += 1;
        println!("FAILED {what}: {} times", found.len());
        for line in found.iter().take(10) {
            println!("       {line}");
        }
    }

    pub(crate) const fn failures(&self) -> u64 {
        self.failed
    }

    pub(crate) const fn is_good(&self) -> bool {
        self.failed == 0 && self.passed > 0
    }

    /// Whether the memory of the clients that lived through the run is steady: the last quarter of the rounds beside the first.
    pub(crate) fn check_memory(&mut self) {
        let grown = self.resident.iter().filter_map(|(place, samples)| {
            let [first, .., last] = quarters(samples)?;
            // The memory that allocators keep, and the buffers of new connections.
            let most = first + first / 4 + 8_192;
            (last > most).then(|| format!("{}: from {first} to {last} KiB", place.word()))
        });
        let grown: Vec<_> = grown.collect();
        self.check("memory is steady", &grown);
    }

    /// Whether those that must fail did.
    pub(crate) fn check_must_fail(&mut self) {
        let harmless = self.must_fail.iter().filter(|(what, _)| !what.contains("(0)"));
        let harmless = harmless.filter(|(_, (lost, _))| *lost == 0);
        let harmless: Vec<_> = harmless.map(|(what, (_, of))| format!("{what} lost nothing of {of}")).collect();
        let harmful = self.must_fail.iter().filter(|(what, (lost, _))| what.contains("(0)") && *lost > 0);
        let harmful = harmful.map(|(what, (lost, of))| format!("{what} lost {lost} of {of}"));
        let doubled = self.doubled_by_failover.iter().filter(|(what, times)| what.contains("(0)") && **times > 0);
        let doubled = doubled.map(|(what, times)| format!("{what} had two holders {times} times"));
        let harmful: Vec<_> = harmful.chain(doubled).collect();
        self.check("what must fail has failed", &harmless);
        self.check("what stands beside it has not", &harmful);
    }
}

/// The medians of the quarters; `None` where there are too few.
fn quarters(samples: &[u64]) -> Option<[u64; 4]> {
    // The first round warms up.
    let samples = samples.get(1..)?;
    let median = |quarter: usize| {
        let within = samples.len() * quarter / 4..samples.len() * (quarter + 1) / 4;
        let mut sorted = samples.get(within)?.to_vec();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    };
    Some([median(0)?, median(1)?, median(2)?, median(3)?])
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row =
            |f: &mut fmt::Formatter<'_>, what: &str, figure: &dyn fmt::Display| writeln!(f, "  {what:<52} {figure}");
        writeln!(f, "\nin {:.0?}", self.took)?;
        row(f, "rounds", &self.rounds)?;
        row(f, "operations", &self.operations)?;
        row(f, "  grants", &self.grants)?;
        row(f, "    of a hold that another task handed on", &self.handed_on)?;
        for (how, times) in &self.ends {
            row(f, &format!("  {how}"), times)?;
        }
        row(f, "  changes that the store accepted", &self.stored)?;
        row(f, "  requests that the fenced store refused", &self.refused_by_store)?;
        row(f, "calls that went with others, in so many batches", &format!("{}, in {}", self.batched, self.batches))?;
        row(f, "faults", &self.faults.values().sum::<u64>())?;
        for (fault, times) in &self.faults {
            row(f, &format!("  {}", fault.word()), times)?;
        }
        row(f, "  backgrounds that were held up", &self.stuck)?;
        row(f, "  primaries replaced that nobody had touched", &self.unwanted)?;
        for skipped in &self.skipped {
            writeln!(f, "  left out: {skipped}")?;
        }
        row(f, "lost locks reported", &self.losses.values().sum::<u64>())?;
        for (reason, times) in &self.losses {
            row(f, &format!("  {reason}"), times)?;
        }
        row(f, "lost locks not reported (0)", &self.unreported)?;
        row(f, "grants by a process that is not known (0)", &self.unwitnessed)?;
        row(f, "double holders without an excuse (0)", &self.doubled)?;
        let excused = &self.excused;
        let sum: u64 = excused.by_excuse.values().sum();
        row(f, "double holders with an excuse", &format!("{sum}, for at most {:.0?}", excused.longest))?;
        for (told, words) in [
            ([false, false], "neither was told"),
            ([true, false], "the earlier alone was told"),
            ([false, true], "the later alone was told"),
            ([true, true], "both were told"),
        ] {
            row(f, &format!("  {words}"), &excused.told(told))?;
        }
        let mut reason = "";
        for (excuse, times) in &excused.by_excuse {
            if excuse.lost != reason {
                reason = &excuse.lost;
                let of_it = excused.by_excuse.iter().filter(|(other, _)| other.lost == *reason);
                row(f, &format!("  {reason}"), &of_it.map(|(_, times)| times).sum::<u64>())?;
            }
            let [earlier, later] = &excuse.processes;
            let whom = if earlier == later { format!("{earlier} twice") } else { format!("{earlier}, {later}") };
            row(f, &format!("    {whom}"), times)?;
        }
        row(f, "terms of leaders", &self.terms)?;
        let others = format!("{}, found done or under way by {} others", self.jobs, self.found_done);
        row(f, "jobs of schedules that ran", &others)?;
        let longest = format!("{}, after at most {:.0?}", self.followed, self.longest_without_a_leader);
        row(f, "leaders that died and were followed", &longest)?;
        row(f, "stale writes accepted by the fenced store (0)", &self.stale)?;
        row(f, "hangs (0)", &self.hangs)?;
        row(f, "clients that did not clean up (0)", &self.unclean)?;
        row(f, "keys left (0)", &self.left_keys)?;
        row(f, "subscriptions left (0)", &self.left_subscriptions)?;
        for (place, samples) in &self.resident {
            let shown = match (quarters(samples), samples.first(), samples.last()) {
                (Some([first, second, third, last]), ..) => {
                    format!("{first}, {second}, {third}, {last} KiB in the quarters of the run")
                }
                (None, Some(first), Some(last)) => format!("{first} KiB at first, {last} KiB at last"),
                _ => continue,
            };
            row(f, &format!("memory of a client, {}", place.word()), &shown)?;
        }
        if !self.must_fail.is_empty() {
            writeln!(f, "what must fail, beside what must not")?;
        }
        for (what, (lost, of)) in &self.must_fail {
            #[expect(clippy::cast_precision_loss, reason = "a percentage is shown")]
            let percent = *lost as f64 * 100.0 / (*of).max(1) as f64;
            row(f, &format!("  {what}"), &format!("{lost} of {of}, {percent:.2} %"))?;
        }
        for (what, times) in &self.doubled_by_failover {
            row(f, &format!("  double holders: {what}"), times)?;
        }
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}
