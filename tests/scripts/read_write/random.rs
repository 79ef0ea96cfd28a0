//! Histories at random in virtual time: readers and writers of ours, JVMs beside them, commands that arrive twice or late, deaths,
//! renewals, downgrades. After each command it is checked who may hold what, and what stands on the server.
//!
//! `LEASEHOLD_SEEDS=n` runs that many histories instead of the usual slice, and `LEASEHOLD_SEED=s` one, told step by step.

use super::jvm::Jvm;
use crate::histories::each_seed;
use crate::support::{Ear, Wish, World};
use fastrand::Rng;
use leasehold_core::call::Call;
use leasehold_core::command::{Acquired, Kind};
use leasehold_core::reply::Reply;
use std::collections::BTreeMap;

const READ: Kind = Kind::Read;
const WRITE: Kind = Kind::Write;
/// The longest lease of ours, the lease of JVMs, and how long a writer's mark lasts.
const LONGEST: u64 = 250;
const WATCHDOG: u64 = 90;
const MARK: u64 = 60;

/// A hold as its owner knows it.
#[derive(Clone, Debug)]
struct Hold {
    field: String,
    count: u32,
    lease: u64,
    /// When it ends unless it is renewed.
    until: u64,
    /// Whether it is renewed at all.
    renewed: bool,
    /// When it is looked at next: renewed, or re-asserted beside JVMs.
    next: u64,
}

#[derive(Clone, Debug, Default)]
struct Native {
    read: Option<Hold>,
    write: Option<Hold>,
    /// The write hold that it waits for, and may have left a mark for.
    waits: Option<String>,
}

#[derive(Clone, Debug, Default)]
struct Foreign {
    owner: String,
    /// When each of its hold keys ends.
    reads: Vec<u64>,
    writes: u32,
    /// When its write half ends.
    until: u64,
    next: u64,
}

#[derive(Default)]
struct Tally {
    grants: u64,
    copies: u64,
}

struct History {
    world: World,
    rng: Rng,
    told: bool,
    now: u64,
    number: u32,
    natives: Vec<Native>,
    foreigns: Vec<Foreign>,
    /// The dead of them: whether it writes, and until when.
    dead: Vec<(bool, u64)>,
    /// Until when the locks of writers that have died may stand, because they read beside.
    lingering: Vec<u64>,
    marks: BTreeMap<String, u64>,
    prefer: bool,
    /// Commands of holds that have ended, which may arrive again.
    late: Vec<Call>,
    listener: Ear,
    tally: Tally,
}

#[test]
fn histories_at_random_keep_every_rule() {
    let told = std::env::var_os("LEASEHOLD_SEED").is_some();
    let mut sum = Tally::default();
    let history = |seed| {
        let tally = History::new(seed, told).run();
        sum.grants += tally.grants;
        sum.copies += tally.copies;
    };
    let histories = each_seed(25, history);
    eprintln!("{histories} histories, {} grants, {} commands that arrived again", sum.grants, sum.copies);
    assert!(told || sum.grants > histories * 5 && sum.copies > histories * 3, "something happened");
}

impl History {
    fn new(seed: u64, told: bool) -> Self {
        let mut rng = Rng::with_seed(seed);
        let world = World::embedded("rw");
        let foreign = |index| Foreign { owner: format!("jvm:{index}"), ..Foreign::default() };
        let foreigns = if seed.is_multiple_of(2) { 0 } else { rng.u32(1..4) };
        Self {
            natives: vec![Native::default(); rng.usize(1..5)],
            foreigns: (0..foreigns).map(foreign).collect(),
            prefer: rng.bool(),
            listener: world.listen_to(READ),
            world,
            rng,
            told,
            now: 0,
            number: 0,
            dead: Vec::new(),
            lingering: Vec::new(),
            marks: BTreeMap::new(),
            late: Vec::new(),
            tally: Tally::default(),
        }
    }

