//! The types of a key.

use bytes::Bytes;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The value of a key. A collection is never empty: the key disappears with its last element.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(Bytes),
    Hash(Hash),
    List(VecDeque<Bytes>),
    SortedSet(SortedSet),
}

impl Value {
    /// Returns the type name that `TYPE` replies.
    pub(crate) const fn type_name(&self) -> &'static str {
        match self {
            Self::Text(_) => "string",
            Self::Hash(_) => "hash",
            Self::List(_) => "list",
            Self::SortedSet(_) => "zset",
        }
    }
}

/// A type of [`Value`].
pub(crate) trait Typed: Default {
    fn get(value: &Value) -> Option<&Self>;
    fn get_mut(value: &mut Value) -> Option<&mut Self>;
    fn into_value(self) -> Value;
    fn is_empty(&self) -> bool;
}

macro_rules! typed {
    ($type:ty, $variant:ident) => {
        impl Typed for $type {
            fn get(value: &Value) -> Option<&Self> {
                if let Value::$variant(inner) = value { Some(inner) } else { None }
            }
            fn get_mut(value: &mut Value) -> Option<&mut Self> {
                if let Value::$variant(inner) = value { Some(inner) } else { None }
            }
            fn into_value(self) -> Value {
                Value::$variant(self)
            }
            fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }
    };
}

typed!(Hash, Hash);
typed!(VecDeque<Bytes>, List);
typed!(SortedSet, SortedSet);

impl Typed for Bytes {
    fn get(value: &Value) -> Option<&Self> {
        if let Value::Text(text) = value { Some(text) } else { None }
    }
    fn get_mut(value: &mut Value) -> Option<&mut Self> {
        if let Value::Text(text) = value { Some(text) } else { None }
    }
    fn into_value(self) -> Value {
        Value::Text(self)
    }
    fn is_empty(&self) -> bool {
        // An empty string stays until a command removes it.
        false
    }
}

/// Fields and their values. Up to [`Hash::SMALL`] fields keep their insertion order, as in a server's small hashes.
/// More fields are sorted; a server leaves them unordered.
#[derive(Clone, Debug)]
pub(crate) enum Hash {
    Small(Vec<(Bytes, Bytes)>),
    Large(BTreeMap<Bytes, Bytes>),
}

impl Default for Hash {
    fn default() -> Self {
        Self::Small(Vec::new())
    }
}

impl Hash {
    const SMALL: usize = 64;

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Small(fields) => fields.len(),
            Self::Large(fields) => fields.len(),
        }
    }

    pub(crate) fn get(&self, field: &[u8]) -> Option<&Bytes> {
        match self {
            Self::Small(fields) => fields.iter().find(|(name, _)| name == field).map(|(_, value)| value),
            Self::Large(fields) => fields.get(field),
        }
    }

    /// Sets a field. Returns whether it is new.
    pub(crate) fn set(&mut self, field: &[u8], value: Bytes) -> bool {
        match self {
            Self::Small(fields) => {
                if let Some((_, old)) = fields.iter_mut().find(|(name, _)| name == field) {
                    *old = value;
                    return false;
                }
                fields.push((Bytes::copy_from_slice(field), value));
                if fields.len() > Self::SMALL {
                    *self = Self::Large(std::mem::take(fields).into_iter().collect());
                }
                true
            }
            Self::Large(fields) => {
                if let Some(old) = fields.get_mut(field) {
                    *old = value;
                    return false;
                }
                fields.insert(Bytes::copy_from_slice(field), value).is_none()
            }
        }
    }

    /// Removes a field. Returns whether it existed.
    pub(crate) fn remove(&mut self, field: &[u8]) -> bool {
        match self {
            Self::Small(fields) => {
                let found = fields.iter().position(|(name, _)| name == field);
                found.map(|at| fields.remove(at)).is_some()
            }
            Self::Large(fields) => fields.remove(field).is_some(),
        }
    }

    pub(crate) fn iter(&self) -> Box<dyn Iterator<Item = (&Bytes, &Bytes)> + '_> {
        match self {
            Self::Small(fields) => Box::new(fields.iter().map(|(name, value)| (name, value))),
            Self::Large(fields) => Box::new(fields.iter()),
        }
    }
}

/// Members ordered by score, then by their bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct SortedSet {
    scores: BTreeMap<Bytes, Score>,
    order: BTreeSet<(Score, Bytes)>,
}

impl SortedSet {
    pub(crate) fn len(&self) -> usize {
        self.scores.len()
    }

    pub(crate) fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).map(|score| score.0)
    }

    /// Sets a member's score. Returns the previous score.
    pub(crate) fn set(&mut self, member: &[u8], score: f64) -> Option<f64> {
        // Small sets of a server store whole scores as integers, without a negative zero.
        let score = if score == 0.0 { 0.0 } else { score };
        let member = Bytes::copy_from_slice(member);
        let old = self.scores.insert(member.clone(), Score(score));
        if let Some(old) = old {
            self.order.remove(&(old, member.clone()));
        }
        self.order.insert((Score(score), member));
        old.map(|old| old.0)
    }

    /// Removes a member. Returns whether it existed.
    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        let Some((member, score)) = self.scores.remove_entry(member) else { return false };
        self.order.remove(&(score, member))
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&Bytes, f64)> {
        self.order.iter().map(|(score, member)| (member, score.0))
    }
}

/// A score, never NaN. Both zeros are equal.
#[derive(Clone, Copy, Debug)]
struct Score(f64);

impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Score {}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.partial_cmp(&other.0).unwrap_or(Ordering::Equal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(hash: &Hash) -> Vec<Bytes> {
        hash.iter().map(|(field, _)| field.clone()).collect()
    }

    #[test]
    fn small_hash_keeps_arrival_order_and_a_large_one_keeps_all() {
        let mut hash = Hash::default();
        for field in ["b", "a", "c"] {
            assert!(hash.set(field.as_bytes(), Bytes::new()));
        }
        assert!(!hash.set(b"a", Bytes::from_static(b"1")));
        assert_eq!(fields(&hash), ["b", "a", "c"]);
        for number in 0..1_000 {
            assert!(hash.set(format!("{number}").as_bytes(), Bytes::new()));
        }
        assert_eq!(hash.len(), 1_003);
        assert_eq!(hash.get(b"a"), Some(&Bytes::from_static(b"1")));
        assert!(hash.remove(b"a") && !hash.remove(b"a"));
        assert_eq!(hash.len(), 1_002);
    }

    #[test]
    fn a_member_moves_when_its_score_changes() {
        let mut set = SortedSet::default();
        assert_eq!(set.set(b"a", 1.0), None);
        assert_eq!(set.set(b"b", 0.0), None);
        assert_eq!(set.set(b"a", -0.0), Some(1.0));
        let members: Vec<_> = set.iter().map(|(member, _)| member.clone()).collect();
        assert_eq!(members, ["a", "b"], "equal scores are ordered by member");
        assert!(set.remove(b"a") && !set.remove(b"a"));
        assert_eq!(set.len(), 1);
    }
}
