//! A history: what several clients, JVMs and an operator do at a few locks of one family, and how time passes.

use crate::names::{Subject, channels, folder};
use crate::step::{Step, told};
use crate::values::{content, lasting, member, moment, one_of, score, value};
use bytes::Bytes;
use fastrand::Rng;
use leasehold_core::call::Call;
use leasehold_core::script::{ALL, Script};
use std::fmt;
use std::time::Duration;

const STEPS: usize = 60;

/// The folders of scripts that are used together.
const FAMILIES: [&[&str]; 9] = [
    &["lock", "fenced", "durable", "ticket"],
    &["fair", "fenced_fair", "lock", "ticket"],
    &["read", "write", "read_write", "lock"],
    &["semaphore"],
    &["permits"],
    &["latch"],
    &["simple"],
    &["store", "fenced"],
    &["record"],
];

/// The steps of a history, and the channels that are listened to meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) listened: Vec<Bytes>,
    pub(crate) steps: Vec<Step>,
}

impl History {
    pub(crate) fn random(seed: u64, sharded: bool) -> Self {
        let mut rng = Rng::with_seed(seed);
        // The first ones are spread over all families, and the fair and read-write locks, which have most to them, get more.
        let family =
            FAMILIES[usize::try_from(seed % 12).unwrap_or_default().checked_sub(3).unwrap_or(1 + seed as usize % 2)];
        let listened = channels().into_iter().filter(|_| rng.bool()).collect();
        let mut author = Author { rng, family, sharded, told: Vec::new() };
        Self { listened, steps: (0..STEPS).map(|_| author.step()).collect() }
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  listened to:{}", told(&self.listened))?;
        self.steps.iter().zip(1..).try_for_each(|(step, number)| writeln!(f, "  {number:>3}  {step}"))
    }
}

struct Author {
    rng: Rng,
    family: &'static [&'static str],
    sharded: bool,
    /// The calls so far, which may be sent again.
    told: Vec<Call>,
}

impl Author {
    fn step(&mut self) -> Step {
        let rng = &mut self.rng;
        match rng.u8(..100) {
            0..8 => Step::Clock(one_of(rng, &[0, 1, 1, 20, 300, 1_000, 5_000, 7_200_000, -1, -2_000])),
            8 => Step::Memory(rng.u8(..3) == 0),
            9 => Step::Moment(Duration::from_micros(rng.u64(1..2_500))),
            10..20 => Step::Expiry(rng.usize(..64), rng.i64(-1..2)),
            20..31 => Step::Command(self.command()),
            31..36 => Step::Inside(self.command()),
            36..50 if !self.told.is_empty() => Step::Script(self.told[rng.usize(..self.told.len())].clone()),
            _ => {
                let call = self.call();
                self.told.push(call.clone());
                Step::Script(call)
            }
        }
    }

