//! The statistics of a run: operations, faults by kind, and whether the worlds came to what they are for.

use rustc_hash::FxHasher;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::time::Duration;

/// Makes an enumeration of things that are counted, each with the words by which a report calls it.
macro_rules! counted {
    ($(#[$about:meta])* $name:ident { $($variant:ident = $words:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name { $($variant),+ }

        impl $name {
            pub(crate) const ALL: &[Self] = &[$(Self::$variant),+];

            const fn words(self) -> &'static str {
                match self { $(Self::$variant => $words),+ }
            }
        }
    };
}

counted! {
    /// A kind of fault.
    FaultKind {
        Delay = "a message takes long",
        LostRequest = "a request is lost",
        LostReply = "a reply is lost",
        Swallowed = "no reply comes, and the connection stands",
        NotSent = "a call cannot be sent",
        Refused = "the server refuses for the moment",
        RefusedInside = "a script is refused something in its middle",
        Resent = "a command arrives twice",
        LateCopy = "a copy of a command arrives late",
        Unproven = "a kill is not proven",
        SettleFailed = "settling fails",
        SubscribeFailed = "subscribing fails",
        LostNotice = "a notice is lost",
        Reset = "a connection is reset",
        NoticesReset = "the notice connection is reset",
        Freeze = "a connection stalls",
        Unreachable = "a client is cut off",
        Crash = "a client crashes",
        Pause = "a client is paused",
        ClockJump = "a client's clock jumps",
        ClockRate = "a client's clock has a rate error",
        ClockOutside = "a client's clock is wrong beyond the margin",
        ServerNudge = "the server's clock is stepped within the margin",
        ServerStep = "the server's clock is stepped by up to an hour",
        Restart = "the server restarts with its data",
        RestartEmpty = "the server restarts empty",
        Failover = "a failover loses the last writes",
        Eviction = "keys are evicted",
        ForceRelease = "a hold is released by force",
        ScriptFlush = "the script cache is flushed",
        WorstInstant = "a command arrives around an expiry",
        MemoryFull = "the server's memory is full",
        LatePoll = "a future is polled late",
        Unpolled = "a future is never polled",
        Dropped = "a future is dropped",
        LaggingReplica = "a replica does not acknowledge in time",
        TakeOver = "a replica takes over with what it acknowledged",
        JvmCrash = "a JVM crashes",
        JvmPause = "a JVM is paused",
        JvmSlow = "a thread of a JVM is slow",
        JvmNoticeLost = "a notice to a JVM is lost",
        JvmInterrupted = "a thread of a JVM is interrupted, and leaves its place where it is",
    }
}

