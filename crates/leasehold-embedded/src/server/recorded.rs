//! An entry of the call log.

use crate::server::connections::LinkId;
use leasehold_core::call::Call;
use leasehold_core::link::LinkError;
use leasehold_core::reply::Reply;
use leasehold_core::wire::Words;

/// A call of a client.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub(crate) link: LinkId,
    pub(crate) call: Call,
    pub(crate) applied: u32,
    pub(crate) outcome: Option<Result<Reply, LinkError>>,
}

impl Recorded {
    /// Returns the name of the script, such as `lock/acquire`.
    pub const fn script(&self) -> &'static str {
        self.call.script().name()
    }

    /// Returns the keys.
    pub fn keys(&self) -> Words<'_> {
        self.call.keys()
    }

    /// Returns the arguments.
    pub fn args(&self) -> Words<'_> {
        self.call.args()
    }

    /// Returns the whole call.
    #[doc(hidden)]
    pub const fn call(&self) -> &Call {
        &self.call
    }

    /// Returns how often the server has run the call.
    pub const fn applied(&self) -> u32 {
        self.applied
    }

    /// Returns the reply to the caller, even to a dropped caller. `None` before the reply.
    #[doc(hidden)]
    pub const fn outcome(&self) -> Option<&Result<Reply, LinkError>> {
        self.outcome.as_ref()
    }
}
