//! Grants and releases as the server sees them: who follows whom, and what each hold was promised.

use crate::faults::server::OF_NO_EPOCH;
use crate::report::stats::Coverage;
use bytes::Bytes;
use leasehold_core::time::Instant;
use rustc_hash::{FxHashMap, FxHashSet};

/// The holds that the server has granted and ended.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    /// The server's grants to each hold.
    granted: FxHashMap<Bytes, Grant>,
    /// The senders of calls about each hold.
    senders: FxHashMap<Bytes, usize>,
    /// The holder of each lock that excludes, on the server, and the one before if that was released.
    holders: FxHashMap<Bytes, Holder>,
    /// Holds that the server has ended by a release.
    released: FxHashSet<Bytes>,
    /// Holds that were handed on among the tasks of a client.
    handed_on: FxHashSet<Bytes>,
}

/// The holder of a lock on the server, so far as it was granted.
#[derive(Debug, Default)]
struct Holder {
    /// The last hold that was granted, unless it was released.
    hold: Option<Bytes>,
    /// The client that released it last, unless another got it since,
    released_by: Option<usize>,
    /// and whether that client had handed it on before.
    was_handed_on: bool,
}

/// The server's grant to a hold.
#[derive(Debug, Default)]
struct Grant {
    lock: Bytes,
    /// How often the server had lost its data, or its clock had been stepped, when the hold was granted.
    epoch: u32,
    /// How often when the server last said how much of the lease was left, to a grant or to an entry.
    told: u32,
    /// Until when a client may believe in that, if it was told without delay.
    until: Instant,
}

impl Grant {
    /// Nothing is promised of it any more.
    fn void(&mut self) {
        (self.epoch, self.told) = (OF_NO_EPOCH, OF_NO_EPOCH);
    }
}

impl Grants {
    /// A client sends a call about a hold.
    pub(crate) fn sent_by(&mut self, id: &Bytes, client: usize) {
        self.senders.entry(id.clone()).or_insert(client);
    }

    /// The server has granted a hold, or an entry to one, in this epoch of its data.
    pub(crate) fn begin(&mut self, lock: Bytes, id: Bytes, epoch: u32, entered: bool) {
        let grant = Grant { lock, epoch, ..Grant::default() };
        if entered {
            self.granted.entry(id).or_insert(grant);
        } else {
            self.granted.insert(id, grant);
        }
    }

    /// The server has told a holder that its lease lasts until then.
    pub(crate) fn promise(&mut self, id: &Bytes, until: Instant, epoch: u32) {
        if let Some(grant) = self.granted.get_mut(id) {
            (grant.told, grant.until) = (epoch, until);
        }
    }

    /// In which epoch a client was promised that it holds until then: when it was granted the hold; or, of an entry, when it was last told,
    /// if that promises all of what it believes.
    pub(crate) fn epoch_of_promise(&self, id: &Bytes, entry_until: Option<Instant>) -> u32 {
        let Some(grant) = self.granted.get(id) else { return 0 };
        if entry_until.is_some_and(|until| until <= grant.until) { grant.told } else { grant.epoch }
    }

    /// A lock that excludes others has a new holder.
    pub(crate) fn hand_over(&mut self, lock: Bytes, id: &Bytes, client: Option<usize>) -> [Option<Coverage>; 2] {
        match self.holders.insert(lock, Holder { hold: Some(id.clone()), ..Holder::default() }) {
            Some(Holder { hold: Some(other), .. }) if other != id => [Some(Coverage::TakeOver), None],
            Some(Holder { released_by: Some(other), was_handed_on, .. }) if Some(other) != client => {
                [Some(Coverage::HandOver), was_handed_on.then_some(Coverage::LetIn)]
            }
            _ => [None, None],
        }
    }

    /// A hold was handed on among the tasks of its client.
    pub(crate) fn note_handed_on(&mut self, id: Bytes) {
        self.handed_on.insert(id);
    }

    /// The holder of a lock has released it.
    pub(crate) fn free(&mut self, lock: &Bytes, id: &Bytes, client: Option<usize>) {
        if let Some(holder) = self.holders.get_mut(lock)
            && holder.hold.as_ref() == Some(id)
        {
            *holder = Holder { hold: None, released_by: client, was_handed_on: self.handed_on.contains(id) };
        }
    }

    /// A release of a hold was carried out.
    pub(crate) fn release(&mut self, id: Bytes) {
        self.released.insert(id);
    }

    pub(crate) fn is_released(&self, id: &Bytes) -> bool {
        self.released.contains(id)
    }

    /// The holders are not known any more.
    pub(crate) fn forget_holders(&mut self) {
        self.holders.clear();
    }

    /// The holder of a lock is not known any more.
    pub(crate) fn forget_holder(&mut self, lock: &Bytes) {
        self.holders.remove(lock);
    }

    /// Nothing is promised any more of one hold,
    pub(crate) fn void(&mut self, id: Bytes) {
        self.granted.entry(id).or_default().void();
    }

    /// of those of a lock,
    pub(crate) fn void_lock(&mut self, lock: &Bytes) {
        self.granted.values_mut().filter(|grant| grant.lock == lock).for_each(Grant::void);
    }

    /// or of those of a client.
    pub(crate) fn void_client(&mut self, client: usize) {
        let of_client = self.granted.iter_mut().filter(|(id, _)| self.senders.get(*id) == Some(&client));
        of_client.for_each(|(_, grant)| grant.void());
    }
}