counted! {
    /// Something that worlds are to come to. A checker that never sees it says nothing about it.
    Coverage {
        Reentry = "an owner re-entered",
        HandOver = "a release handed over to another client",
        HandedOn = "a client handed a lock on to another of its tasks",
        AskedAhead = "a waiter of a fair lock asked behind the release of its own client, and was granted it",
        Offered = "a hold was offered to other clients",
        Adopted = "a hold was adopted",
        TicketSpent = "a ticket was adopted before, or had expired",
        MoveUnknown = "nobody knows whether a hold was offered or adopted",
        LeastTime = "a caller asked that its lock stay busy for a least time",
        GrantedAfterLeastTime = "a lock was granted that had stayed busy after its release",
        Lingered = "a lock lingered when its last guard went",
        Resumed = "a client had a lock again that lingered",
        GaveWay = "a lock that lingered was given up because another client wanted it",
        LetIn = "a client was granted a lock that another had handed on among its tasks",
        TakeOver = "a lease ended and another hold took over",
        LostThenReacquired = "a client lost a lock and got it again",
        DeadHeadSkipped = "a dead head of a queue was skipped",
        QueuePositionLost = "a waiter lost its place",
        LateDuplicate = "a copy came after the hold had ended",
        CleanedUp = "the background completed a clean-up",
        UnpolledTurn = "a turn passed on",
        WaitElapsed = "a patience ended",
        OutcomeUnknown = "an outcome was not known",
        Unreachable = "a server was out of reach for too long",
        RemovalTold = "a holder was told of a removal in time",
        DeadlineTold = "a hold was lost at its local deadline",
        WokeLost = "a paused client woke up without its hold",
        BeforeExpiry = "a command came in the last millisecond of a key",
        AtExpiry = "a command came at the end of a key",
        AfterExpiry = "a command came just after a key",
        NoScript = "an unknown script was followed by its text",
        StaleRefused = "the store refused a stale token",
        TwiceRefused = "the store refused a token that another owner had shown",
        LatchOpened = "a latch opened for somebody who waited",
        UnfencedLost = "a register without a fence lost an update",
        OrderCompared = "a grant was compared with a queue while things go wrong",
        CountsCompared = "hold counts were compared with the server's after something went wrong",
        StraysSought = "holds of nobody were looked for",
        Overtaken = "a request came after one of its client that was sent later, by another connection",
        LateNotice = "a notice came late",
        LeftSoonSought = "what is left was looked for soon",
        HalfDone = "an acquire that had begun to write was refused, and taken back before its caller was told",
        NothingThere = "whoever was told that nothing was acquired was believed only after a look at the server",
        Degraded = "a lock was granted within a client, without the server",
        Restored = "the server granted what a client had without it",
        NotRestored = "a hold without the server was lost, because another has the lock there",
        PassedThrough = "a guard passed through, without the server",
        SeveralLeases = "a client renewed several leases of different lengths",
        WriteFencedLost = "a register that is fenced at writes alone lost an update",
        Acknowledged = "a call was acknowledged by a replica",
        NotReplicated = "a caller was told that too few replicas have its lock",
        SeveralFamilies = "a client had locks of two families",
        SurvivedTakeOver = "a hold was believed in when a replica took over",
        JvmAfterNative = "a JVM was granted a lock behind a client of ours",
        NativeAfterJvm = "a client of ours was granted a lock behind a JVM",
        DeadJvmSkipped = "a dead JVM in a queue was skipped",
        JvmGaveUp = "a JVM gave up waiting",
        JvmCameAnew = "a JVM lost its place and came anew",
        MixedOrderCompared = "a grant was compared with a queue of both sides",
    }
}

/// The sums over many worlds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stats {
    pub(crate) clients: u64,
    /// Acquires, re-entries, releases, drops, detachments and counts.
    pub(crate) operations: u64,
    pub(crate) steps: u64,
    pub(crate) virtual_time: Duration,
    /// Critical sections that wrote to the store, where holds have fencing tokens and altogether.
    pub(crate) sections: [u64; 2],
    /// The digest of what the clients did, and of what they were given.
    pub(crate) digest: Digest,
    faults: Vec<u64>,
    reached: Vec<u64>,
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            clients: 0,
            operations: 0,
            steps: 0,
            virtual_time: Duration::ZERO,
            sections: [0; 2],
            digest: Digest::default(),
            faults: vec![0; FaultKind::ALL.len()],
            reached: vec![0; Coverage::ALL.len()],
        }
    }
}

impl Stats {
    pub(crate) fn fault(&mut self, kind: FaultKind) {
        self.faults[kind as usize] += 1;
    }

    pub(crate) fn reach(&mut self, what: Coverage) {
        self.reached[what as usize] += 1;
    }

    pub(crate) fn reach_all(&mut self, what: impl IntoIterator<Item = Coverage>) {
        what.into_iter().for_each(|what| self.reach(what));
    }

    pub(crate) fn faults(&self, kind: FaultKind) -> u64 {
        self.faults[kind as usize]
    }

    pub(crate) fn reached(&self, what: Coverage) -> u64 {
        self.reached[what as usize]
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.clients += other.clients;
        self.operations += other.operations;
        self.steps += other.steps;
        self.virtual_time += other.virtual_time;
        self.digest.add(other.digest);
        for (mine, theirs) in self.sections.iter_mut().zip(other.sections) {
            *mine += theirs;
        }
        for (mine, theirs) in self.faults.iter_mut().zip(&other.faults) {
            *mine += theirs;
        }
        for (mine, theirs) in self.reached.iter_mut().zip(&other.reached) {
            *mine += theirs;
        }
    }

