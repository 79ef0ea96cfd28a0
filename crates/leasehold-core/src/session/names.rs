//! The locks that a client has to do with, by name and kind, and who is whose owner.

use super::Session;
use super::hold::{Aim, Hold};
use super::ids::LockId;
use super::lock::{Lock, Phase};
use super::request::{Acquire, AcquireRequest, Place, Request, Ticket, Trouble};
use super::timers::Timer;
use crate::command::Kind;
use crate::error::AcquireError;
use crate::name::LockName;
use crate::owner::{HoldNumber, OwnerId};
use crate::time::Instant;
use bytes::Bytes;

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

impl Session {
    /// The state of a lock by name and kind, made where there is none.
    pub(super) fn lock_for(&mut self, name: &LockName, kind: Kind) -> LockId {
        let first = self.by_key.get(name.key()).copied();
        if let Some(known) = first.and_then(|first| self.among_siblings(first, kind)) {
            return known;
        }
        let mut new = Lock::new(name.clone(), kind, &self.client);
        new.sibling = first;
        let lock = self.locks.insert(new);
        self.by_key.insert(name.key().clone(), lock);
        lock
    }

    /// One reference less; the last one takes the lock's state with it.
    pub(super) fn unref(&mut self, lock: LockId) {
        let state = &mut self.locks[lock];
        state.refs -= 1;
        if state.refs > 0 {
            return;
        }
        self.timers.set(Timer::Lock(lock), &mut state.timer, None);
        let state = self.locks.remove(lock);
        let first = self.by_key.get(state.name.key()).copied();
        match (first, state.sibling) {
            (Some(first), None) if first == lock => {
                self.by_key.remove(state.name.key());
            }
            (Some(first), Some(sibling)) if first == lock => {
                self.by_key.insert(state.name.key().clone(), sibling);
            }
            (Some(first), sibling) => {
                let mut at = first;
                while let Some(next) = self.locks[at].sibling.filter(|next| *next != lock) {
                    at = next;
                }
                self.locks[at].sibling = sibling;
            }
            (None, _) => {}
        }
    }

    /// The meaning of other locks of the same name for a wish: the hold beside which it may be taken, or why it must be refused.
    ///
    /// The hashes of most kinds look alike on the server, so only here can be seen that a name is used for two of them.
    pub(super) fn look_at_siblings(&self, lock: LockId, wish: &AcquireRequest) -> Result<Option<Bytes>, AcquireError> {
        let mut beside = None;
        let mut next = self.by_key.get(wish.name.key()).copied();
        while let Some(at) = next {
            let other = &self.locks[at];
            next = other.sibling;
            if at == lock {
                continue;
            }
            let own = self.hold_of_owner(at, wish.owner).or(wish.beside).and_then(|number| self.holds.get(&number));
            let own = own.filter(|hold| hold.lock == at && hold.is_live());
            match (other.kind, wish.kind) {
                (Kind::Write, Kind::Read) => beside = own.map(|hold| hold.cell.key().field.clone()).or(beside),
                (Kind::Read, Kind::Write) if own.is_some() => return Err(AcquireError::UpgradeNotSupported),
                (Kind::Read, Kind::Write) => {}
                (kind, _) if other.held > 0 || other.contender.is_some() => {
                    return Err(AcquireError::KeyConflict(kind.verbs().word().to_owned()));
                }
                _ => {}
            }
        }
        Ok(beside)
    }

    /// The hold of the other half of a read-write lock beside which a request that waits may come in by now.
    pub(super) fn own_other_half(&self, acquire: &Acquire) -> Option<Bytes> {
        let beside = self.look_at_siblings(acquire.lock, &acquire.wish).ok().flatten();
        beside.filter(|beside| acquire.not_beside.as_ref() != Some(beside))
    }

    /// From `now` on, nothing that was sent can make the lease of a hold last longer than it, or its change on the way, asks for.
    ///
    /// A reader's lease also keeps what the server has of the writer beside whom it reads, because both lie under one key: a write hold
    /// that is lost here lives on there, and is not left to its own lease to end.
    pub(super) fn touch(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.get_mut(&number) else { return };
        hold.touch(now);
        let until = hold.clean_up.until;
        let Some(write) = self.other_half(number, Kind::Read, Kind::Write) else { return };
        let lock = &self.locks[write];
        let requests = lock.queue.len() + usize::from(lock.contender.is_some());
        if lock.refs <= requests {
            // Writers that only wait, as is usual, are no reason to look through all holds of the client.
            return;
        }
        for other in self.holds.values_mut().filter(|other| other.lock == write) {
            other.clean_up.until = other.clean_up.until.max(until);
        }
    }

