//! The commands of a JVM's fair lock: what each does to the keys, from the facts in the documents.

use crate::world::jvms::{FairKeys, run, text, texts};
use bytes::Bytes;
use leasehold_core::reply::Reply;
use leasehold_embedded::EmbeddedServer;

/// What came of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The lock was free, and it was its turn.
    Granted,
    /// It had the lock already, and has it once more.
    Entered,
    /// It is to sleep for so many milliseconds; `joined` if it has a new place.
    Sleeps { millis: i64, joined: bool },
}

/// What came of an unlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unlocked {
    Released,
    Lowered,
    /// Nobody had the lock, which a JVM takes for a success.
    Absent,
    /// Another has the lock: an exception.
    NotMine,
}

/// One thread's view of the server while its command runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller<'a> {
    pub(crate) server: &'a EmbeddedServer,
    pub(crate) keys: &'a FairKeys,
    pub(crate) entry: &'a Bytes,
    /// What its clock shows, in milliseconds.
    pub(crate) now: i64,
    /// The wait that it gives with its command.
    pub(crate) wait: i64,
    pub(crate) lease: i64,
}

impl Caller<'_> {
    fn say(&self, words: &[&[u8]]) -> Reply {
        run(self.server, words)
    }

    /// The number that a command answers with.
    fn number(&self, words: &[&[u8]]) -> i64 {
        self.say(words).int().unwrap_or_default()
    }

    /// Takes heads out whose deadlines have passed, and gives them. It stops at a head that has none.
    pub(crate) fn drop_stale(&self) -> Vec<Bytes> {
        let mut gone = Vec::new();
        while let Some(head) = self.keys.head(self.server) {
            if self.keys.score(self.server, &head).is_none_or(|score| score > self.now) {
                break;
            }
            self.say(&[b"ZREM", &self.keys.deadlines, &head]);
            self.say(&[b"LPOP", &self.keys.queue]);
            gone.push(head);
        }
        gone
    }

    /// Takes the lock, if it may. It takes its own wait off every deadline that is left.
    fn take(&self) -> Option<Asked> {
        let lease = self.lease.to_string();
        let is_next = self.keys.head(self.server).is_none_or(|head| head == *self.entry);
        let asked = if !self.keys.is_held(self.server) && is_next {
            self.say(&[b"LPOP", &self.keys.queue]);
            self.say(&[b"ZREM", &self.keys.deadlines, self.entry]);
            let left = texts(self.say(&[b"ZRANGE", &self.keys.deadlines, b"0", b"-1"]));
            left.iter().for_each(|entry| self.earlier(entry));
            self.say(&[b"HSET", &self.keys.lock, self.entry, b"1"]);
            Asked::Granted
        } else if self.has_it() {
            self.say(&[b"HINCRBY", &self.keys.lock, self.entry, b"1"]);
            Asked::Entered
        } else {
            return None;
        };
        self.say(&[b"PEXPIRE", &self.keys.lock, lease.as_bytes()]);
        Some(asked)
    }

    fn earlier(&self, entry: &Bytes) {
        self.say(&[b"ZINCRBY", &self.keys.deadlines, (-self.wait).to_string().as_bytes(), entry]);
    }

    pub(crate) fn has_it(&self) -> bool {
        self.number(&[b"HEXISTS", &self.keys.lock, self.entry]) == 1
    }

    /// Asks, and waits in the queue where the lock is not to be had.
    pub(crate) fn acquire(&self) -> Asked {
        if let Some(asked) = self.take() {
            return asked;
        }
        let left = self.number(&[b"PTTL", &self.keys.lock]);
        if self.keys.score(self.server, self.entry).is_some() {
            return Asked::Sleeps { millis: left.max(0), joined: false };
        }
        let tail = text(self.say(&[b"LINDEX", &self.keys.queue, b"-1"])).filter(|tail| tail != self.entry);
        let millis = tail.and_then(|tail| self.keys.score(self.server, &tail)).map_or(left, |score| score - self.now);
        let deadline = (millis + self.wait + self.now).to_string();
        let joined = self.number(&[b"ZADD", &self.keys.deadlines, deadline.as_bytes(), self.entry]) == 1;
        if joined {
            self.say(&[b"RPUSH", &self.keys.queue, self.entry]);
        }
        Asked::Sleeps { millis, joined }
    }

    /// Asks, and leaves nothing behind.
    pub(crate) fn try_acquire(&self) -> Option<Asked> {
        self.take()
    }

    /// Waits no longer. Those behind it have deadlines that are earlier by its wait.
    pub(crate) fn give_up(&self) {
        let behind = self.keys.entries(self.server).into_iter().skip_while(|entry| entry != self.entry).skip(1);
        behind.for_each(|entry| self.earlier(&entry));
        self.say(&[b"ZREM", &self.keys.deadlines, self.entry]);
        self.say(&[b"LREM", &self.keys.queue, b"0", self.entry]);
    }

    /// Lowers its count by one. At the end of a hold, and where there is none at all, the head is told on its own channel.
    pub(crate) fn unlock(&self) -> Unlocked {
        let ended = if !self.keys.is_held(self.server) {
            Unlocked::Absent
        } else if !self.has_it() {
            return Unlocked::NotMine;
        } else if self.number(&[b"HINCRBY", &self.keys.lock, self.entry, b"-1"]) > 0 {
            self.say(&[b"PEXPIRE", &self.keys.lock, self.lease.to_string().as_bytes()]);
            return Unlocked::Lowered;
        } else {
            self.say(&[b"DEL", &self.keys.lock]);
            Unlocked::Released
        };
        if let Some(head) = self.keys.head(self.server) {
            self.say(&[b"PUBLISH", &self.keys.channel_of(&head), b"0"]);
        }
        ended
    }

    /// Sets the lease anew, if the hold is there.
    pub(crate) fn renew(&self) -> bool {
        self.has_it() && self.number(&[b"PEXPIRE", &self.keys.lock, self.lease.to_string().as_bytes()]) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::name;

    const WAIT: i64 = 5_000;

    /// What a thread does at the present time of the server.
    fn by<T>(server: &EmbeddedServer, entry: &'static str, act: impl FnOnce(&Caller<'_>) -> T) -> T {
        let (keys, entry) = (FairKeys::of(&name("stock")), Bytes::from_static(entry.as_bytes()));
        let now = server.wall_millis();
        act(&Caller { server, keys: &keys, entry: &entry, now, wait: WAIT, lease: 30_000 })
    }

    fn left(server: &EmbeddedServer, entry: &'static str) -> Option<i64> {
        by(server, entry, |caller| Some(caller.keys.score(server, caller.entry)? - caller.now))
    }

    fn sleeps(millis: i64, joined: bool) -> Asked {
        Asked::Sleeps { millis, joined }
    }

    #[test]
    fn a_jvm_reckons_deadlines_as_redisson_does() {
        let server = EmbeddedServer::with_clock(leasehold_embedded::ManualClock::new());
        assert_eq!(by(&server, "a:1", |jvm| jvm.acquire()), Asked::Granted);
        assert_eq!(by(&server, "b:1", |jvm| jvm.acquire()), sleeps(30_000, true));
        assert_eq!(by(&server, "c:1", |jvm| jvm.acquire()), sleeps(35_000, true));
        assert_eq!(by(&server, "d:1", |jvm| jvm.acquire()), sleeps(40_000, true));
        assert_eq!(by(&server, "b:1", |jvm| jvm.acquire()), sleeps(30_000, false));
        assert_eq!(left(&server, "d:1"), Some(45_000));
        by(&server, "c:1", |jvm| jvm.give_up());
        assert_eq!(left(&server, "d:1"), Some(40_000));
        assert_eq!(by(&server, "d:1", |jvm| jvm.try_acquire()), None);
        assert_eq!(by(&server, "b:1", |jvm| jvm.unlock()), Unlocked::NotMine);
        assert_eq!(by(&server, "a:1", |jvm| jvm.unlock()), Unlocked::Released);
        assert_eq!(by(&server, "c:1", |jvm| jvm.unlock()), Unlocked::Absent);
        assert_eq!(by(&server, "d:1", |jvm| jvm.acquire()), sleeps(0, false));
        assert_eq!(by(&server, "b:1", |jvm| jvm.acquire()), Asked::Granted);
        assert_eq!(left(&server, "d:1"), Some(35_000));
        assert_eq!(by(&server, "b:1", |jvm| jvm.acquire()), Asked::Entered);
        assert_eq!(by(&server, "b:1", |jvm| jvm.unlock()), Unlocked::Lowered);
    }

    #[test]
    fn a_jvm_takes_out_heads_whose_deadlines_have_passed() {
        let server = EmbeddedServer::with_clock(leasehold_embedded::ManualClock::new());
        for entry in ["a:1", "b:1", "c:1"] {
            by(&server, entry, |jvm| jvm.acquire());
        }
        let later = |caller: &Caller<'_>, after: i64| Caller { now: caller.now + after, ..*caller }.drop_stale();
        assert_eq!(by(&server, "c:1", |caller| later(caller, 34_999)), [""; 0]);
        assert_eq!(by(&server, "c:1", |caller| later(caller, 35_000)), ["b:1"]);
        assert_eq!(by(&server, "c:1", |caller| later(caller, 40_000)), ["c:1"]);
    }
}
