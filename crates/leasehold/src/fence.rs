//! Stores that a stale holder cannot write to, because they check its fencing token.
//!
//! A lease cannot stop a holder that was paused beyond it: when it goes on, another has the lock, and it does not know. The token of a
//! [`FencedLock`](crate::FencedLock) tells the two apart, if the *store* compares: it keeps the greatest token that it has seen, and
//! refuses a lower one. Here are such a store on the lock's own server, [`FencedValue`], and the statements that make one of an SQL
//! database, [`sql`].
//!
//! # At the first read, and at every write
//!
//! A token that is checked at writes alone still loses updates. The old holder reads 100 and pauses; the new one reads 100, too; the
//! old one goes on and writes 90 with its token, which is still the greatest that was shown; then the new one writes 80. Had the new
//! one shown its token when it read, the write of the old one would have been refused. So **show the token before the first read**,
//! which registers it.
//!
//! # Twice the same token
//!
//! A server that loses its last writes in a failover may grant a token a second time. The register keeps the holder that showed the
//! token first, and refuses the same token of another with [`Error::DuplicateToken`](crate::Error::DuplicateToken).

pub mod sql;
mod token;
mod value;

pub use token::FencingToken;
pub use value::FencedValue;