    /// Whether a reader has something on its way that may keep the writer's entry for longer than this client knows yet.
    pub(super) fn is_kept_by_reader(&self, number: HoldNumber) -> bool {
        let raises = |hold: &Hold| hold.change.as_ref().is_some_and(|change| matches!(change.aim, Aim::Raise(_)));
        let read = self.other_half(number, Kind::Write, Kind::Read);
        read.is_some_and(|read| self.holds.values().any(|other| other.lock == read && raises(other)))
    }

    /// The half of one kind of a read-write lock, for a hold of the other.
    fn other_half(&self, number: HoldNumber, of: Kind, other: Kind) -> Option<LockId> {
        let lock = self.holds.get(&number).map(|hold| &self.locks[hold.lock]).filter(|lock| lock.kind == of)?;
        self.among_siblings(*self.by_key.get(lock.name.key())?, other)
    }

    /// The owner writes from here on: its other requests, which wait to read, come in beside. They would wait for their own owner.
    pub(super) fn admit_readers(&mut self, now: Instant, lock: LockId, owner: OwnerId) {
        if self.locks[lock].kind != Kind::Write {
            return;
        }
        let first = self.by_key.get(self.locks[lock].name.key()).copied();
        let Some(read) = first.and_then(|first| self.among_siblings(first, Kind::Read)) else { return };
        let line = &self.locks[read];
        // A contender whose command is under way learns of it from the reply.
        let contender = line.contender.filter(|_| line.phase != Phase::Trying);
        let waiting: Vec<Ticket> = line.queue.iter().chain(contender).collect();
        for ticket in waiting {
            let same = self.acquire_of(ticket).filter(|acquire| {
                acquire.wish.owner == Some(owner) && acquire.place == Place::Line && acquire.outcome.is_none()
            });
            if let Some(beside) = same.and_then(|acquire| self.own_other_half(acquire)) {
                self.stand_beside(now, ticket, beside);
            }
        }
    }

    /// Takes a request out of the line, because its owner holds the other half.
    pub(super) fn stand_beside(&mut self, now: Instant, ticket: Ticket, beside: Bytes) {
        let Some(acquire) = self.acquire_of_mut(ticket) else { return };
        acquire.beside = Some(beside);
        let lock = acquire.lock;
        self.locks[lock].trouble = Trouble::default();
        self.leave_line(now, ticket, lock);
        self.wake(ticket);
    }

    /// All locks of the same name, the lock itself among them.
    pub(super) fn same_name(&self, lock: LockId) -> impl Iterator<Item = LockId> {
        let first = self.by_key.get(self.locks[lock].name.key()).copied();
        std::iter::successors(first, |at| self.locks[*at].sibling)
    }

    fn among_siblings(&self, first: LockId, kind: Kind) -> Option<LockId> {
        let mut next = Some(first);
        while let Some(at) = next {
            if self.locks[at].kind == kind {
                return Some(at);
            }
            next = self.locks[at].sibling;
        }
        None
    }

    /// The hold that a named owner has of a lock.
    pub(super) fn hold_of_owner(&self, lock: LockId, owner: Option<OwnerId>) -> Option<HoldNumber> {
        self.owned.get(&(lock, owner?))?.holds.first().copied()
    }

    /// The requests for a lock in the name of an owner.
    pub(super) fn wishes_of_owner(&self, lock: LockId, owner: OwnerId) -> Vec<Ticket> {
        self.owned.get(&(lock, owner)).map(|owned| owned.wishes.clone()).unwrap_or_default()
    }

    /// The owner holds the lock by this hold.
    pub(super) fn own(&mut self, lock: LockId, owner: OwnerId, number: HoldNumber) {
        self.owned.entry((lock, owner)).or_default().holds.push(number);
    }

    /// The owner does not hold the lock by this hold any more.
    pub(super) fn disown(&mut self, lock: LockId, owner: Option<OwnerId>, number: HoldNumber) {
        self.change_owned(lock, owner, |owned| owned.holds.retain(|held| *held != number));
    }

    /// A new request to acquire.
    pub(super) fn begin_request(&mut self, ticket: Ticket, acquire: Acquire) {
        if let Some(owner) = acquire.wish.owner {
            self.owned.entry((acquire.lock, owner)).or_default().wishes.push(ticket);
        }
        self.requests.insert(ticket, Request::Acquire(acquire));
    }

    /// The owner's request is over.
    pub(super) fn end_wish(&mut self, lock: LockId, owner: Option<OwnerId>, ticket: Ticket) {
        self.change_owned(lock, owner, |owned| owned.wishes.retain(|wish| *wish != ticket));
    }

    fn change_owned(&mut self, lock: LockId, owner: Option<OwnerId>, change: impl FnOnce(&mut Owned)) {
        let Some(owner) = owner else { return };
        let Some(owned) = self.owned.get_mut(&(lock, owner)) else { return };
        change(owned);
        if owned.holds.is_empty() && owned.wishes.is_empty() {
            self.owned.remove(&(lock, owner));
        }
    }
}
