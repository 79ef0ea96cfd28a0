//! One entry of the log of what went over the wire.

use crate::server::connections::LinkId;
use leasehold_core::call::Call;
use leasehold_core::link::LinkError;
use leasehold_core::reply::Reply;
use leasehold_core::wire::Words;

/// One call that a client made.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub(crate) link: LinkId,
    pub(crate) call: Call,
    pub(crate) applied: u32,
    pub(crate) outcome: Option<Result<Reply, LinkError>>,
}

impl Recorded {
    /// The name of its script, such as `lock/acquire`.
    pub const fn script(&self) -> &'static str {
        self.call.script().name()
    }

    /// Its keys.
    pub fn keys(&self) -> Words<'_> {
        self.call.keys()
    }

    /// Its arguments.
    pub fn args(&self) -> Words<'_> {
        self.call.args()
    }

    /// The whole call.
    #[doc(hidden)]
    pub const fn call(&self) -> &Call {
        &self.call
    }

    /// How often the server has run it.
    pub const fn applied(&self) -> u32 {
        self.applied
    }

    /// The reply to the caller, or that it was to get had it still listened. `None` while the reply has not come.
    #[doc(hidden)]
    pub const fn outcome(&self) -> Option<&Result<Reply, LinkError>> {
        self.outcome.as_ref()
    }
}
