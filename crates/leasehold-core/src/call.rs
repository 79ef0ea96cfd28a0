//! One call of a script, ready to be sent.

use crate::script::Script;
use bytes::Bytes;
use std::time::Duration;

/// Identifies a call or another action, for its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub(crate) u64);

impl CallId {
    /// Creates an id, for using a link without a session.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }
}

/// How many replicas must have what a call wrote before it counts, and how long they may take to say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "callers write it as a literal, and there is nothing else to say")]
pub struct Replicas {
    /// How many replicas must acknowledge; at least 1.
    pub at_least: u32,
    /// How long the server waits for them at most, in whole milliseconds; at least 1 ms.
    pub within: Duration,
}

impl Replicas {
    /// The condition that satisfies both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { at_least: self.at_least.max(other.at_least), within: self.within.max(other.within) }
    }
}

/// A script with its keys and arguments. Everything in it is owned, so that it can be sent again as it is.
#[derive(Clone, Debug)]
pub struct Call {
    script: &'static Script,
    keys: Vec<Bytes>,
    args: Vec<Bytes>,
    replicas: Option<Replicas>,
    repeats: bool,
}

impl Call {
    /// A call of `script`. All keys must lie in one hash slot.
    pub const fn new(script: &'static Script, keys: Vec<Bytes>, args: Vec<Bytes>) -> Self {
        Self { script, keys, args, replicas: None, repeats: false }
    }

    /// The script that is called.
    pub const fn script(&self) -> &'static Script {
        self.script
    }

    /// `KEYS`; never empty, and the first one decides the hash slot.
    pub fn keys(&self) -> &[Bytes] {
        &self.keys
    }

    /// `ARGV`.
    pub fn args(&self) -> &[Bytes] {
        &self.args
    }

    /// `KEYS` and `ARGV`, taken out.
    pub fn into_words(self) -> (Vec<Bytes>, Vec<Bytes>) {
        (self.keys, self.args)
    }

    /// The same call, which counts only once so many replicas have acknowledged what it wrote.
    #[must_use]
    pub const fn with_replicas(mut self, replicas: Option<Replicas>) -> Self {
        self.replicas = replicas;
        self
    }

    /// The same call, which repeats an attempt at a lock that was busy if `repeats` is set.
    #[must_use]
    pub const fn repeating(mut self, repeats: bool) -> Self {
        self.repeats = repeats;
        self
    }

    /// Whether it repeats an attempt at a lock that was busy.
    pub const fn repeats(&self) -> bool {
        self.repeats
    }

    /// The replicas that must acknowledge it, where it is not enough that the server has applied it.
    pub const fn replicas(&self) -> Option<Replicas> {
        self.replicas
    }
}
