//! User and password, and where they come from.

use super::error::ConnectError;
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A password, and the user whose it is. Its `Debug` shows neither.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub(super) user: Option<String>,
    pub(super) password: String,
}

impl Credentials {
    /// Of a user of an access control list.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: Some(user.into()), password: password.into() }
    }

    /// Of the default user.
    pub fn of_default_user(password: impl Into<String>) -> Self {
        Self { user: None, password: password.into() }
    }

    /// From a URL, where each part may be missing.
    ///
    /// # Errors
    ///
    /// There is a user, and no password.
    pub(super) fn of_url(user: String, password: String) -> Result<Option<Self>, ()> {
        let user = Some(user).filter(|user| !user.is_empty());
        match (user, password.is_empty()) {
            (Some(_), true) => Err(()),
            (None, true) => Ok(None),
            (user, false) => Ok(Some(Self { user, password })),
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// An answer of a provider.
pub(crate) type Provided = Result<Credentials, Box<dyn Error + Send + Sync>>;

/// What gives the credentials for each connection.
#[derive(Clone)]
pub(crate) struct Provider(Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Provided> + Send>> + Send + Sync>);

impl Provider {
    pub(crate) fn new<F>(provider: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Provided> + Send + 'static,
    {
        Self(Arc::new(move || Box::pin(provider())))
    }

    /// Asks for the credentials of a connection to `server`.
    ///
    /// # Errors
    ///
    /// The provider failed, or gave no answer in time.
    pub(super) async fn ask(&self, server: &str, patience: Duration) -> Result<Credentials, ConnectError> {
        let why = match tokio::time::timeout(patience, (self.0)()).await {
            Ok(Ok(credentials)) => return Ok(credentials),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {patience:?}"),
        };
        Err(ConnectError::Credentials { server: server.to_owned(), reason: why })
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").finish_non_exhaustive()
    }
}
