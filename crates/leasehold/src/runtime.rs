//! Services of the process: clocks, wakers, thread synchronization, fork detection, and checks of the caller's tokio runtime.

pub(crate) mod clock;
pub(crate) mod process;
pub(crate) mod sync;
pub(crate) mod user_code;
pub(crate) mod waker;

use crate::error::ConnectError;
use std::panic::catch_unwind;

/// Checks that the current runtime has timers and I/O. Connections need both, and panic without them.
///
/// tokio reports a missing feature only by a panic. This catches the panic; the panic hook still reports it.
///
/// # Errors
///
/// The missing feature and the remedy.
pub(crate) fn check() -> Result<(), ConnectError> {
    let lacking = if catch_unwind(|| drop(tokio::time::sleep(std::time::Duration::ZERO))).is_err() {
        "timers"
    } else if catch_unwind(|| drop(tokio::net::UnixDatagram::unbound())).is_err() {
        "I/O"
    } else {
        return Ok(());
    };
    Err(ConnectError::invalid(format!(
        "the tokio runtime that connects has no {lacking}: build it with enable_all(), or connect from a thread outside of it, with \
         leasehold::blocking::wait"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::runtime::Builder;

    fn checked(builder: &mut Builder) -> Result<(), ConnectError> {
        builder.build().expect("a runtime").block_on(async { check() })
    }

    #[test]
    fn what_a_runtime_lacks_is_said() {
        assert_eq!(checked(Builder::new_current_thread().enable_all()), Ok(()));
        for (builder, lacking) in [
            (Builder::new_current_thread().enable_io(), "has no timers"),
            (Builder::new_current_thread().enable_time(), "has no I/O"),
            (&mut Builder::new_current_thread(), "has no timers"),
        ] {
            let error = checked(builder).expect_err("something is lacking").to_string();
            assert!(error.contains(lacking) && error.contains("enable_all()"), "{error}");
        }
    }
}
