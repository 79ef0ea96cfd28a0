//! A JVM, as far as its commands on a read-write lock are known: what each reads and writes, put together from plain commands. Each is one
//! atomic unit here, because no other runs meanwhile.

use crate::support::World;
use leasehold_core::reply::Reply;

/// A thread of a JVM.
pub(crate) struct Jvm<'a> {
    pub(crate) world: &'a World,
    /// `uuid:thread`.
    pub(crate) owner: &'a str,
}

impl Jvm<'_> {
    /// `None` where it is granted, or else the time to live of the lock.
    pub(crate) fn acquire_read(&self, lease: i64) -> Option<i64> {
        let mode = self.mode();
        let beside = mode.as_deref() == Some("write") && self.field(&self.writer()).is_some();
        if mode.as_deref() == Some("write") && !beside {
            return Some(self.left());
        }
        let left = if mode.is_none() {
            self.run(&format!("HSET {{}} mode read {} 1", self.owner));
            self.run(&format!("SET {} 1 PX {lease}", self.hold_key(self.owner, 1)));
            lease
        } else {
            let count = self.int(&format!("HINCRBY {{}} {} 1", self.owner));
            self.run(&format!("SET {} 1 PX {lease}", self.hold_key(self.owner, count)));
            self.left().max(lease)
        };
        self.run(&format!("PEXPIRE {{}} {left}"));
        None
    }

    /// Whether it held the read half.
    pub(crate) fn release_read(&self) -> bool {
        let Some(mode) = self.mode() else {
            self.publish("0");
            return false;
        };
        if self.field(self.owner).is_none() {
            return false;
        }
        let count = self.int(&format!("HINCRBY {{}} {} -1", self.owner));
        if count == 0 {
            self.run(&format!("HDEL {{}} {}", self.owner));
        }
        self.run(&format!("DEL {}", self.hold_key(self.owner, count + 1)));
        if self.int("HLEN {}") > 1 {
            let longest = self.longest();
            if longest > 0 {
                self.run(&format!("PEXPIRE {{}} {longest}"));
                return true;
            }
            if mode == "write" {
                return true;
            }
        }
        self.run("DEL {}");
        self.publish("0");
        true
    }

    /// `None` where it is granted, or else the time to live of the lock.
    pub(crate) fn acquire_write(&self, lease: i64) -> Option<i64> {
        let writer = self.writer();
        match self.mode().as_deref() {
            None => {
                self.run(&format!("HSET {{}} mode write {writer} 1"));
                self.run(&format!("PEXPIRE {{}} {lease}"));
                None
            }
            Some("write") if self.field(&writer).is_some() => {
                self.run(&format!("HINCRBY {{}} {writer} 1"));
                let sum = self.left() + lease;
                self.run(&format!("PEXPIRE {{}} {sum}"));
                None
            }
            _ => Some(self.left()),
        }
    }

    /// Whether it held the write half.
    pub(crate) fn release_write(&self, lease: i64) -> bool {
        let writer = self.writer();
        match self.mode().as_deref() {
            None => {
                self.publish("1");
                false
            }
            Some("write") if self.field(&writer).is_some() => {
                if self.int(&format!("HINCRBY {{}} {writer} -1")) > 0 {
                    self.run(&format!("PEXPIRE {{}} {lease}"));
                    return true;
                }
                self.run(&format!("HDEL {{}} {writer}"));
                if self.int("HLEN {}") == 1 {
                    self.run("DEL {}");
                    self.publish("1");
                } else {
                    self.run("HSET {} mode read");
                }
                true
            }
            Some(_) => false,
        }
    }

    /// The renewal of a reader by its watchdog: every hold key of its own, and the lock, whose time to live is set and may shrink.
    pub(crate) fn renew_read(&self, watchdog: i64) -> bool {
        let Some(count) = self.field(self.owner) else { return false };
        for index in 1..=count {
            self.run(&format!("PEXPIRE {} {watchdog}", self.hold_key(self.owner, index)));
        }
        self.run(&format!("PEXPIRE {{}} {watchdog}"));
        true
    }

    /// The renewal of a writer by its watchdog.
    pub(crate) fn renew_write(&self, watchdog: i64) -> bool {
        let held = self.field(&self.writer()).is_some();
        if held {
            self.run(&format!("PEXPIRE {{}} {watchdog}"));
        }
        held
    }

    /// The longest time to live of all hold keys of all readers.
    fn longest(&self) -> i64 {
        let Reply::Array(fields) = self.run("HGETALL {}") else { panic!("a list of fields") };
        let mut longest = 0;
        for pair in fields.chunks_exact(2) {
            let field = pair[0].text().expect("a field is a text");
            for index in 1..=pair[1].int().unwrap_or_default() {
                longest = longest.max(self.int(&format!("PTTL {}", self.hold_key(field, index))));
            }
        }
        longest
    }

    fn writer(&self) -> String {
        format!("{}:write", self.owner)
    }

    fn hold_key(&self, owner: &str, index: i64) -> String {
        format!("{{{}}}:{owner}:rwlock_timeout:{index}", self.world.name.as_str())
    }

    fn mode(&self) -> Option<String> {
        self.run("HGET {} mode").text().ok().map(str::to_owned)
    }

    fn field(&self, field: &str) -> Option<i64> {
        self.run(&format!("HGET {{}} {field}")).int().ok()
    }

    fn left(&self) -> i64 {
        self.int("PTTL {}")
    }

    fn publish(&self, payload: &str) {
        let name = self.world.name.as_str();
        self.run(&format!("PUBLISH redisson_rwlock:{{{name}}} {payload}"));
    }

    fn int(&self, words: &str) -> i64 {
        self.run(words).int().expect("an integer")
    }

    fn run(&self, words: &str) -> Reply {
        self.world.reply(words)
    }
}
