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
    /// The name of the script, such as `lock/acquire`.
    pub const fn script(&self) -> &'static str {
        self.call.script().name()
    }

    /// The keys.
    pub fn keys(&self) -> Words<'_> {
        self.call.keys()
    }

    /// The arguments.
    pub fn args(&self) -> Words<'_> {
        self.call.args()
    }

    /// The whole call.
    #[doc(hidden)]
    pub const fn call(&self) -> &Call {
        &self.call
    }

    /// Number of times that the server has run it.
    pub const fn applied(&self) -> u32 {
        self.applied
    }

    /// The reply to the caller, or the reply that a dropped caller would have received. `None` without a reply so far.
    #[doc(hidden)]
    pub const fn outcome(&self) -> Option<&Result<Reply, LinkError>> {
        self.outcome.as_ref()
    }
}