    fn run(mut self) -> Tally {
        for _ in 0..250 {
            let millis = self.rng.u64(0..10);
            self.world.advance(millis);
            self.now += millis;
            for index in 0..self.natives.len() {
                self.renew(index);
            }
            for index in 0..self.foreigns.len() {
                self.renew_foreign(index);
            }
            match self.rng.usize(0..self.natives.len() + self.foreigns.len() + 1) {
                0 => self.repeat_late(),
                index if index <= self.natives.len() => self.step(index - 1),
                index => self.step_foreign(index - 1 - self.natives.len()),
            }
            self.check();
        }
        // All die, and nothing stays.
        self.world.advance(600_000 + 2 * LONGEST);
        assert_eq!(self.world.server().keys(), [""; 0], "everything expires");
        self.tally
    }

    fn tell(&self, what: std::fmt::Arguments<'_>) {
        if self.told {
            eprintln!("{:>5} {what}", self.now);
        }
    }

    /// Whether another than `who` holds a half that excludes the other: any, or the write half only. `strict` leaves out what one may wait
    /// for and need not: the last millisecond of a key, and the dead whose time a JVM may cut.
    fn excludes(&self, who: Option<usize>, any: bool, strict: bool) -> bool {
        let now = self.now;
        let ends = |until: u64| if strict { until > now } else { until >= now };
        // A writer that reads beside lives on the server as long as its read, though it may not know.
        let writing = !strict && self.world.command("HGET {} mode") == "\"write\"";
        let native = self.natives.iter().enumerate().filter(|(index, _)| Some(*index) != who).any(|(_, native)| {
            native.write.as_ref().is_some_and(|hold| writing || ends(hold.until))
                || (any && native.read.as_ref().is_some_and(|hold| hold.until > now))
        });
        let foreign = self.foreigns.iter().any(|foreign| {
            (foreign.writes > 0 && ends(foreign.until)) || (any && foreign.reads.iter().any(|until| *until > now))
        });
        let counts_dead = !strict || self.foreigns.is_empty();
        let dead = self.dead.iter().any(|(writes, until)| (any || *writes) && ends(*until));
        let lingers = writing && self.lingering.iter().any(|until| *until >= now);
        native || foreign || (counts_dead && dead) || lingers
    }

    fn fresh(&mut self) -> String {
        self.number += 1;
        format!("n:{}", self.number)
    }

    /// Runs a call, sometimes twice; gives both replies.
    fn send(&mut self, call: &Call) -> (Reply, Option<Reply>) {
        let reply = self.world.run(call);
        let twice = self.rng.u8(0..100) < 20;
        let copy = twice.then(|| self.world.run(call));
        self.tally.copies += u64::from(twice);
        (reply, copy)
    }

    fn acquire(&mut self, kind: Kind, field: &str, count: u32, wish: Wish<'_>) -> Acquired {
        let call = self.world.acquire_call(kind, field, count, wish);
        let (reply, copy) = self.send(&call);
        let outcome = kind.protocol().acquired(&reply).expect("it is understood");
        self.tell(format_args!("{kind:?} acquire {field} {count} {} ms -> {outcome:?}", wish.lease));
        if let Some(copy) = copy {
            let second = kind.protocol().acquired(&copy).expect("it is understood");
            assert_eq!(std::mem::discriminant(&outcome), std::mem::discriminant(&second), "a copy of {kind:?} {field}");
            assert_ne!(copy.array().expect("an array")[0], Reply::Int(1), "nothing is granted twice");
        }
        if count > 1 {
            self.late.push(call);
        }
        self.tally.grants += u64::from(matches!(outcome, Acquired::Held { .. }));
        outcome
    }

    fn release(&mut self, kind: Kind, field: &str, count: u32) -> i64 {
        let call = self.world.release_call(kind, field, count);
        let (reply, copy) = self.send(&call);
        let code = reply.int().expect("an integer");
        self.tell(format_args!("{kind:?} release {field} {count} -> {code}"));
        if let Some(copy) = copy {
            let again = copy.int().expect("an integer");
            let expected: &[i64] = if count == 0 { &[0, -1] } else { &[3, 0, -1] };
            assert!(expected.contains(&again), "a copy of a release answers {again}");
        }
        if count == 0 {
            self.late.push(call);
        }
        code
    }

