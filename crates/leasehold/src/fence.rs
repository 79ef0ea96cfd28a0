//! Fencing: stores that refuse the writes of stale holders.
//!
//! A lease cannot stop a holder that was paused beyond its lease. On resuming, the paused holder may write before it detects the loss, although
//! another holder has acquired the lock. The token of a [`FencedLock`](crate::FencedLock) distinguishes both holders if the *store* compares tokens. Such a store keeps
//! the greatest token that it has seen, and refuses a lower token. [`FencedValue`] is a store on the lock's own server. [`sql`] contains the
//! statements for an SQL database.
//!
//! # At the first read, and at every write
//!
//! Checking the token at writes alone still loses updates. The old holder reads 100 and pauses. The new holder also reads 100. The old holder resumes
//! and writes 90 with its token, which is still the greatest that the store has seen. Then the new holder writes 80. If the new holder had shown its
//! token at its read, the store would have refused the old holder's write. So **show the token before the first read**: this registers it.
//!
//! # Repeated tokens
//!
//! A server that loses its last writes in a failover may grant a token twice. The register stores the first holder that showed the token,
//! and refuses an equal token of another holder with [`Error::DuplicateToken`](crate::Error::DuplicateToken).

pub mod sql;
mod token;
mod value;

pub use token::FencingToken;
pub use value::FencedValue;