    /// A script of the family, now and then another.
    fn script(&mut self) -> &'static Script {
        let foreign = self.rng.u8(..12) == 0;
        let fitting: Vec<_> = ALL.iter().filter(|script| foreign || self.family.contains(&folder(script))).collect();
        fitting[self.rng.usize(..fitting.len())]
    }

    fn call(&mut self) -> Call {
        let script = self.script();
        let groups = if script.is_renewal() { self.rng.usize(1..4) } else { 1 };
        let (mut keys, mut args) = (Vec::new(), Vec::new());
        for _ in 0..groups {
            let subject = Subject::random(&mut self.rng);
            for word in script.keys() {
                let right = subject.key(folder(script), word);
                let wrong = self.key();
                // The lock itself is never mistaken: what other keys hold is no count, and would be taken for one.
                let mistaken = ![&right, &wrong].contains(&&Bytes::from(subject.lock)) && self.rng.u8(..30) == 0;
                keys.push(if mistaken { wrong } else { right });
            }
            let values = script.args().iter().map(|word| value(&mut self.rng, script, word, &subject, self.sharded));
            args.extend(values);
        }
        Call::new(script, keys, args)
    }

    /// One of the keys of the family.
    fn key(&mut self) -> Bytes {
        let script = self.script();
        Subject::random(&mut self.rng).key_of(script, &mut self.rng)
    }

    /// A command that an operator or another program runs on some key, whatever it holds.
    fn command(&mut self) -> Vec<Bytes> {
        let key = self.key();
        let other = self.key();
        let is_modern = self.sharded;
        let rng = &mut self.rng;
        let index = |rng: &mut Rng| rng.i64(-3..4).to_string();
        let bound = |rng: &mut Rng| {
            let score = score(rng);
            if rng.bool() { score } else { format!("({score}") }
        };
        let (name, rest): (&str, Vec<String>) = match rng.u8(..42) {
            0 => ("DEL", vec![]),
            1 => return [b"EXISTS".to_vec(), key.to_vec(), other.to_vec()].map(Bytes::from).into(),
            2 => return [b"UNLINK".to_vec(), key.to_vec(), other.to_vec()].map(Bytes::from).into(),
            3 => ("TYPE", vec![]),
            4 => ("PTTL", vec![]),
            5 | 6 => {
                let lease = (if rng.u8(..4) == 0 { -1 } else { lasting(rng) }).to_string();
                // Old servers do not compare.
                ("PEXPIRE", if is_modern && rng.bool() { vec![lease, "GT".into()] } else { vec![lease] })
            }
            7 => ("PEXPIREAT", vec![moment(rng).to_string()]),
            8 => ("PERSIST", vec![]),
            9 if rng.bool() => ("GETRANGE", vec![index(rng), index(rng)]),
            9 => ("GET", vec![]),
            10 => ("SET", vec![content(rng)]),
            11 => ("SET", vec![content(rng), "PX".into(), lasting(rng).to_string()]),
            12 => ("SET", vec![content(rng), one_of(rng, &["NX", "XX", "KEEPTTL", "nx"]).into()]),
            13 => (
                "SET",
                vec![content(rng), "NX".into(), one_of(rng, &["PXAT", "EX"]).into(), (moment(rng) + 17).to_string()],
            ),
            14 => (one_of(rng, &["INCR", "DECR"]), vec![]),
            15 => (one_of(rng, &["INCRBY", "DECRBY"]), vec![one_of(rng, &["1", "-2", "x", "2147483647"]).into()]),
            16 | 17 => ("HSET", vec![member(rng), content(rng)]),
            18 => ("HSET", vec![member(rng), content(rng), member(rng), content(rng)]),
            19 => ("HSETNX", vec![member(rng), content(rng)]),
            20 => ("HINCRBY", vec![member(rng), one_of(rng, &["1", "-1", "x", "1.0"]).into()]),
            21 => ("HDEL", vec![member(rng), member(rng)]),
            22 => ("HMGET", vec![member(rng), member(rng)]),
            23 => (one_of(rng, &["HGETALL", "HKEYS", "HVALS", "HLEN"]), vec![]),
            24 => (one_of(rng, &["HGET", "HEXISTS"]), vec![member(rng)]),
            25 | 26 => (one_of(rng, &["RPUSH", "LPUSH"]), vec![member(rng), member(rng)]),
            27 => (one_of(rng, &["LPOP", "RPOP"]), vec![]),
            28 => ("LREM", vec![index(rng), member(rng)]),
            29 => ("LRANGE", vec![index(rng), index(rng)]),
            30 => ("LINDEX", vec![index(rng)]),
            31 => (one_of(rng, &["LLEN", "ZCARD"]), vec![]),
            32 | 33 => ("ZADD", vec![score(rng), member(rng)]),
            34 => (
                "ZADD",
                vec![one_of(rng, &["NX", "XX", "CH"]).into(), score(rng), member(rng), score(rng), member(rng)],
            ),
            35 => ("ZREM", vec![member(rng), member(rng)]),
            36 => ("ZINCRBY", vec![score(rng), member(rng)]),
            37 => (one_of(rng, &["ZCOUNT", "ZREMRANGEBYSCORE"]), vec![bound(rng), bound(rng)]),
            38 => ("ZRANGEBYSCORE", vec![bound(rng), bound(rng), "LIMIT".into(), index(rng), index(rng)]),
            39 => ("ZRANGE", vec![bound(rng), bound(rng), "BYSCORE".into(), "REV".into(), "WITHSCORES".into()]),
            40 => ("ZRANGE", vec![index(rng), index(rng), one_of(rng, &["WITHSCORES", "REV"]).into()]),
            _ => (one_of(rng, &["ZSCORE", "ZRANK"]), vec![member(rng)]),
        };
        let words = [Bytes::from(name), key].into_iter();
        words.chain(rest.into_iter().map(Bytes::from)).collect()
    }
}
