//! The renewals that are due; those on the way are among the pending calls.

use crate::call::Replicas;
use crate::owner::HoldNumber;
use crate::session::window::Window;
use crate::settings::RENEWALS_BY_SLOT;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// How many times its first size the window of renewals may have. With a round trip of 400 ms and a first size of four,
/// the client renews 16 000 locks a second.
const GROWTH: usize = 16;

/// The renewals that are due.
#[derive(Debug)]
pub(super) struct Renewals {
    /// Due, in the order in which they became so within each group.
    due: BTreeMap<Group, VecDeque<HoldNumber>>,
    sharing: Sharing,
    /// For renewals that wait for no replicas.
    window: Window,
    /// Maximum number in flight of renewals that wait for replicas. The time of their replies is that of the replicas, so it
    /// does not measure the server.
    durable: usize,
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
    /// No renewal is due. `in_flight` is the first size of the window.
    pub(super) fn new(in_flight: usize) -> Self {
        Self {
            due: BTreeMap::new(),
            sharing: Sharing::default(),
            window: Window::new(in_flight..=in_flight * GROWTH),
            durable: in_flight,
        }
    }

    /// Adds a hold whose renewal is due.
    pub(super) fn push(&mut self, group: Group, number: HoldNumber) {
        self.due.entry(group).or_default().push_back(number);
    }

    /// The holds that may share a renewal.
    pub(super) fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// Whether one more renewal may be sent, with replicas or without.
    fn has_room(&self, in_flight: usize, durable: bool) -> bool {
        if durable { in_flight < self.durable } else { self.window.has_room(in_flight) }
    }

    /// A renewal without replicas has ended: the reply came after `took`, or there was none.
    pub(super) fn ended(&mut self, took: Option<Duration>) {
        match took {
            None => self.window.not_answered(),
            Some(_) if self.due.is_empty() => self.window.begin_anew(),
            Some(took) => self.window.answered(took),
        }
    }

    /// Narrows the holds that share a renewal. Due renewals are regrouped by the slots of the holds.
    pub(super) fn narrow(&mut self, sharing: Sharing, slot: impl Fn(HoldNumber) -> u16) {
        self.sharing = self.sharing.max(sharing);
        // The commands become many and short.
        self.durable = self.durable.max(RENEWALS_BY_SLOT);
        self.window = Window::new(self.durable..=self.durable * GROWTH);
        for ((script, _, replicas), numbers) in std::mem::take(&mut self.due) {
            for number in numbers {
                self.push((script, slot(number), replicas), number);
            }
        }
    }

    /// The first group that has room for one more call. `in_flight` counts the calls with replicas, or without.
    pub(super) fn next_group(&self, in_flight: impl Fn(bool) -> usize) -> Option<Group> {
        let has_room = |durable| self.has_room(in_flight(durable), durable);
        self.due.keys().find(|(_, _, replicas)| has_room(replicas.is_some())).copied()
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
