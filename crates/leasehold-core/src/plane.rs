//! The planes of a link, and which calls go by which.

use crate::call::Call;

/// A connection, seen from above, on which things keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a link must know every plane")]
pub enum Plane {
    /// The caller's: bound to the runtime on which the client was built, and dead once that is gone.
    Foreground,
    /// The background's: alive as long as the client.
    Background,
    /// The plane of calls which wait for replicas: the server blocks a connection that waits, so it is shared with no other call. Alive as
    /// long as the client.
    Durable,
}

impl Plane {
    /// Every plane.
    pub const ALL: [Self; 3] = [Self::Foreground, Self::Background, Self::Durable];

    /// The plane that `call` goes by, where those without replicas go by `usual`.
    pub const fn for_call(call: &Call, usual: Self) -> Self {
        if call.replicas().is_some() { Self::Durable } else { usual }
    }
}
