//! Random histories in virtual time: processes of ours and JVMs contend, die, give up, send twice and are forced out, and after every
//! command it is checked that no one of them was wronged.
//!
//! `LEASEHOLD_SEEDS=n` plays that many, and `LEASEHOLD_SEED=s` one.

use super::jvm::Jvm;
use super::world::{Process, World};
use crate::histories::each_seed;
use crate::support::ms;
use leasehold_core::command::Acquired;
use leasehold_core::command::fair::Heartbeat;
use std::collections::{BTreeMap, BTreeSet};

const WINDOW: i64 = 2_000;
const BEAT: u64 = 500;
const SKEW: i64 = 1_000;
const CAP: u64 = 5_000;
/// How long a history goes on, and how long its contenders then have to come to an end.
const LENGTH: i64 = 25_000;

/// How long a living waiter of ours may stand before a free lock: the dead in front of it cost a window, and a beat finds out.
const LONGEST_STALL: i64 = WINDOW + 2 * BEAT as i64 + 100;
/// The same where JVMs may stand in front, each of which may be dead with a deadline of its own.
const LONGEST_STALL_AMONG_JVMS: i64 = 45_000;
/// How far in the future a score may be.
const FARTHEST_SCORE: i64 = 12 * CAP as i64;

/// What comes, with the number of the process or JVM that it comes to.
#[derive(Debug)]
enum Event {
    /// A task that does nothing begins something.
    Begin(usize),
    /// A process tries for its front.
    Try(usize),
    Heartbeat(usize),
    GiveUp(usize, String),
    Release(usize, String),
    Die(usize),
    Force(usize),
    /// The epoch says whether the JVM has been called otherwise meanwhile.
    Jvm(usize, u64),
    JvmRelease(usize),
    JvmDie(usize),
    JvmForce(usize),
}

struct Ours {
    process: Process,
    lives: bool,
    /// Those of its holds that wait, in the order of their places.
    waiters: Vec<String>,
    next: u64,
    beats: bool,
    foreign: bool,
    last_sign: i64,
}

enum Phase {
    Idle,
    Waiting { until: Option<i64> },
    Holding,
}

struct Theirs {
    jvm: Jvm,
    lives: bool,
    phase: Phase,
    epoch: u64,
}

/// The events, over many histories.
#[derive(Debug, Default)]
struct Tally {
    histories: u64,
    commands: u64,
    copies: u64,
    grants: u64,
    grants_to_jvms: u64,
    expired: u64,
    forced: u64,
    farthest_score: i64,
    longest_stall: i64,
    longest_stall_among_jvms: i64,
}

struct History<'a> {
    world: World,
    random: fastrand::Rng,
    events: BTreeMap<(i64, u64), Event>,
    number: u64,
    ours: Vec<Ours>,
    theirs: Vec<Theirs>,
    /// The holder of the lock, and until when that is certain.
    holding: Option<(String, i64)>,
    /// Holds that wait and that no process knows of.
    abandoned: BTreeSet<String>,
    free_since: Option<i64>,
    ends: i64,
    tally: &'a mut Tally,
}

/// The queue as it was, and whether the lock was held.
struct Before {
    queue: Vec<String>,
    scores: BTreeMap<String, f64>,
}

impl<'a> History<'a> {
    fn new(seed: u64, tally: &'a mut Tally) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut world = World::embedded();
        world.settings.fair.max_wait = ms(CAP);
        let ours = (0..random.usize(1..=3)).map(|_| Ours {
            process: world.process(),
            lives: true,
            waiters: Vec::new(),
            next: 1,
            beats: false,
            foreign: false,
            last_sign: i64::MIN / 2,
        });
        let ours: Vec<_> = ours.collect();
        let theirs: Vec<_> = (0..random.u32(0..=3))
            .map(|number| Theirs {
                jvm: Jvm { ahead: random.i64(-500..=500), ..Jvm::new(number, 1_000) },
                lives: true,
                phase: Phase::Idle,
                epoch: 0,
            })
            .collect();
        let ends = world.now() + LENGTH;
        Self {
            world,
            random,
            events: BTreeMap::new(),
            number: 0,
            ours,
            theirs,
            holding: None,
            abandoned: BTreeSet::new(),
            free_since: None,
            ends,
            tally,
        }
    }