    /// A command of a hold that has ended comes again, and `check` sees that it does no harm.
    fn repeat_late(&mut self) {
        let living: Vec<_> = self.natives.iter().flat_map(|native| [&native.read, &native.write]).flatten().collect();
        let waiting = self.natives.iter().filter_map(|native| native.waits.as_deref());
        let in_use: Vec<String> =
            living.iter().map(|hold| hold.field.as_str()).chain(waiting).map(str::to_owned).collect();
        let ended = |call: &&Call| {
            call.args().iter().all(|arg| {
                !in_use.iter().any(|field| arg == field.as_bytes() || arg == format!("{field}:write").as_bytes())
            })
        };
        let Some(call) = self.rng.choice(self.late.iter().filter(ended).collect::<Vec<_>>()).cloned() else { return };
        let Reply::Array(fields) = self.world.reply("HKEYS {}") else { panic!("fields") };
        if call.args().iter().any(|arg| fields.contains(&Reply::Bulk(arg.to_vec().into()))) {
            // A copy of one that died and still holds is as good as the command.
            return;
        }
        let reply = self.world.run(&call);
        self.tally.copies += 1;
        self.tell(format_args!("late {} {:?} -> {reply:?}", call.script().name(), call.args()));
    }

    fn renew(&mut self, index: usize) {
        let mixed = !self.foreigns.is_empty();
        let now = self.now;
        let due = |hold: &&Hold| hold.next <= now && hold.until > now;
        let native = self.natives[index].clone();
        if let Some(hold) = native.read.as_ref().filter(due).filter(|hold| hold.renewed || mixed) {
            let lease = if hold.renewed { hold.lease } else { 0 };
            // One call renews the holds of many: here of one that is gone, too.
            let call = self.world.renew_call(READ, &[("gone:1", lease), (&hold.field, lease)]);
            let (reply, _) = self.send(&call);
            self.late.push(call);
            let [_, _, count, left] = reply.array().expect("an array") else { panic!("two pairs") };
            self.tell(format_args!("renew {} {lease} -> {reply:?}", hold.field));
            assert_eq!(count, &Reply::Int(hold.count.into()), "{} is renewed in time", hold.field);
            let left = left.int().expect("an integer").cast_unsigned();
            let hold = self.natives[index].read.as_mut().expect("it was there");
            assert!(left >= hold.until - now && left <= LONGEST, "a hold is never shortened");
            hold.until = now + left;
            hold.next = now + if mixed { WATCHDOG.min(hold.lease) / 3 } else { hold.lease / 3 };
        }
        if let Some(hold) = native.write.as_ref().filter(due).filter(|hold| hold.renewed) {
            let call = self.world.renew_call(WRITE, &[(&hold.field, hold.lease)]);
            let (reply, _) = self.send(&call);
            self.late.push(call);
            let [count, left] = reply.array().expect("an array") else { panic!("one pair") };
            assert_eq!(count, &Reply::Int(hold.count.into()), "{} is renewed in time", hold.field);
            let hold = self.natives[index].write.as_mut().expect("it was there");
            hold.until = now + left.int().expect("an integer").cast_unsigned();
            hold.next = now + hold.lease / 3;
        }
    }