    /// Faults of all sorts.
    pub(crate) fn all_faults(&self) -> u64 {
        self.faults.iter().sum()
    }

    /// The faults that were never injected, and the events that were never come to.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        let faults = FaultKind::ALL.iter().filter(|kind| self.faults(**kind) == 0).map(|kind| kind.words());
        let reached = Coverage::ALL.iter().filter(|what| self.reached(**what) == 0).map(|what| what.words());
        faults.chain(reached).collect()
    }

    /// The report over so many worlds.
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>, histories: u64) -> fmt::Result {
        let each = |sum: u64| sum as f64 / histories.max(1) as f64;
        writeln!(f, "steps               {}", self.steps)?;
        writeln!(f, "virtual hours       {:.1}", self.virtual_time.as_secs_f64() / 3_600.0)?;
        writeln!(
            f,
            "a history has       {:.1} clients, {:.1} operations, {:.1} faults",
            each(self.clients),
            each(self.operations),
            each(self.all_faults())
        )?;
        writeln!(f, "\nfaults")?;
        for kind in FaultKind::ALL {
            writeln!(f, "{:>12}  {}", self.faults(*kind), kind.words())?;
        }
        writeln!(f, "\nreached")?;
        for what in Coverage::ALL {
            writeln!(f, "{:>12}  {}", self.reached(*what), what.words())?;
        }
        let [fenced, all] = self.sections;
        let share = |lost: u64, of: u64| 100.0 * lost as f64 / of.max(1) as f64;
        let (bare, at_writes) = (self.reached(Coverage::UnfencedLost), self.reached(Coverage::WriteFencedLost));
        writeln!(f, "\nlost updates")?;
        writeln!(f, "{:>11.4}%  without a fence ({bare} in {all} critical sections)", share(bare, all))?;
        writeln!(f, "{:>11.4}%  fenced at writes alone ({at_writes} in {fenced})", share(at_writes, fenced))?;
        writeln!(f, "{:>11.4}%  fenced at reads and writes (0 in {fenced})", 0.0)
    }
}

/// The digest of histories: two versions of the code whose clients do the same in the same worlds have the same one.
///
/// It covers what a client shows of itself: its calls with all their bytes, their order and instants, what it subscribes to, when it settles,
/// its events, and the outcomes that its callers see; and the replies and notices that it is given. Names within the code are
/// not part of it, so that renaming something changes no digest. Events and outcomes count by their place in their enumeration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digest(u64);

impl Digest {
    /// Adds what happens next in one history.
    pub(crate) fn record(&mut self, what: impl Hash) {
        let mut hasher = FxHasher::default();
        (self.0, what).hash(&mut hasher);
        self.0 = hasher.finish();
    }

    /// Adds the digest of another history. The order of histories does not matter: they end in any.
    pub(crate) const fn add(&mut self, other: Self) {
        self.0 = self.0.wrapping_add(other.0);
    }

    pub(crate) const fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(records: &[&str]) -> Digest {
        let mut digest = Digest::default();
        records.iter().for_each(|record| digest.record(record));
        digest
    }

    #[test]
    fn digest_tells_histories_apart_by_events_and_order() {
        let histories = [of(&[]), of(&["call"]), of(&["call", "reply"]), of(&["reply", "call"]), of(&["call", "call"])];
        for (number, one) in histories.iter().enumerate() {
            assert!(histories[..number].iter().all(|other| other != one), "{histories:?}");
        }
    }

    #[test]
    fn digest_does_not_depend_on_which_history_ends_first() {
        let (mut one, mut other) = (of(&["call"]), of(&["reply"]));
        let (first, second) = (one, other);
        one.add(second);
        other.add(first);
        assert_eq!(one, other);
    }
}
