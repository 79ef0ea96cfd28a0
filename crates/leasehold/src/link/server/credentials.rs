//! Users, passwords, and their sources.

use super::error::ConnectError;
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A user and a password. Its `Debug` shows neither.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub(super) user: Option<String>,
    pub(super) password: String,
}

impl Credentials {
    /// Credentials of a named ACL user.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: Some(user.into()), password: password.into() }
    }

    /// Credentials of the default user.
    pub fn of_default_user(password: impl Into<String>) -> Self {
        Self { user: None, password: password.into() }
    }

    /// Credentials from a URL, which may lack the user or both.
    ///
    /// # Errors
    ///
    /// The URL has a user but no password.
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

/// The future of a provider.
pub(crate) type Provided = Result<Credentials, Box<dyn Error + Send + Sync>>;

/// Provides the credentials for each connection.
#[derive(Clone)]
pub(crate) struct Provider(Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Provided> + Send>> + Send + Sync>);

impl Provider {
    pub(crate) fn new<F>(provider: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Provided> + Send + 'static,
    {
        Self(Arc::new(move || Box::pin(provider())))
    }

    /// Gets the credentials for a connection to `server`.
    ///
    /// # Errors
    ///
    /// The provider failed or timed out.
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
