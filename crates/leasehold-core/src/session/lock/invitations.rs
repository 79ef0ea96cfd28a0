//! The waiters that may ask beside the contender, where several may hold the lock.

/// How many waiters of a client may ask beside the contender.
#[derive(Debug)]
pub(crate) struct Invitations {
    /// An invitation of an earlier round is void.
    round: u64,
    /// How many waiters the next grant invites.
    width: usize,
}

impl Invitations {
    /// The first grant after a busy answer invites so many.
    const FIRST: usize = 1;
    /// No grant invites more than so many.
    const MOST: usize = 64;

    pub(crate) const fn new() -> Self {
        Self { round: 0, width: Self::FIRST }
    }

    /// Whether no waiter was ever invited.
    pub(crate) const fn is_new(&self) -> bool {
        self.round == 0 && self.width == Self::FIRST
    }

    /// The present round: an invitation counts until it ends.
    pub(crate) const fn round(&self) -> u64 {
        self.round
    }

    /// A waiter was granted: says how many are invited now. The next grant invites twice as many.
    pub(crate) fn widen(&mut self) -> usize {
        let width = self.width;
        self.width = (width * 2).min(Self::MOST);
        width
    }

    /// The lock is busy: no waiter is invited any more.
    pub(crate) const fn end_round(&mut self) {
        self.round += 1;
        self.width = Self::FIRST;
    }
}