    fn after(&mut self, millis: u64, event: Event) {
        self.number += 1;
        self.events.insert((self.world.now() + millis as i64, self.number), event);
    }

    fn run(mut self) {
        for process in 0..self.ours.len() {
            for _ in 0..self.random.u64(1..=4) {
                let delay = self.random.u64(0..1_000);
                self.after(delay, Event::Begin(process));
            }
            if self.random.u8(..) < 90 {
                let delay = self.random.u64(1_000..LENGTH as u64);
                self.after(delay, Event::Die(process));
            }
        }
        for jvm in 0..self.theirs.len() {
            let delay = self.random.u64(0..1_000);
            self.after(delay, Event::Jvm(jvm, 0));
            if self.random.u8(..) < 90 {
                let delay = self.random.u64(1_000..LENGTH as u64);
                self.after(delay, Event::JvmDie(jvm));
            }
        }
        for _ in 0..self.random.usize(0..3) {
            let (delay, process) = (self.random.u64(0..LENGTH as u64), self.random.usize(0..self.ours.len()));
            self.after(delay, Event::Force(process));
        }
        if !self.theirs.is_empty() {
            let (delay, jvm) = (self.random.u64(0..LENGTH as u64), self.random.usize(0..self.theirs.len()));
            self.after(delay, Event::JvmForce(jvm));
        }
        while let Some(((at, _), event)) = self.events.pop_first() {
            let wait = at - self.world.now();
            self.world.advance(u64::try_from(wait).unwrap_or_default());
            self.check_stall();
            self.step(event);
        }
        self.check_the_end();
        self.tally.histories += 1;
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Begin(process) => self.begin(process),
            Event::Try(process) => {
                if let Some(front) = self.living(process).and_then(|ours| ours.waiters.first().cloned()) {
                    self.acquire(process, &front, true);
                }
            }
            Event::Heartbeat(process) => self.beat(process),
            Event::GiveUp(process, entry) => {
                if self.living(process).is_some_and(|ours| ours.waiters.contains(&entry)) {
                    self.ours[process].waiters.retain(|waiter| *waiter != entry);
                    self.release(&entry, 0);
                    self.rest(process);
                }
            }
            Event::Release(process, entry) => self.finish(process, &entry),
            Event::Die(process) => self.ours[process].lives = false,
            Event::Force(process) => self.force(process),
            Event::Jvm(jvm, epoch) => self.jvm(jvm, epoch),
            Event::JvmRelease(jvm) => {
                if self.theirs[jvm].lives {
                    self.theirs[jvm].phase = Phase::Idle;
                    let peer = self.theirs[jvm].jvm.clone();
                    self.let_go(&peer.entry);
                    self.as_jvm(&peer.entry, |world| {
                        peer.unlock(world, 1_500);
                    });
                    self.jvm_later(jvm, 10, 2_000);
                }
            }
            Event::JvmDie(jvm) => self.theirs[jvm].lives = false,
            Event::JvmForce(jvm) => {
                let peer = self.theirs[jvm].jvm.clone();
                self.holding = None;
                self.tally.forced += 1;
                self.as_jvm(&peer.entry, |world| peer.force_unlock(world));
            }
        }
    }

    fn living(&self, process: usize) -> Option<&Ours> {
        Some(&self.ours[process]).filter(|ours| ours.lives)
    }

    /// The task begins something new after a while.
    fn rest(&mut self, process: usize) {
        let delay = self.random.u64(1..1_500);
        self.after(delay, Event::Begin(process));
    }

    fn begin(&mut self, process: usize) {
        if !self.ours[process].lives || self.world.now() > self.ends {
            return;
        }
        let number = self.ours[process].next;
        self.ours[process].next += 1;
        let entry = self.ours[process].process.hold(number);
        let waits = self.random.u8(..) > 40;
        if waits && self.random.u8(..) < 10 {
            // The caller went away while the command was under way, and so did the command that was to clean up.
            self.abandoned.insert(entry.clone());
            self.acquire(process, &entry, true);
            self.rest(process);
            return;
        }
        if waits {
            self.ours[process].waiters.push(entry.clone());
            if self.random.u8(..) < 50 {
                let delay = self.random.u64(50..4_000);
                self.after(delay, Event::GiveUp(process, entry.clone()));
            }
            if !self.ours[process].beats {
                self.ours[process].beats = true;
                self.after(BEAT, Event::Heartbeat(process));
            }
        }
        if !self.acquire(process, &entry, waits) && !waits {
            self.rest(process);
        }
    }

    /// Asks for the lock; whether it was granted.
    fn acquire(&mut self, process: usize, entry: &str, waits: bool) -> bool {
        let lease = self.random.u64(800..2_000);
        let placed = self.ours[process].waiters.iter().any(|waiter| waiter == entry);
        let sent = self.world.now();
        if waits {
            self.ours[process].last_sign = sent;
        }
        let before = self.before();
        let known = before.queue.iter().any(|queued| queued == entry);
        let call = self.world.acquire_call(entry, |ask| {
            (ask.lease, ask.waits, ask.placed) = (ms(lease), waits, placed && known);
        });
        let reply = self.twice(&call);
        let acquired = self.world.kind.protocol().acquired(&reply).expect("a reply of an acquire");
        self.check(&before, Some(entry), false);
        match acquired {
            Acquired::Held { left, .. } => {
                self.ours[process].waiters.retain(|waiter| waiter != entry);
                self.take(entry, sent + left.as_millis() as i64);
                self.tally.grants += 1;
                let forgotten = self.abandoned.remove(entry);
                if !forgotten && self.random.u8(..) > 15 {
                    let delay = self.random.u64(1..700);
                    self.after(delay, Event::Release(process, entry.to_owned()));
                } else {
                    self.rest(process);
                }
                true
            }
            Acquired::Placed { left, moved, head, foreign, .. } => {
                assert!(!moved, "{entry} lost its place at {sent}");
                self.ours[process].foreign = foreign;
                if let Some(left) = left.filter(|_| head) {
                    self.after(left.as_millis() as u64 + 1, Event::Try(process));
                }
                false
            }
            Acquired::Busy { .. } if !waits => false,
            other => panic!("{other:?} to {entry} at {sent}"),
        }
    }

    fn beat(&mut self, process: usize) {
        let Some(front) = self.living(process).and_then(|ours| ours.waiters.first().cloned()) else {
            self.ours[process].beats = false;
            return;
        };
        // A beat now and then comes late, within the window.
        let delay = if self.random.u8(..) < 8 { self.random.u64(BEAT..1_900) } else { BEAT };
        self.after(delay, Event::Heartbeat(process));
        let now = self.world.now();
        self.ours[process].last_sign = now;
        let before = self.before();
        let call = self.world.beat_call(self.ours[process].process, Some(&front));
        let reply = self.twice(&call);
        self.check(&before, None, false);
        match leasehold_core::command::fair::beaten(&reply).expect("a reply of a beat") {
            Heartbeat::Calm(standing) => {
                self.ours[process].foreign = standing.foreign;
                if let Some(left) = standing.left.filter(|_| standing.head) {
                    self.after(left.as_millis() as u64 + 1, Event::Try(process));
                }
            }
            Heartbeat::Yours { entry, standing } => {
                self.ours[process].foreign = standing.foreign;
                let entry = std::str::from_utf8(&entry).expect("text").to_owned();
                if entry == front {
                    self.acquire(process, &front, true);
                } else {
                    assert!(self.abandoned.remove(&entry), "{entry} is next, before {front}");
                    self.release(&entry, 0);
                }
            }
            other => panic!("{other:?} to {front} at {now}"),
        }
    }

    /// A hold ends, some with a re-entry in between.
    fn finish(&mut self, process: usize, entry: &str) {
        if !self.ours[process].lives {
            return;
        }
        let certain = self.holding.as_ref().is_some_and(|(holder, until)| holder == entry && self.world.now() < *until);
        if self.random.u8(..) < 50 {
            let before = self.before();
            let call = self.world.acquire_call(entry, |ask| (ask.count, ask.lease) = (2, ms(500)));
            let reply = self.twice(&call);
            let again = self.world.kind.protocol().acquired(&reply).expect("a reply");
            self.check(&before, Some(entry), false);
            match again {
                Acquired::Held { .. } => assert_eq!(self.release(entry, 1), 2),
                Acquired::Lost => assert!(!certain, "{entry} was lost inside its lease"),
                other => panic!("{other:?} to a re-entry"),
            }
        }
        self.let_go(entry);
        let code = self.release(entry, 0);
        if certain {
            assert_eq!(code, 1, "{entry} was lost inside its lease");
        }
        self.rest(process);
    }

    /// Releases, now and then twice; the answer is the first one's.
    fn release(&mut self, entry: &str, count: u32) -> i64 {
        let before = self.before();
        let call = self.world.release_call(entry, count);
        let code = super::world::int(&self.world.run(&call));
        self.tally.commands += 1;
        self.check(&before, Some(entry), false);
        if self.random.u8(..) < 40 {
            self.tally.copies += 1;
            let before = self.before();
            let again = super::world::int(&self.world.run(&call));
            self.check(&before, Some(entry), false);
            assert!(again < 1 || count > 0, "a copy of a release releases nothing");
        }
        self.deliver();
        code
    }

    fn force(&mut self, process: usize) {
        if !self.ours[process].lives {
            return;
        }
        let (Some(holder), _) = self.world.inspect() else { return };
        let before = self.before();
        self.holding = None;
        self.tally.forced += 1;
        self.world.force_release(&holder.holder);
        self.check(&before, None, false);
        self.deliver();
    }

    fn jvm(&mut self, at: usize, epoch: u64) {
        let now = self.world.now();
        let theirs = &mut self.theirs[at];
        if !theirs.lives || theirs.epoch != epoch {
            return;
        }
        theirs.epoch += 1;
        match theirs.phase {
            Phase::Holding => return,
            Phase::Idle if now > self.ends => return,
            Phase::Idle => {
                // With an end to its patience, which is its wait; or without, when it gives the longest wait there is.
                let bounded = self.random.bool();
                theirs.jvm.wait = if bounded { self.random.i64(500..CAP as i64) } else { CAP as i64 };
                let until = bounded.then_some(now + theirs.jvm.wait);
                theirs.phase = Phase::Waiting { until };
            }
            Phase::Waiting { until: Some(until) } if now >= until => {
                theirs.phase = Phase::Idle;
                let peer = theirs.jvm.clone();
                // A farewell of the asynchronous API takes off the default wait, whatever the wait was.
                let wait = if self.random.u8(..) < 40 { CAP as i64 } else { peer.wait };
                self.as_jvm(&peer.entry, |world| peer.give_up(world, wait));
                self.jvm_later(at, 10, 2_000);
                return;
            }
            Phase::Waiting { .. } => {}
        }
        let peer = self.theirs[at].jvm.clone();
        let lease = self.random.i64(800..2_000);
        let mut sleep = None;
        self.as_jvm(&peer.entry, |world| sleep = peer.acquire(world, lease));
        match sleep {
            None => {
                self.theirs[at].phase = Phase::Holding;
                self.tally.grants_to_jvms += 1;
                self.take(&peer.entry, now + lease);
                let delay = self.random.u64(1..700);
                self.after(delay, Event::JvmRelease(at));
            }
            Some(sleep) => {
                let patience = match self.theirs[at].phase {
                    Phase::Waiting { until: Some(until) } => until - now,
                    _ => i64::MAX,
                };
                // It polls without a pause where it is told to sleep for nothing.
                let sleep = sleep.min(patience).max(5) as u64;
                self.jvm_later(at, sleep, sleep + 1);
            }
        }
    }

    fn jvm_later(&mut self, at: usize, from: u64, to: u64) {
        let delay = self.random.u64(from..to);
        self.theirs[at].epoch += 1;
        let epoch = self.theirs[at].epoch;
        self.after(delay, Event::Jvm(at, epoch));
    }

    fn as_jvm(&mut self, entry: &str, command: impl FnOnce(&World)) {
        let before = self.before();
        command(&self.world);
        self.tally.commands += 1;
        self.check(&before, Some(entry), true);
        self.deliver();
    }

    /// Sends a command, now and then twice; the answer is the last one's.
    fn twice(&mut self, call: &leasehold_core::call::Call) -> leasehold_core::reply::Reply {
        let mut reply = self.world.run(call);
        self.tally.commands += 1;
        if self.random.u8(..) < 45 {
            self.tally.copies += 1;
            reply = self.world.run(call);
        }
        self.deliver();
        reply
    }

    /// Takes the messages to those who listen; some are lost.
    fn deliver(&mut self) {
        let server = self.world.server();
        let prefix = format!("{}:", self.world.key("channel"));
        let keys: Vec<_> = server.keys().iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect();
        for listener in keys.iter().filter_map(|key| key.strip_prefix(&prefix)) {
            let said = self.world.heard(listener);
            if self.random.u8(..) < 5 {
                continue;
            }
            let delay = self.random.u64(1..20);
            if let Some(jvm) = self.theirs.iter().position(|theirs| theirs.jvm.entry == listener) {
                assert!(said.iter().all(|said| said == "0"), "{said:?} to a JVM");
                if matches!(self.theirs[jvm].phase, Phase::Waiting { .. }) {
                    self.jvm_later(jvm, delay, delay + 1);
                }
            }
            let by_process = self.ours.iter().position(|ours| ours.process.id() == listener);
            // JVMs tell only the front of a process of ours, and only while it listens there.
            let by_front = self
                .ours
                .iter()
                .position(|ours| ours.foreign && ours.waiters.first().is_some_and(|front| front == listener));
            if let Some(process) = by_process.or(by_front) {
                self.after(delay, Event::Try(process));
            }
        }
    }

    fn take(&mut self, entry: &str, until: i64) {
        let now = self.world.now();
        if let Some((holder, certain)) = &self.holding {
            let over = *certain <= now || holder == entry;
            assert!(over, "{entry} got the lock of {holder} at {now}, {} early", certain - now);
            self.tally.expired += u64::from(*certain <= now);
        }
        self.holding = Some((entry.to_owned(), until));
    }

    fn let_go(&mut self, entry: &str) {
        if self.holding.as_ref().is_some_and(|(holder, _)| holder == entry) {
            self.holding = None;
        }
    }

    fn before(&self) -> Before {
        Before { queue: self.world.queue(), scores: self.world.scores() }
    }

    fn process_of(&self, entry: &str) -> Option<&Ours> {
        let process = entry.rsplit_once(':').map_or(entry, |(process, _)| process);
        self.ours.iter().find(|ours| ours.process.id() == process)
    }

    /// A waiter that has left the queue had lost its right to it, and all others stand as they stood.
    fn check(&mut self, before: &Before, actor: Option<&str>, by_jvm: bool) {
        let now = self.world.now();
        let (queue, scores) = (self.world.queue(), self.world.scores());
        let listed: BTreeSet<_> = queue.iter().collect();
        assert_eq!(listed.len(), queue.len(), "an entry stands twice in {queue:?}");
        assert!(listed.into_iter().eq(scores.keys()), "{queue:?} and {scores:?} differ at {now}");
        if let Some(farthest) = scores.values().map(|score| *score as i64 - now).max() {
            assert!(farthest < FARTHEST_SCORE, "a score is {farthest} ahead at {now}: {scores:?}");
            self.tally.farthest_score = self.tally.farthest_score.max(farthest);
        }
        for gone in before.queue.iter().filter(|entry| !scores.contains_key(*entry)) {
            let score = before.scores.get(gone).copied().unwrap_or_default();
            if actor == Some(gone) || score < 1e12 {
                continue;
            }
            match self.process_of(gone) {
                Some(ours) => {
                    let silent = now - ours.last_sign > WINDOW;
                    let abandoned = !by_jvm && self.abandoned.contains(gone);
                    assert!(silent || abandoned, "{gone} lives and was evicted at {now}, by JVM {by_jvm}");
                }
                None => {
                    let overdue = score as i64 <= now - SKEW;
                    assert!(by_jvm || overdue, "{gone} was evicted inside its deadline at {now}");
                }
            }
        }
        let mut stood = before.queue.iter();
        // A JVM's command may evict its own entry, which then comes anew.
        let comes_anew = |last: &String| by_jvm && actor == Some(last) && before.scores.get(last) != scores.get(last);
        let new = queue.last().filter(|last| comes_anew(last) || !before.queue.contains(last));
        for entry in queue.iter().filter(|entry| Some(*entry) != new) {
            let ordered = stood.any(|earlier| earlier == entry);
            assert!(ordered, "{entry} changed its place at {now}: {:?} became {queue:?}", before.queue);
        }
        if by_jvm {
            let past = new.is_some_and(|new| (scores[new] as i64) < now - SKEW);
            assert!(!past, "a JVM came with a deadline in the past at {now}: {scores:?}");
        }
    }

    /// A living waiter of ours does not stand before a free lock for long.
    fn check_stall(&mut self) {
        let now = self.world.now();
        let waits = self.ours.iter().any(|ours| ours.lives && !ours.waiters.is_empty());
        if !waits || self.world.holder().is_some() {
            self.free_since = None;
            return;
        }
        // A process that dies while the lock is free begins the window anew: the bound counts from the last death.
        let last_death = self.ours.iter().filter(|ours| !ours.lives).map(|ours| ours.last_sign).max();
        let since = *self.free_since.get_or_insert(now);
        let stall = now - since.max(last_death.unwrap_or(since));
        let (longest, bound) = if self.theirs.is_empty() {
            (&mut self.tally.longest_stall, LONGEST_STALL)
        } else {
            (&mut self.tally.longest_stall_among_jvms, LONGEST_STALL_AMONG_JVMS)
        };
        *longest = (*longest).max(stall);
        assert!(stall <= bound, "the lock is free for {stall} at {now} and {:?} wait", self.world.queue());
    }

    /// Every living process has come to an end, and the rest on the server goes by itself.
    fn check_the_end(&mut self) {
        for ours in self.ours.iter().filter(|ours| ours.lives) {
            assert!(ours.waiters.is_empty(), "{:?} wait for ever", ours.waiters);
        }
        self.world.advance(2 * 600_000 + 100_000);
        assert!(self.world.marks().is_empty(), "{:?} is left", self.world.marks());
        if self.theirs.is_empty() {
            let server = self.world.server();
            assert_eq!(server.keys(), [""; 0]);
        }
    }
}

#[test]
fn nobody_is_wronged_in_any_history() {
    let mut tally = Tally::default();
    let histories = each_seed(12, |seed| History::new(seed, &mut tally).run());
    eprintln!("{tally:?}");
    assert!(histories == 1 || tally.grants > 10 * histories, "there is something to be checked: {tally:?}");
}
