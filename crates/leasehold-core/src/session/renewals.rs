//! The renewals that are due; those on the way are among the pending calls.

use crate::call::Replicas;
use crate::owner::HoldNumber;
use crate::settings::RENEWALS_BY_SLOT;
use std::collections::{BTreeMap, VecDeque};

/// The renewals that are due.
#[derive(Debug, Default)]
pub(super) struct Renewals {
    /// Due, in the order in which they became so within each group.
    due: BTreeMap<Group, VecDeque<HoldNumber>>,
    sharing: Sharing,
}

/// The holds that may share a renewal. A refusal of keys of several hash slots narrows it for the rest of the client's
/// life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sharing {
    /// Holds of all slots.
    #[default]
    All,
    /// Holds of one slot.
    Slot,
    /// A single hold: the server does not place keys by hash slots.
    None,
}

impl Renewals {
    /// Adds a hold whose renewal is due.
    pub(super) fn push(&mut self, group: Group, number: HoldNumber) {
        self.due.entry(group).or_default().push_back(number);
    }

    /// The holds that may share a renewal.
    pub(super) fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// Maximum number of renewals in flight. If holds may not share a command, there are many short commands.
    pub(super) fn most_in_flight(&self, shared: usize) -> usize {
        if self.sharing == Sharing::All { shared } else { shared.max(RENEWALS_BY_SLOT) }
    }

    /// Narrows the holds that share a renewal. Due renewals are regrouped by the slots of the holds.
    pub(super) fn narrow(&mut self, sharing: Sharing, slot: impl Fn(HoldNumber) -> u16) {
        self.sharing = self.sharing.max(sharing);
        for ((script, _, replicas), numbers) in std::mem::take(&mut self.due) {
            for number in numbers {
                self.push((script, slot(number), replicas), number);
            }
        }
    }

    /// The first group that has room for one more call.
    pub(super) fn next_group(&self, has_room: impl Fn(Option<Replicas>) -> bool) -> Option<Group> {
        self.due.keys().find(|(_, _, replicas)| has_room(*replicas)).copied()
    }

    /// Takes a batch of at most `most` holds out of a group. `permits` says how many permits a hold renews, or `None` where it wants no
    /// renewal any more; together they are not more than `most_permits`, unless it is one hold alone.
    pub(super) fn take(
        &mut self,
        group: Group,
        most: usize,
        most_permits: u32,
        permits: impl Fn(HoldNumber) -> Option<u32>,
    ) -> Vec<HoldNumber> {
        let Some(queue) = self.due.get_mut(&group) else { return Vec::new() };
        let most = if self.sharing == Sharing::None { 1 } else { most };
        let mut batch = Vec::with_capacity(queue.len().min(most));
        let mut in_all = 0;
        while batch.len() < most
            && let Some(number) = queue.front().copied()
        {
            let wanted = permits(number);
            in_all += wanted.unwrap_or_default();
            if in_all > most_permits && !batch.is_empty() {
                break;
            }
            queue.pop_front();
            batch.extend(wanted.map(|_| number));
        }
        if queue.is_empty() {
            self.due.remove(&group);
        }
        batch
    }
}

/// The holds that may be renewed together: by script; by hash slot, because a script may only touch keys of one, where elsewhere than on a
/// cluster all have one number for a slot; and by the replicas that must acknowledge it, because the answer is about all of it.
pub(super) type Group = (&'static str, u16, Option<Replicas>);
