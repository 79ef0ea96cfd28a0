//! The keys of a fair lock, as both sides know them, and what stands in them.

use bytes::Bytes;
use leasehold_core::name::LockName;
use leasehold_core::reply::Reply;
use leasehold_embedded::EmbeddedServer;

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct FairKeys {
    pub(crate) lock: Bytes,
    pub(crate) queue: Bytes,
    pub(crate) deadlines: Bytes,
    channel: String,
}

impl FairKeys {
    pub(crate) fn of(lock: &LockName) -> Self {
        Self {
            lock: lock.to_key(),
            queue: lock.prefixed("redisson_lock_queue"),
            deadlines: lock.prefixed("redisson_lock_timeout"),
            channel: String::from_utf8_lossy(&lock.prefixed("redisson_lock__channel")).into_owned(),
        }
    }

    /// Where the waiter of an entry listens.
    pub(crate) fn channel_of(&self, entry: &Bytes) -> Bytes {
        format!("{}:{}", self.channel, String::from_utf8_lossy(entry)).into()
    }

    /// The queue, the next one first.
    pub(crate) fn entries(&self, server: &EmbeddedServer) -> Vec<Bytes> {
        texts(run(server, &[b"LRANGE", &self.queue, b"0", b"-1"]))
    }

    pub(crate) fn head(&self, server: &EmbeddedServer) -> Option<Bytes> {
        text(run(server, &[b"LINDEX", &self.queue, b"0"]))
    }

    pub(crate) fn score(&self, server: &EmbeddedServer, entry: &Bytes) -> Option<i64> {
        let score = text(run(server, &[b"ZSCORE", &self.deadlines, entry]))?;
        std::str::from_utf8(&score).ok()?.parse::<f64>().ok().map(|score| score as i64)
    }

    pub(crate) fn is_held(&self, server: &EmbeddedServer) -> bool {
        run(server, &[b"EXISTS", &self.lock]) == Reply::Int(1)
    }
}

pub(super) fn run(server: &EmbeddedServer, words: &[&[u8]]) -> Reply {
    server.command(words).unwrap_or_else(|error| panic!("a JVM's command is refused: {error:?}"))
}

pub(super) fn text(reply: Reply) -> Option<Bytes> {
    match reply {
        Reply::Bulk(text) => Some(text),
        _ => None,
    }
}

pub(super) fn texts(reply: Reply) -> Vec<Bytes> {
    match reply {
        Reply::Array(parts) => parts.into_iter().filter_map(text).collect(),
        _ => Vec::new(),
    }
}
