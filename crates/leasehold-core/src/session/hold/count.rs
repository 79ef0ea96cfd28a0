//! The hold count of a hold: how much of it the server may have, and how much is wanted.
//!
//! It is the heart of invariant 2. Every guard and every detached guard wants one. Where the server may have more, the rest is taken back.

use std::num::NonZeroU32;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Count {
    /// The most that the server may have.
    on_server: u32,
    /// The guards that exist, and those that were detached.
    wanted: u32,
    /// Those of the wanted that were detached.
    detached: u32,
    /// Those of the wanted that want the lease renewed.
    renewing: u32,
    range: Option<Range>,
}

/// The lowest and highest count that the server can have had while renewals of a hold are under way. They may be answered in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    low: u32,
    high: u32,
    renewals: NonZeroU32,
}

impl Range {
    /// Whether the server can have had this count.
    pub(crate) const fn has(self, count: u32) -> bool {
        self.low <= count && count <= self.high
    }

    fn widen(&mut self, count: u32) {
        self.low = self.low.min(count);
        self.high = self.high.max(count);
    }
}

impl Count {
    /// The most that the server may have.
    pub(crate) const fn on_server(&self) -> u32 {
        self.on_server
    }

    /// The count that the server should have.
    pub(crate) const fn wanted(&self) -> u32 {
        self.wanted
    }

    /// How many guards want the lease renewed.
    pub(crate) const fn renewing(&self) -> u32 {
        self.renewing
    }

    /// Whether a guard exists that was not detached.
    pub(crate) const fn has_guards(&self) -> bool {
        self.wanted > self.detached
    }

    /// Whether any guard wants the lease renewed.
    pub(crate) const fn is_renewed(&self) -> bool {
        self.renewing > 0
    }

    /// Whether there is one guard, which the server counts, and which wants the lease renewed; and no renewal is under way.
    pub(crate) const fn is_one_at_rest(&self) -> bool {
        self.on_server == 1 && self.wanted == 1 && self.renewing == 1 && self.detached == 0 && self.range.is_none()
    }

    /// Whether the server may have more than is wanted.
    pub(crate) const fn is_high(&self) -> bool {
        self.on_server > self.wanted
    }

    /// A call is sent that changes the server's count to `target`. Gives the most that the server may have had before.
    pub(crate) fn begin_change(&mut self, target: u32) -> u32 {
        let before = self.on_server;
        self.on_server = before.max(target);
        self.widen(target);
        before
    }

    /// The server is known to have no more than this.
    pub(crate) const fn set_on_server(&mut self, count: u32) {
        self.on_server = count;
    }

    /// There is one guard more.
    pub(crate) fn add_guard(&mut self, renews: bool) {
        self.wanted += 1;
        self.renewing += u32::from(renews);
    }

    /// There is one guard less.
    pub(crate) fn remove_guard(&mut self, renews: bool) {
        self.wanted -= 1;
        self.renewing -= u32::from(renews);
        self.widen(self.wanted);
    }

    /// A guard was detached: its count stays until the lease ends, and it wants no renewal.
    pub(crate) fn detach_guard(&mut self, renews: bool) {
        self.detached += 1;
        self.renewing -= u32::from(renews);
    }

    /// The kind of the lock has no holders: the grant counts for nothing.
    pub(crate) fn clear(&mut self) {
        (self.on_server, self.wanted, self.renewing) = (0, 0, 0);
    }

    /// A renewal is sent.
    pub(crate) fn begin_renewal(&mut self) {
        let renewals = self.range.map_or(NonZeroU32::MIN, |range| range.renewals.saturating_add(1));
        let fresh = Range { low: self.on_server, high: self.on_server, renewals };
        let range = self.range.get_or_insert(fresh);
        range.renewals = renewals;
        range.widen(self.on_server);
        range.widen(self.wanted);
    }

    /// A renewal is answered, or never will be. Gives the counts of which its reply may tell.
    pub(crate) fn end_renewal(&mut self) -> Option<Range> {
        let range = self.range.take()?;
        self.range = NonZeroU32::new(range.renewals.get() - 1).map(|renewals| Range { renewals, ..range });
        Some(range)
    }

    /// Whether a renewal is in flight.
    pub(crate) const fn is_being_renewed(&self) -> bool {
        self.range.is_some()
    }

    /// What must hold of every count.
    pub(crate) const fn is_sound(&self) -> bool {
        self.detached + self.renewing <= self.wanted
    }

    /// The server may get, or have got, this count while renewals are under way.
    fn widen(&mut self, count: u32) {
        if let Some(range) = &mut self.range {
            range.widen(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hold with this many guards, all of which the server has.
    fn held(guards: u32) -> Count {
        let mut count = Count::default();
        for guard in 1..=guards {
            count.begin_change(guard);
            count.add_guard(true);
        }
        count
    }

    #[test]
    fn count_on_server_stays_high_until_a_lower_one_is_known() {
        let mut count = held(2);
        assert!(!count.is_high() && count.has_guards() && count.is_renewed());
        count.remove_guard(true);
        assert!(count.is_high(), "the server has two, and one is wanted");
        assert_eq!(count.begin_change(1), 2);
        assert!(count.is_high(), "the call may be lost");
        count.set_on_server(1);
        assert!(!count.is_high());
    }

    #[test]
    fn a_detached_guard_is_wanted_and_renews_nothing() {
        let mut count = held(2);
        count.detach_guard(true);
        assert_eq!((count.wanted(), count.renewing(), count.has_guards()), (2, 1, true));
        count.remove_guard(true);
        assert_eq!((count.wanted(), count.renewing(), count.has_guards()), (1, 0, false));
    }

    #[test]
    fn renewal_may_tell_of_every_count_the_server_had() {
        let mut count = held(2);
        count.begin_renewal();
        count.begin_change(3);
        count.remove_guard(true);
        let range = count.end_renewal().expect("it was under way");
        assert!((1..=3).all(|told| range.has(told)) && !range.has(0) && !range.has(4), "{range:?}");
        assert_eq!(count.end_renewal(), None, "none is under way any more");
        // A change after its end is none that it may tell of; one between two that overlap counts for both.
        count.begin_renewal();
        count.begin_renewal();
        count.begin_change(5);
        let both = [count.end_renewal(), count.end_renewal()];
        assert!(both.iter().flatten().all(|range| range.has(5)) && both.iter().flatten().count() == 2);
        count.begin_renewal();
        count.set_on_server(1);
        assert!(count.end_renewal().is_some_and(|range| range.has(5)));
        count.begin_renewal();
        assert!(count.end_renewal().is_some_and(|range| !range.has(5)));
    }
}
