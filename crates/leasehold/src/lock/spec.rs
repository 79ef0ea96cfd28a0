//! The specification of a lock: its name, kind and options. Every public lock type contains one.

use crate::client::inner::Handle;
use crate::error::{Error, InvalidInput};
use crate::lock::attempt;
use crate::telemetry::{Class, DEFAULT_CLASS};
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::command::Kind;
use leasehold_core::command::operation::Done;
use leasehold_core::link::{Link as _, LinkError};
use leasehold_core::name::{LockName, check_ends};
use leasehold_core::owner::OwnerId;
use leasehold_core::reply::{DecodeError, Reply};
use leasehold_core::session::Fallback;
use std::sync::Arc;
use std::time::Duration;

/// Reference-counted as a whole, because every acquire clones it.
#[derive(Clone)]
pub(crate) struct LockSpec(Arc<Inner>);

#[derive(Clone)]
pub(crate) struct Inner {
    handle: Arc<Handle>,
    pub(crate) kind: Kind,
    /// The name, or the reason why it is invalid.
    name: Result<LockName, Box<(String, InvalidInput)>>,
    class: Arc<Class>,
    /// A fixed lease, not renewed unless the acquire requests it.
    pub(crate) lease: Option<Duration>,
    /// The id of its holds on the server, and the owner of acquires outside every scope. Default: a new id and a new owner for each acquire.
    pub(crate) holder: Option<Box<(Bytes, OwnerId)>>,
    /// Default: the client's fallback.
    pub(crate) fallback: Option<Fallback>,
    /// A waiting writer blocks new readers.
    pub(crate) prefer_writers: bool,
    /// How long the lock lingers after a release.
    pub(crate) linger: Option<Duration>,
}

impl LockSpec {
    /// Creates a lock with a name from the program.
    pub(crate) fn new(handle: Arc<Handle>, kind: Kind, given: &str) -> Self {
        let spec = Self::found(handle, kind, given);
        match check_ends(given) {
            Ok(()) => spec,
            Err(why) => spec.refused(why.into()),
        }
    }

    /// Creates a lock with a name from the server, which another program may have written.
    pub(crate) fn found(handle: Arc<Handle>, kind: Kind, given: &str) -> Self {
        let name = LockName::new(&handle.settings.prefix, given).and_then(|name| {
            if handle.link.server().cluster {
                let client = handle.with(|session, _| session.client());
                kind.protocol().keys(&name, &client).check_cluster(&name)?;
            }
            Ok(name)
        });
        Self(Arc::new(Inner {
            class: handle.classes.get(DEFAULT_CLASS),
            handle,
            kind,
            name: name.map_err(|error| Box::new((given.to_owned(), error.into()))),
            lease: None,
            holder: None,
            fallback: None,
            prefer_writers: false,
            linger: None,
        }))
    }

    /// Returns a changed copy.
    pub(crate) fn with(&self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = Inner::clone(&self.0);
        change(&mut inner);
        Self(Arc::new(inner))
    }

    pub(crate) fn with_class(&self, class: &str) -> Self {
        self.with(|inner| inner.class = inner.handle.classes.get(class))
    }

    /// Returns a lock whose acquires all fail.
    pub(crate) fn refused(&self, why: InvalidInput) -> Self {
        self.with(|inner| inner.name = Err(Box::new((self.name().to_owned(), why))))
    }

    /// Returns the fallback of an acquire.
    pub(crate) fn fallback(&self) -> Fallback {
        let said = self.0.fallback.unwrap_or(self.0.handle.settings.fallback);
        if self.0.kind.supports_fallback() { said } else { Fallback::Fail }
    }

    /// Returns how long the known outage of the lock's server has lasted.
    pub(crate) fn out_of_reach_for(&self) -> Option<Duration> {
        let name = self.0.name.as_ref().ok()?;
        self.0.handle.with(|session, now| session.out_of_reach_for(now, name))
    }

    pub(crate) fn name(&self) -> &str {
        match &self.0.name {
            Ok(name) => name.as_str(),
            Err(refused) => &refused.0,
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.0.kind
    }

    pub(crate) fn kind_word(&self) -> &'static str {
        self.0.kind.protocol().kind_name()
    }

    pub(crate) fn options(&self) -> &Inner {
        &self.0
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.0.handle
    }

    pub(crate) fn metrics(&self) -> &Arc<Class> {
        &self.0.class
    }

    /// Returns the name if it is valid.
    pub(crate) fn checked_name(&self) -> Result<&LockName, InvalidInput> {
        self.0.name.as_ref().map_err(|refused| refused.1.clone())
    }

