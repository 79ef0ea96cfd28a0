//! A JVM that uses the same fair lock: a model of what its commands do to the keys, from the facts in the documents.
//!
//! The model sends one command of the server after the other. Tests have one driver, so nothing comes between them.

use super::world::{World, int};
use leasehold_core::reply::Reply;

/// A thread of a JVM that contends for the lock.
#[derive(Clone, Debug)]
pub(super) struct Jvm {
    /// `uuid:thread id`.
    pub(super) entry: String,
    /// The wait that it gives, at each arrival, grant and farewell.
    pub(super) wait: i64,
    /// How far its clock is ahead of the server's.
    pub(super) ahead: i64,
}

impl Jvm {
    pub(super) fn new(number: u32, wait: i64) -> Self {
        Self { entry: format!("0a0b0000-0000-4000-8000-{number:012}:{}", 20 + number), wait, ahead: 0 }
    }

    fn now(&self, world: &World) -> i64 {
        world.now() + self.ahead
    }

    /// Heads whose deadline has passed go; a head without a score stops this for ever.
    fn drop_stale(&self, world: &World) {
        let now = self.now(world) as f64;
        while let Some(head) = element(world, "0") {
            match score(world, &head) {
                Some(deadline) if deadline <= now => {
                    world.command(&["ZREM", &world.key("deadlines"), &head]);
                    world.command(&["LPOP", &world.key("queue")]);
                }
                _ => return,
            }
        }
    }

    /// The common beginning of both forms of acquiring; `None` if the lock is not to be had.
    fn take(&self, world: &World, lease: i64) -> Option<()> {
        let (queue, deadlines) = (world.key("queue"), world.key("deadlines"));
        let lease = lease.to_string();
        let first = element(world, "0").is_none_or(|head| head == self.entry);
        if int(&world.command(&["EXISTS", "stock"])) == 0 && first {
            world.command(&["LPOP", &queue]);
            world.command(&["ZREM", &deadlines, &self.entry]);
            for member in super::world::texts(world.command(&["ZRANGE", &deadlines, "0", "-1"])) {
                world.command(&["ZINCRBY", &deadlines, &(-self.wait).to_string(), &member]);
            }
            world.command(&["HSET", "stock", &self.entry, "1"]);
            world.command(&["PEXPIRE", "stock", &lease]);
            return Some(());
        }
        if int(&world.command(&["HEXISTS", "stock", &self.entry])) == 1 {
            world.command(&["HINCRBY", "stock", &self.entry, "1"]);
            world.command(&["PEXPIRE", "stock", &lease]);
            return Some(());
        }
        None
    }

    /// Asks and waits: `None` where it got the lock, else how long it goes to sleep.
    pub(super) fn acquire(&self, world: &World, lease: i64) -> Option<i64> {
        self.drop_stale(world);
        if self.take(world, lease).is_some() {
            return None;
        }
        let remaining = int(&world.command(&["PTTL", "stock"]));
        if score(world, &self.entry).is_some() {
            return Some(remaining.max(0));
        }
        let now = self.now(world);
        let tail = element(world, "-1").filter(|tail| *tail != self.entry).and_then(|tail| score(world, &tail));
        let delay = tail.map_or(remaining, |tail| tail as i64 - now);
        let deadline = (delay + self.wait + now).to_string();
        if int(&world.command(&["ZADD", &world.key("deadlines"), &deadline, &self.entry])) == 1 {
            world.command(&["RPUSH", &world.key("queue"), &self.entry]);
        }
        Some(delay)
    }

    /// Asks and does not wait.
    pub(super) fn try_acquire(&self, world: &World, lease: i64) -> bool {
        self.drop_stale(world);
        self.take(world, lease).is_some()
    }

    /// Waits no longer; `wait` is usually its own.
    pub(super) fn give_up(&self, world: &World, wait: i64) {
        let (queue, deadlines) = (world.key("queue"), world.key("deadlines"));
        let entries = world.queue();
        if let Some(at) = entries.iter().position(|entry| *entry == self.entry) {
            for behind in &entries[at + 1..] {
                world.command(&["ZINCRBY", &deadlines, &(-wait).to_string(), behind]);
            }
        }
        world.command(&["ZREM", &deadlines, &self.entry]);
        world.command(&["LREM", &queue, "0", &self.entry]);
    }

    /// Lowers its count by one; whether that ended its hold, or found the lock free, which a JVM takes for the same.
    pub(super) fn unlock(&self, world: &World, lease: i64) -> bool {
        self.drop_stale(world);
        if int(&world.command(&["EXISTS", "stock"])) == 0 {
            tell_head(world);
            return true;
        }
        if int(&world.command(&["HEXISTS", "stock", &self.entry])) == 0 {
            return false;
        }
        if int(&world.command(&["HINCRBY", "stock", &self.entry, "-1"])) > 0 {
            world.command(&["PEXPIRE", "stock", &lease.to_string()]);
            return false;
        }
        world.command(&["DEL", "stock"]);
        tell_head(world);
        true
    }

    /// Ends the hold of the present holder.
    pub(super) fn force_unlock(&self, world: &World) {
        self.drop_stale(world);
        if int(&world.command(&["DEL", "stock"])) == 1 {
            tell_head(world);
        }
    }
}

fn tell_head(world: &World) {
    if let Some(head) = element(world, "0") {
        world.command(&["RPUSH", &format!("{}:{head}", world.key("channel")), "0"]);
    }
}

fn element(world: &World, index: &str) -> Option<String> {
    match world.command(&["LINDEX", &world.key("queue"), index]) {
        Reply::Bulk(text) => Some(String::from_utf8_lossy(&text).into_owned()),
        _ => None,
    }
}

fn score(world: &World, entry: &str) -> Option<f64> {
    match world.command(&["ZSCORE", &world.key("deadlines"), entry]) {
        Reply::Bulk(text) => String::from_utf8_lossy(&text).parse().ok(),
        _ => None,
    }
}
