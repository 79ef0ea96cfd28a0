//! The holds and requests of named owners.

use crate::number_map::NumberMap;
use crate::owner::{HoldNumber, OwnerId};
use crate::session::Ticket;
use crate::session::ids::LockId;

/// The holds and requests of a named owner for one lock. Looked up by both, because thousands of owners may share a lock.
#[derive(Debug, Default)]
pub(super) struct Owned {
    /// The eldest first.
    holds: Vec<HoldNumber>,
    /// In the order in which they came.
    wishes: Vec<Ticket>,
}

impl Owned {
    pub(super) fn holds(&self) -> &[HoldNumber] {
        &self.holds
    }

    pub(super) fn wishes(&self) -> &[Ticket] {
        &self.wishes
    }
}

/// Which owner holds and wants what.
#[derive(Debug, Default)]
pub(super) struct Owners(NumberMap<(LockId, OwnerId), Owned>);

impl Owners {
    /// How many pairs of owner and lock there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// All of them, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (LockId, OwnerId, &Owned)> {
        self.0.iter().map(|((lock, owner), owned)| (*lock, *owner, owned))
    }

    /// The hold that a named owner has of a lock.
    pub(super) fn hold(&self, lock: LockId, owner: OwnerId) -> Option<HoldNumber> {
        self.0.get(&(lock, owner))?.holds.first().copied()
    }

    /// The requests for a lock in the name of an owner.
    pub(super) fn wishes(&self, lock: LockId, owner: OwnerId) -> &[Ticket] {
        self.0.get(&(lock, owner)).map_or(&[], Owned::wishes)
    }

    /// The owner holds the lock by this hold.
    pub(super) fn add_hold(&mut self, lock: LockId, owner: OwnerId, number: HoldNumber) {
        self.0.entry((lock, owner)).or_default().holds.push(number);
    }

    /// The owner does not hold the lock by this hold any more.
    pub(super) fn remove_hold(&mut self, lock: LockId, owner: OwnerId, number: HoldNumber) {
        self.change(lock, owner, |owned| owned.holds.retain(|held| *held != number));
    }

    /// The owner has a request for the lock.
    pub(super) fn add_wish(&mut self, lock: LockId, owner: OwnerId, ticket: Ticket) {
        self.0.entry((lock, owner)).or_default().wishes.push(ticket);
    }

    /// The owner's request is over.
    pub(super) fn remove_wish(&mut self, lock: LockId, owner: OwnerId, ticket: Ticket) {
        self.change(lock, owner, |owned| owned.wishes.retain(|wish| *wish != ticket));
    }

    fn change(&mut self, lock: LockId, owner: OwnerId, change: impl FnOnce(&mut Owned)) {
        let Some(owned) = self.0.get_mut(&(lock, owner)) else { return };
        change(owned);
        if owned.holds.is_empty() && owned.wishes.is_empty() {
            self.0.remove(&(lock, owner));
        }
    }
}
