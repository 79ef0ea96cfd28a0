//! The keys, their values and their expiry.

use crate::engine::channels::Channels;
use crate::engine::refusal::Refusals;
use crate::engine::value::{Typed, Value};
use bytes::Bytes;
use leasehold_core::glob;
use leasehold_core::link::ServerError;
use rustc_hash::FxHashMap;
use std::hash::BuildHasher as _;

/// All keys. A turn is one command or script. Turns are sequential, and the time is constant within a turn.
#[derive(Debug, Default)]
pub(crate) struct Keyspace {
    entries: Entries,
    now_micros: i64,
    created_since_sweep: usize,
    left_by_sweep: usize,
    /// The listeners of each channel.
    pub(crate) channels: Channels,
    /// Whether memory is full, which refuses commands that may need memory.
    pub(crate) deny_growth: bool,
    /// Whether a script runs the turn.
    pub(crate) in_script: bool,
    /// Whether this turn has written. After its first write, a script may finish without free memory.
    pub(crate) dirty: bool,
    /// The planned refusals of commands within scripts.
    pub(crate) refusals: Refusals,
}

/// All keys, with value and expiry.
pub(crate) type Entries = FxHashMap<Bytes, Entry>;

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    value: Value,
    /// The last millisecond in which the key exists.
    expires_at: Option<i64>,
}

impl Keyspace {
    /// Begins a turn at this server time, in microseconds.
    pub(crate) fn begin_turn(&mut self, now_micros: i64, in_script: bool) {
        self.now_micros = now_micros;
        self.in_script = in_script;
        self.dirty = false;
        self.sweep();
    }

    /// Returns the time of the turn in microseconds.
    pub(crate) fn now_micros(&self) -> i64 {
        self.now_micros
    }

    /// Returns the time of the turn in milliseconds.
    pub(crate) fn now(&self) -> i64 {
        self.now_micros.div_euclid(1_000)
    }

    /// Returns the value of the key, of any type.
    pub(crate) fn value(&mut self, key: &[u8]) -> Option<&Value> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// Returns the value of the key, which must have this type. `None` for a missing key.
    pub(crate) fn read<T: Typed>(&mut self, key: &[u8]) -> Result<Option<&T>, ServerError> {
        self.entry(key).map(|entry| T::get(&entry.value).ok_or_else(wrong_type)).transpose()
    }

    /// Changes the value of an existing key, and deletes the key if the value becomes empty.
    pub(crate) fn change<T: Typed, R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut T) -> R,
    ) -> Result<Option<R>, ServerError> {
        let Some(entry) = self.entry(key) else { return Ok(None) };
        let value = T::get_mut(&mut entry.value).ok_or_else(wrong_type)?;
        let result = change(value);
        if value.is_empty() {
            self.entries.remove(key);
        }
        Ok(Some(result))
    }

    /// Changes the value of a key, and creates a missing key. A change that fails on a new value must leave the value
    /// empty, which removes the key.
    pub(crate) fn create_or_change<T: Typed, R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut T) -> R,
    ) -> Result<R, ServerError> {
        if let Some(entry) = self.entry(key) {
            let value = T::get_mut(&mut entry.value).ok_or_else(wrong_type)?;
            return Ok(change(value));
        }
        let mut value = T::default();
        let result = change(&mut value);
        if !value.is_empty() {
            self.created_since_sweep += 1;
            self.entries.insert(Bytes::copy_from_slice(key), Entry { value: value.into_value(), expires_at: None });
        }
        Ok(result)
    }

    /// Replaces the key.
    pub(crate) fn replace(&mut self, key: &[u8], value: Value, expires_at: Option<i64>) {
        self.created_since_sweep += 1;
        self.entries.insert(Bytes::copy_from_slice(key), Entry { value, expires_at });
    }

    /// Removes the key. Returns whether it existed.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        self.entry(key).is_some() && self.entries.remove(key).is_some()
    }

    /// Returns the expiry of the key: `None` for a missing key, `Some(None)` without a time to live.
    pub(crate) fn expires_at(&mut self, key: &[u8]) -> Option<Option<i64>> {
        self.entry(key).map(|entry| entry.expires_at)
    }

    /// Sets or clears the expiry. Returns whether the key exists.
    pub(crate) fn set_expiry(&mut self, key: &[u8], expires_at: Option<i64>) -> bool {
        self.entry(key).map(|entry| entry.expires_at = expires_at).is_some()
    }

    /// Returns all unexpired keys, in order.
    pub(crate) fn keys(&self) -> Vec<Bytes> {
        let now = self.now();
        let mut keys: Vec<_> =
            self.entries.iter().filter(|(_, entry)| !entry.is_expired(now)).map(|(key, _)| key.clone()).collect();
        keys.sort_unstable();
        keys
    }

    /// Returns about `count` matching key names from the cursor `from`, and the next cursor. A key's position is a
    /// digest of its name, so created and deleted keys do not move other keys.
    pub(crate) fn page(&self, from: u64, count: usize, pattern: &[u8]) -> (Option<u64>, Vec<Bytes>) {
        let now = self.now();
        let place = |key: &Bytes| rustc_hash::FxBuildHasher.hash_one(key) | 1;
        let there = self.entries.iter().filter(|(_, entry)| !entry.is_expired(now));
        let mut rest: Vec<_> = there.map(|(key, _)| (place(key), key)).filter(|(place, _)| *place >= from).collect();
        rest.sort_unstable();
        let last = rest
            .get(count.max(1) - 1)
            .map(|(place, _)| *place)
            .filter(|last| rest.last().is_some_and(|(end, _)| end > last));
        let page = rest.iter().take_while(|(place, _)| last.is_none_or(|last| *place <= last));
        let names = page.map(|(_, key)| *key).filter(|key| glob::matches(pattern, key));
        (last.map(|last| last + 1), names.cloned().collect())
    }

    /// Removes all keys, but no subscriptions.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Copies all keys.
    pub(crate) fn copy(&self) -> Entries {
        self.entries.clone()
    }

    /// Replaces all keys.
    pub(crate) fn replace_all(&mut self, entries: Entries) {
        self.created_since_sweep += entries.len();
        self.entries = entries;
    }

    fn entry(&mut self, key: &[u8]) -> Option<&mut Entry> {
        let now = self.now();
        if self.entries.get(key)?.is_expired(now) {
            self.entries.remove(key);
            return None;
        }
        self.entries.get_mut(key)
    }

    /// Removes expired keys. Scans only after enough new keys, to amortize the scan.
    fn sweep(&mut self) {
        if self.created_since_sweep > 1_000 + self.left_by_sweep {
            let now = self.now();
            self.entries.retain(|_, entry| !entry.is_expired(now));
            self.created_since_sweep = 0;
            self.left_by_sweep = self.entries.len();
        }
    }
}