    /// Sends a call and reads the reply. It waits for up to one command timeout during a reconnect or the migration of the keys' slot. In a
    /// known outage it fails at once.
    pub(crate) async fn call_once<T>(
        &self,
        call: Call,
        decode: impl FnOnce(&Reply) -> Result<T, DecodeError>,
    ) -> Result<T, Error> {
        let handle = self.handle();
        handle.check_process()?;
        let end = handle.clock.now() + handle.settings.session.command_timeout;
        let mut pause = Duration::from_millis(5);
        let reply = loop {
            let reply = handle.link.call(call.clone()).await;
            let is_over = || handle.clock.now() >= end || handle.with(|session, _| session.has_lost_all());
            let again = match &reply {
                // Like a try, the call does not wait out an outage.
                Err(LinkError::NotSent(_)) => self.out_of_reach_for().is_none(),
                Err(LinkError::Refused(refusal)) => refusal.is_of_a_moving_slot(),
                _ => false,
            };
            if !again || is_over() {
                break reply;
            }
            attempt::pause(handle, pause).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        };
        let reply = reply.map_err(|error| Error::from_link(self.name(), &error))?;
        decode(&reply).map_err(|error| match error {
            DecodeError::OtherKind(kind) => self.conflict(kind),
            error @ DecodeError::Unexpected { .. } => {
                Error::from_link(self.name(), &LinkError::Unknown(error.to_string()))
            }
        })
    }

    /// Sends a call until its outcome is known, for at most `unreachable_after`. The call must be idempotent, for example by an operation id.
    ///
    /// # Cancel safety
    ///
    /// After a drop of the future the call may or may not be applied.
    pub(crate) async fn call_until_known<T>(
        &self,
        call: Call,
        decode: impl Fn(&Reply) -> Result<T, DecodeError>,
    ) -> Result<T, Error> {
        let handle = self.handle();
        handle.check_process()?;
        let end = handle.clock.now() + handle.settings.session.unreachable_after;
        let mut pause = Duration::from_millis(10);
        let mut unknown = None;
        loop {
            let error = match handle.link.call(call.clone()).await.map(|reply| decode(&reply)) {
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(DecodeError::OtherKind(kind))) => return Err(self.conflict(kind)),
                Ok(Err(error @ DecodeError::Unexpected { .. })) => LinkError::Unknown(error.to_string()),
                Err(LinkError::Refused(refusal)) if !refusal.is_transient() && unknown.is_none() => {
                    return Err(Error::from_link(self.name(), &LinkError::Refused(refusal)));
                }
                Err(error) => error,
            };
            let refused = matches!(&error, LinkError::Refused(refusal) if !refusal.is_transient());
            if matches!(error, LinkError::Unknown(_)) {
                unknown = Some(error.clone());
            }
            let closed = handle.with(|session, _| session.has_lost_all());
            // As in an acquire, the time starts at the loss of the server.
            let too_long =
                self.out_of_reach_for().is_some_and(|lasted| lasted >= handle.settings.session.unreachable_after);
            if refused || closed || too_long || handle.clock.now() >= end {
                // The server may have applied a copy without a reply, regardless of the replies to later copies.
                let error = unknown.unwrap_or_else(|| match error {
                    LinkError::Refused(refusal) => LinkError::NotSent(refusal.text().to_owned()),
                    other => other,
                });
                return Err(Error::from_link(self.name(), &error));
            }
            attempt::pause(handle, pause).await;
            pause = (pause * 2).min(Duration::from_millis(500));
        }
    }

    /// Sends an operation with its own id, like [`LockSpec::call_until_known`]. The caller evaluates refusals that depend on the data.
    pub(crate) async fn call_idempotent(
        &self,
        call: impl FnOnce(&LockName, &[u8], &Bytes) -> Call,
        decode: impl Fn(&Reply) -> Result<Done, DecodeError>,
    ) -> Result<Done, Error> {
        let name = self.checked_name()?;
        let (operation, publish) =
            self.handle().with(|session, _| (session.new_operation(), session.settings().publish.clone()));
        self.call_until_known(call(name, &operation, &publish), decode).await
    }

    /// Returns the client's publish command.
    pub(crate) fn publish(&self) -> Bytes {
        self.handle().with(|session, _| session.settings().publish.clone())
    }

    pub(crate) fn conflict(&self, kind: String) -> Error {
        Error::KeyConflict { lock: self.name().to_owned(), kind }
    }
}
