//! A call of a script.

use crate::command::HoldKey;
use crate::owner::FIELD_BYTES;
use crate::script::Script;
use crate::wire::{self, Words};
use std::time::Duration;

/// Identifies a call or another action, for its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub(crate) u64);

impl CallId {
    /// Creates an id for a link without a session.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }
}

/// The replicas that must acknowledge a call's writes, and the time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "callers write it as a literal, and there is nothing else to say")]
pub struct Replicas {
    /// Number of replicas that must acknowledge; at least 1, or 0 if the disks must acknowledge (`ClientBuilder::fsync`).
    pub at_least: u32,
    /// The server's maximum wait for the acknowledgements, in whole milliseconds; at least 1 ms.
    pub within: Duration,
}

impl Replicas {
    /// A condition that implies both conditions.
    #[doc(hidden)]
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { at_least: self.at_least.max(other.at_least), within: self.within.max(other.within) }
    }
}

/// A script with its keys and arguments, encoded for the wire.
#[derive(Clone, Debug)]
pub struct Call {
    script: &'static Script,
    /// `KEYS`, and `ARGV` from `args_at` on.
    words: Vec<u8>,
    args_at: usize,
    keys: u32,
    args: u32,
    replicas: Option<Replicas>,
    repeats: bool,
}

/// The whole milliseconds of a duration.
pub(crate) fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Capacity for the arguments of most calls, so they need one allocation.
const ROOM: usize = 256;

impl Call {
    /// A call of `script`. All keys must be in one hash slot.
    pub fn new(
        script: &'static Script,
        keys: impl IntoIterator<Item: AsRef<[u8]>>,
        args: impl IntoIterator<Item: AsRef<[u8]>>,
    ) -> Self {
        args.into_iter().fold(Self::of(script).with_keys(keys), Self::arg)
    }

    /// A call of `script` without keys and arguments. Append all keys by [`Call::key`], then the arguments by
    /// [`Call::arg`].
    pub fn of(script: &'static Script) -> Self {
        let words = Vec::with_capacity(ROOM);
        Self { script, words, args_at: 0, keys: 0, args: 0, replicas: None, repeats: false }
    }

    /// Appends a key.
    #[must_use]
    pub fn key(mut self, key: impl AsRef<[u8]>) -> Self {
        debug_assert_eq!(self.args, 0, "keys come before arguments");
        wire::bulk(&mut self.words, &[key.as_ref()]);
        self.keys += 1;
        self.args_at = self.words.len();
        self
    }

    /// Appends keys.
    #[must_use]
    pub(crate) fn with_keys(self, keys: impl IntoIterator<Item: AsRef<[u8]>>) -> Self {
        keys.into_iter().fold(self, Self::key)
    }

    /// Appends an argument.
    #[must_use]
    pub fn arg(self, arg: impl AsRef<[u8]>) -> Self {
        self.arg_of(&[arg.as_ref()])
    }

    /// Appends the concatenation of these parts as an argument.
    #[must_use]
    pub(crate) fn arg_of(mut self, parts: &[&[u8]]) -> Self {
        wire::bulk(&mut self.words, parts);
        self.args += 1;
        self
    }

    /// Appends a number as an argument.
    #[must_use]
    pub(crate) fn number(self, number: impl Into<u64>) -> Self {
        self.arg(wire::decimal(&mut [0; wire::DIGITS], number.into()))
    }

    /// Appends a duration in milliseconds as an argument.
    #[must_use]
    pub(crate) fn millis(self, duration: Duration) -> Self {
        self.number(whole_millis(duration))
    }

    /// Appends the name of a hold as an argument.
    #[must_use]
    pub(crate) fn hold(self, hold: &HoldKey) -> Self {
        self.arg(hold.name.text(&mut [0; FIELD_BYTES]))
    }

    /// Appends the argument `not_after`; -1 means no limit and no clock.
    #[must_use]
    pub(crate) fn limit(self, not_after: Option<u64>) -> Self {
        match not_after {
            Some(millis) => self.number(millis),
            None => self.arg("-1"),
        }
    }

    /// The called script.
    pub const fn script(&self) -> &'static Script {
        self.script
    }

    /// `KEYS`; never empty. The first key determines the hash slot.
    pub fn keys(&self) -> Words<'_> {
        Words::new(&self.words[..self.args_at], self.keys as usize)
    }

    /// `ARGV`.
    pub fn args(&self) -> Words<'_> {
        Words::new(&self.words[self.args_at..], self.args as usize)
    }

    /// Requires acknowledgements by replicas.
    #[must_use]
    pub const fn with_replicas(mut self, replicas: Option<Replicas>) -> Self {
        self.replicas = replicas;
        self
    }

    /// Marks the call as a repeated attempt at a busy lock.
    #[must_use]
    pub const fn repeating(mut self, repeats: bool) -> Self {
        self.repeats = repeats;
        self
    }

    /// Returns whether the call is a repeated attempt at a busy lock.
    pub const fn repeats(&self) -> bool {
        self.repeats
    }

    /// The required replicas, if the call is durable.
    pub const fn replicas(&self) -> Option<Replicas> {
        self.replicas
    }
}