    fn step(&mut self, index: usize) {
        let native = self.natives[index].clone();
        if self.rng.u8(0..100) < 4 {
            self.tell(format_args!("native {index} dies"));
            let left = self.world.reply("PTTL {}").int().expect("an integer");
            self.lingering.extend(native.write.iter().map(|_| self.now.saturating_add_signed(left)));
            self.dead.extend(native.write.iter().map(|hold| (true, hold.until)));
            self.dead.extend(native.read.iter().map(|hold| (false, hold.until)));
            self.natives[index] = Native::default();
            return;
        }
        match (native.read, native.write) {
            (None, None) if native.waits.is_some() || self.rng.bool() => self.ask_write(index),
            (None, None) => self.ask_read(index),
            (read, write) => {
                let kinds: Vec<_> =
                    [read.map(|hold| (READ, hold)), write.map(|hold| (WRITE, hold))].into_iter().flatten().collect();
                let (kind, hold) = self.rng.choice(&kinds).expect("it holds one").clone();
                let both = kinds.len() == 2;
                match self.rng.u8(0..10) {
                    0..3 => self.raise(index, kind, &hold),
                    3..5 if hold.count > 1 => self.lower(index, kind, &hold),
                    5..7 if !both && kind == WRITE => self.ask_read(index),
                    5 if !both && hold.until > self.now => {
                        let field = self.fresh();
                        let wish = Wish { lease: 100, beside: Some(&hold.field), ..self.wish() };
                        let refused = self.acquire(WRITE, &field, 1, wish);
                        assert_eq!(refused, Acquired::UpgradeNotSupported, "the owner would wait for itself");
                    }
                    7..10 => self.end(index, kind, &hold),
                    _ => {}
                }
            }
        }
    }