impl Entry {
    fn is_expired(&self, now: i64) -> bool {
        self.expires_at.is_some_and(|end| now > end)
    }
}

/// The error for a key of another type.
pub(crate) fn wrong_type() -> ServerError {
    ServerError::new("WRONGTYPE Operation against a key holding the wrong kind of value")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_there_until_the_millisecond_after_its_end() {
        let mut keyspace = Keyspace::default();
        keyspace.begin_turn(1_000_000, false);
        keyspace.replace(b"k", Value::Text(Bytes::new()), Some(1_100));
        keyspace.begin_turn(1_100_999, false);
        assert_eq!(keyspace.expires_at(b"k"), Some(Some(1_100)));
        assert_eq!(keyspace.keys(), ["k"]);
        keyspace.begin_turn(1_101_000, false);
        assert!(keyspace.keys().is_empty());
        assert_eq!(keyspace.expires_at(b"k"), None);
        assert!(!keyspace.remove(b"k"));
    }

    #[test]
    fn pages_have_every_key_once_although_others_come_and_go() {
        let mut keyspace = Keyspace::default();
        keyspace.begin_turn(1_000_000, false);
        let put = |keyspace: &mut Keyspace, name: &str| {
            keyspace.replace(name.as_bytes(), Value::Text(Bytes::new()), None);
        };
        (0..100).for_each(|number| put(&mut keyspace, &format!("stay:{number}")));
        (0..100).for_each(|number| put(&mut keyspace, &format!("go:{number}")));
        let (mut from, mut seen, mut pages) = (Some(0), Vec::new(), 0);
        while let Some(place) = from {
            let (next, names) = keyspace.page(place, 7, b"stay:*");
            seen.extend(names);
            (from, pages) = (next, pages + 1);
            keyspace.remove(format!("go:{pages}").as_bytes());
            put(&mut keyspace, &format!("come:{pages}"));
        }
        seen.sort_unstable();
        let before = seen.len();
        seen.dedup();
        assert_eq!((before, seen.len()), (100, 100));
        assert!(pages > 20, "{pages}");
    }

    #[test]
    fn expired_keys_that_nobody_asks_for_are_swept() {
        let mut keyspace = Keyspace::default();
        for number in 0..10_000_i64 {
            keyspace.begin_turn(number * 1_000, false);
            keyspace.replace(format!("{number}").as_bytes(), Value::Text(Bytes::new()), Some(number + 10));
        }
        assert!(keyspace.entries.len() < 2_500, "{}", keyspace.entries.len());
    }
}
