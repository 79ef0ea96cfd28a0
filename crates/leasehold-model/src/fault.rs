//! Rules that the model can break, to see that the checker notices.

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A deadline is reckoned from the reading of the reply.
    DeadlineFromTheReply,
    /// A deadline has no margin.
    NoMargin,
    /// A release is sent before the acquire is settled.
    ReleaseBeforeSettling,
    /// The server compares the client of a hold and not the number.
    ComparedByClientOnly,
    /// A renewal brings a hold back whose deadline has passed.
    RenewalAfterTheDeadline,
    /// A hold passes from task to task of one client without end.
    HandOverWithoutBound,
    /// A lease lingers although another client asks.
    LingeringDespiteARequest,
}