    fn wish(&self) -> Wish<'static> {
        Wish { prefer: self.prefer.then_some(MARK), ..Wish::default() }
    }

    fn hold(&mut self, field: String, lease: u64, left: u64) -> Hold {
        let every = if self.foreigns.is_empty() { lease } else { lease.min(WATCHDOG) };
        let (now, renewed) = (self.now, self.rng.u8(0..4) > 0);
        Hold { field, count: 1, lease, until: now + left, renewed, next: now + every / 3 }
    }

    fn ask_read(&mut self, index: usize) {
        let field = self.fresh();
        let beside = self.natives[index].write.clone().filter(|hold| hold.until > self.now);
        let lease = self.rng.u64(60..=LONGEST);
        let wish = Wish { lease, beside: beside.as_ref().map(|hold| hold.field.as_str()), ..self.wish() };
        match self.acquire(READ, &field, 1, wish) {
            Acquired::Held { left, .. } => {
                assert!(!self.excludes(Some(index), false, true), "{field} reads beside another's write");
                self.natives[index].read = Some(self.hold(field, lease, left.as_millis() as u64));
            }
            Acquired::Busy { .. } => {
                let marked = self.prefer && self.marks.values().any(|until| *until > self.now);
                let own = self.natives[index].write.as_ref().is_some_and(|hold| hold.until <= self.now);
                assert!(own || marked || self.excludes(Some(index), false, false), "{field} waits for nobody");
                assert!(beside.is_none(), "{field} may read beside its own write");
            }
            other => panic!("{other:?}"),
        }
    }

    fn ask_write(&mut self, index: usize) {
        let field = self.natives[index].waits.clone().unwrap_or_else(|| self.fresh());
        if self.natives[index].waits.is_some() && self.rng.u8(0..100) < 15 {
            assert!([0, -1].contains(&self.release(WRITE, &field, 0)), "it never held");
            let left = self.world.command(&format!("ZSCORE leasehold:1:rw_writers:{{rw}} {field}:write"));
            assert_eq!(left, "nil", "the mark goes with the wish");
            self.marks.remove(&field);
            self.natives[index].waits = None;
            return;
        }
        let lease = self.rng.u64(60..=LONGEST);
        match self.acquire(WRITE, &field, 1, Wish { lease, ..self.wish() }) {
            Acquired::Held { left, .. } => {
                assert!(!self.excludes(Some(index), true, true), "{field} writes beside others");
                self.marks.remove(&field);
                self.natives[index].waits = None;
                self.natives[index].write = Some(self.hold(field, lease, left.as_millis() as u64));
            }
            outcome @ (Acquired::Busy { .. } | Acquired::Placed { .. }) => {
                assert!(self.excludes(Some(index), true, false), "{field} waits for nobody");
                assert_eq!(matches!(outcome, Acquired::Placed { .. }), self.prefer);
                self.looks_again_in_time(&outcome);
                if self.prefer {
                    self.marks.insert(field.clone(), self.now + MARK);
                }
                self.natives[index].waits = Some(field);
            }
            other => panic!("{other:?}"),
        }
    }

    /// A writer sleeps no longer than until the first of the readers may be gone, because it is not told of that.
    fn looks_again_in_time(&self, outcome: &Acquired) {
        let (Acquired::Busy { left, .. } | Acquired::Placed { left, .. }) = outcome else { return };
        let readers = self.natives.iter().filter_map(|native| native.read.as_ref()).map(|hold| hold.until);
        let first = readers.filter(|until| *until > self.now).min();
        if let (Some(first), "\"read\"") = (first, self.world.command("HGET {} mode").as_str()) {
            let left = left.expect("a time to live").as_millis() as u64;
            assert!(left <= (first - self.now).max(40), "it sleeps for {left} ms at {}, beyond {first}", self.now);
        }
    }

    fn raise(&mut self, index: usize, kind: Kind, hold: &Hold) {
        let lease = self.rng.u64(60..=LONGEST);
        let outcome = self.acquire(kind, &hold.field, hold.count + 1, Wish { lease, ..self.wish() });
        match outcome {
            Acquired::Held { left, .. } => {
                let (now, left) = (self.now, left.as_millis() as u64);
                let hold = self.own(index, kind).as_mut().expect("it was there");
                assert!(now + left >= hold.until, "a lease never shrinks");
                hold.count += 1;
                hold.until = now + left;
            }
            Acquired::Lost if hold.until <= self.now => *self.own(index, kind) = None,
            other => panic!("{hold:?} at {}: {other:?}", self.now),
        }
    }

    fn lower(&mut self, index: usize, kind: Kind, hold: &Hold) {
        let count = self.rng.u32(1..hold.count);
        match self.release(kind, &hold.field, count) {
            2 => self.own(index, kind).as_mut().expect("it was there").count = count,
            0 | -1 if hold.until <= self.now => *self.own(index, kind) = None,
            other => panic!("{hold:?} at {}: {other}", self.now),
        }
    }

    fn end(&mut self, index: usize, kind: Kind, hold: &Hold) {
        self.listener.hears_any();
        let code = self.release(kind, &hold.field, 0);
        assert!(code == 1 || hold.until <= self.now, "{hold:?} ended early, at {}: {code}", self.now);
        *self.own(index, kind) = None;
        let gone = self.world.command("EXISTS {}") == "0";
        if code == 1 && (kind == WRITE || gone) {
            assert!(self.listener.hears_any(), "waiters are told");
        }
    }

    fn own(&mut self, index: usize, kind: Kind) -> &mut Option<Hold> {
        let native = &mut self.natives[index];
        if kind == READ { &mut native.read } else { &mut native.write }
    }

    fn renew_foreign(&mut self, index: usize) {
        let foreign = self.foreigns[index].clone();
        if foreign.next > self.now || (foreign.reads.is_empty() && foreign.writes == 0) {
            return;
        }
        let jvm = Jvm { world: &self.world, owner: &foreign.owner };
        if foreign.writes > 0 {
            assert!(jvm.renew_write(WATCHDOG.cast_signed()), "a JVM's writer lives as long as it renews");
        }
        if !foreign.reads.is_empty() {
            assert!(jvm.renew_read(WATCHDOG.cast_signed()), "a JVM's reader lives as long as it renews");
        }
        self.tell(format_args!("{} renews", foreign.owner));
        let foreign = &mut self.foreigns[index];
        foreign.reads.fill(self.now + WATCHDOG);
        foreign.until = self.now + WATCHDOG;
        foreign.next = self.now + WATCHDOG / 3;
    }

    fn step_foreign(&mut self, index: usize) {
        let foreign = self.foreigns[index].clone();
        let jvm = Jvm { world: &self.world, owner: &foreign.owner };
        let lease = WATCHDOG.cast_signed();
        let idle = foreign.reads.is_empty() && foreign.writes == 0;
        if self.rng.u8(0..100) < 4 {
            self.tell(format_args!("{} dies", foreign.owner));
            self.dead.extend(foreign.reads.iter().map(|until| (false, *until)));
            self.dead.extend((foreign.writes > 0).then_some((true, foreign.until)));
            let left = self.world.reply("PTTL {}").int().expect("an integer");
            self.lingering.extend((foreign.writes > 0).then(|| self.now.saturating_add_signed(left)));
            self.number += 1;
            self.foreigns[index] = Foreign { owner: format!("jvm:1{}", self.number), ..Foreign::default() };
            return;
        }
        let until = self.now + WATCHDOG;
        if idle {
            self.foreigns[index].next = self.now + WATCHDOG / 3;
        }
        match self.rng.u8(0..6) {
            // A reader does not ask for the write half: a JVM would wait for itself.
            0 | 1 if foreign.reads.is_empty() || foreign.writes > 0 => {
                let refused = jvm.acquire_write(lease);
                self.tell(format_args!("{} acquires write -> {refused:?}", foreign.owner));
                if refused.is_none() {
                    let others = foreign.writes == 0 && self.excludes(None, true, true);
                    assert!(!others, "{} writes beside others", foreign.owner);
                    self.foreigns[index].writes += 1;
                    self.tally.grants += 1;
                    let left = self.world.reply("PTTL {}").int().expect("an integer").cast_unsigned();
                    self.foreigns[index].until = self.now + left;
                }
            }
            2 | 3 => {
                let refused = jvm.acquire_read(lease);
                self.tell(format_args!("{} acquires read -> {refused:?}", foreign.owner));
                if refused.is_none() {
                    let others = foreign.writes == 0 && self.excludes(None, false, true);
                    assert!(!others, "{} reads beside another's write", foreign.owner);
                    self.foreigns[index].reads.push(until);
                    self.tally.grants += 1;
                }
            }
            4 if !foreign.reads.is_empty() => {
                self.tell(format_args!("{} releases read", foreign.owner));
                assert!(jvm.release_read(), "{} has lost its read", foreign.owner);
                self.foreigns[index].reads.pop();
            }
            5 if foreign.writes > 0 => {
                self.tell(format_args!("{} releases write", foreign.owner));
                assert!(jvm.release_write(lease), "{} has lost its write", foreign.owner);
                self.foreigns[index].writes -= 1;
                self.foreigns[index].until = until;
            }
            _ => {}
        }
    }

    /// The state of the server after each step.
    fn check(&mut self) {
        let mixed = !self.foreigns.is_empty();
        for native in &self.natives {
            let read = native.read.iter().map(|hold| (hold, hold.field.clone()));
            let write = native.write.iter().map(|hold| (hold, format!("{}:write", hold.field)));
            for (hold, field) in read.chain(write).filter(|(hold, _)| hold.until > self.now) {
                let count = self.world.command(&format!("HGET {{}} {field}"));
                assert_eq!(count, format!("\"{}\"", hold.count), "{hold:?} at {} has what it was granted", self.now);
            }
        }
        let left = self.world.reply("PTTL {}").int().expect("an integer");
        assert!(left >= 0 || left == -2, "the lock has a time to live");
        assert!(mixed || left <= LONGEST.cast_signed(), "{left} ms are no lease that anybody asked for");
        let Reply::Array(keys) = self.world.reply("HKEYS {}") else { panic!("fields") };
        if !keys.is_empty() {
            let fields: Vec<_> = keys.iter().map(|field| field.text().expect("a text")).collect();
            let writers = fields.iter().filter(|field| field.ends_with(":write")).count();
            let mode = self.world.command("HGET {} mode");
            match mode.as_str() {
                "\"write\"" => assert_eq!(writers, 1, "{fields:?}"),
                "\"read\"" => {
                    assert_eq!(writers, 0, "{fields:?}");
                    // The rest that a JVM leaves behind a downgrade may be a shell.
                    assert!(mixed || fields.len() > 1, "a lock without a holder");
                }
                other => panic!("mode {other}"),
            }
        }
        for key in self.world.server().keys() {
            let key = String::from_utf8_lossy(&key).into_owned();
            let left = self.world.reply(&format!("PTTL {key}")).int().expect("an integer");
            assert!((0..=600_000 + 4 * LONGEST.cast_signed()).contains(&left), "{key} lives for {left} ms");
        }
    }
}
