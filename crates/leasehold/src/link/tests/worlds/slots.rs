//! The hash slots of a cluster of two nodes, and the moves of the locks' slots.

use super::driver;
use super::plan::LOCKS;
use std::collections::{BTreeMap, BTreeSet};

/// The owners of the slots. By default the first half is the first node's.
pub(super) struct Slots {
    owners: BTreeMap<u16, usize>,
    /// Moving slots, and whether their keys have moved.
    moving: BTreeMap<u16, bool>,
    /// Whether a slot may move back.
    come_back: bool,
}

/// A node's answer about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Here,
    Moved(usize),
    Ask(usize),
}

impl Slots {
    pub(super) fn new(come_back: bool) -> Self {
        Self { owners: BTreeMap::new(), moving: BTreeMap::new(), come_back }
    }

    pub(super) fn owner(&self, slot: u16) -> usize {
        self.owners.get(&slot).copied().unwrap_or_else(|| usize::from(slot >= 8_192))
    }

    pub(super) fn place(&self, slot: u16, node: usize, asking: bool) -> Place {
        let owner = self.owner(slot);
        match self.moving.get(&slot) {
            Some(true) if owner == node => Place::Ask(1 - node),
            Some(_) if owner != node && asking => Place::Here,
            _ if owner == node => Place::Here,
            _ => Place::Moved(owner),
        }
    }

    /// Whether the keys of the slot may be split between the nodes.
    pub(super) fn is_moving(&self, slot: u16) -> bool {
        self.moving.contains_key(&slot)
    }

    /// Moves the slot of a lock to its next stage. Returns the former owner at the end of the move.
    pub(super) fn step(&mut self, lock: usize) -> Option<(u16, usize)> {
        let slot = leasehold_core::name::slot(&driver::lock(lock % LOCKS));
        match self.moving.get(&slot) {
            None if !self.come_back && self.owners.contains_key(&slot) => {}
            None => drop(self.moving.insert(slot, false)),
            Some(false) => drop(self.moving.insert(slot, true)),
            Some(true) => {
                self.moving.remove(&slot);
                let from = self.owner(slot);
                self.owners.insert(slot, 1 - from);
                return Some((slot, from));
            }
        }
        None
    }

    /// Ranges of slots with one owner.
    pub(super) fn ranges(&self) -> Vec<(u16, u16, usize)> {
        let mut starts = BTreeSet::from([0, 8_192, 16_384]);
        starts.extend(self.owners.keys().flat_map(|slot| [*slot, *slot + 1]));
        let ends = starts.iter().skip(1).map(|next| next - 1);
        starts.iter().zip(ends).map(|(first, last)| (*first, last, self.owner(*first))).collect()
    }
}
