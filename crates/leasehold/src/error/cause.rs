//! The source error of an error.

use std::error::Error;
use std::ops::Deref;
use std::sync::Arc;
use std::{fmt, io};

/// The error of the operating system, the server or the client library that caused an error of this crate.
///
/// Unlike most of these errors, `Cause` implements `Clone` and `PartialEq`. Two causes are equal if their texts are equal and, for errors of the operating
/// system, their kinds.
#[derive(Clone)]
pub struct Cause(Arc<dyn Error + Send + Sync + 'static>);

impl Cause {
    pub(crate) fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }

    fn io_kind(&self) -> Option<io::ErrorKind> {
        self.0.downcast_ref::<io::Error>().map(io::Error::kind)
    }
}

impl Deref for Cause {
    type Target = dyn Error + Send + Sync + 'static;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl PartialEq for Cause {
    fn eq(&self, other: &Self) -> bool {
        self.io_kind() == other.io_kind() && self.0.to_string() == other.0.to_string()
    }
}

impl Eq for Cause {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_with_the_same_text_differ_by_the_kind_of_io_error() {
        let of_kind = |kind| Cause::new(io::Error::new(kind, "it is down"));
        let refused = of_kind(io::ErrorKind::ConnectionRefused);
        assert_eq!(refused, of_kind(io::ErrorKind::ConnectionRefused));
        assert_ne!(refused, of_kind(io::ErrorKind::ConnectionReset));
        assert_ne!(refused, Cause::new(io::Error::from(io::ErrorKind::ConnectionRefused)));
    }
}
