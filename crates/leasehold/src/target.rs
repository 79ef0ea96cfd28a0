//! What a lock value is about: a name, a kind, and how it is asked for. Every public type of lock has one.

use crate::error::{Error, InvalidInput};
use crate::shared::Handle;
use crate::telemetry::{Class, DEFAULT_CLASS};
use bytes::Bytes;
use leasehold_core::backoff::Backoff;
use leasehold_core::call::Call;
use leasehold_core::command::Kind;
use leasehold_core::link::{Link as _, LinkError, Plane};
use leasehold_core::name::{LockName, NameError};
use leasehold_core::owner::OwnerId;
use leasehold_core::reply::{DecodeError, Reply};
use std::sync::Arc;
use std::time::Duration;

/// Everything behind one counter: clones are made on every acquire.
#[derive(Clone)]
pub(crate) struct Target(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    handle: Arc<Handle>,
    kind: Kind,
    /// The name as it was given.
    given: Arc<str>,
    name: Result<LockName, NameError>,
    class: Arc<Class>,
    manner: Manner,
}

/// How a lock is asked for, where the caller's acquire does not say otherwise.
#[derive(Clone, Debug, Default)]
pub(crate) struct Manner {
    /// A fixed lease, not renewed unless the acquire says so.
    pub(crate) lease: Option<Duration>,
    /// The name of its holds on the server.
    pub(crate) field: Option<Bytes>,
    /// Who acquires outside of every scope; an owner of its own for each acquire where there is none.
    pub(crate) owner: Option<OwnerId>,
    pub(crate) backoff: Backoff,
    /// How long the mark of a waiting writer counts.
    pub(crate) prefer_writers: Option<Duration>,
}

impl Target {
    pub(crate) fn new(handle: Arc<Handle>, kind: Kind, given: &str) -> Self {
        let name = LockName::new(&handle.settings.prefix, given).and_then(|name| {
            if handle.link.server().cluster {
                name.check_cluster()?;
            }
            Ok(name)
        });
        let class = handle.classes.get(DEFAULT_CLASS);
        Self(Arc::new(Inner { handle, kind, given: given.into(), name, class, manner: Manner::default() }))
    }

    pub(crate) fn with_class(&self, class: &'static str) -> Self {
        let class = self.0.handle.classes.get(class);
        Self(Arc::new(Inner { class, ..Inner::clone(&self.0) }))
    }

    pub(crate) fn with_manner(&self, change: impl FnOnce(&mut Manner)) -> Self {
        let mut inner = Inner::clone(&self.0);
        change(&mut inner.manner);
        Self(Arc::new(inner))
    }

    /// The same name as another kind.
    pub(crate) fn with_kind(&self, kind: Kind) -> Self {
        Self(Arc::new(Inner { kind, ..Inner::clone(&self.0) }))
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.given
    }

    pub(crate) fn kind(&self) -> Kind {
        self.0.kind
    }

    pub(crate) fn kind_word(&self) -> &'static str {
        self.0.kind.verbs().word()
    }

    pub(crate) fn manner(&self) -> &Manner {
        &self.0.manner
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.0.handle
    }

    pub(crate) fn metrics(&self) -> &Arc<Class> {
        &self.0.class
    }

    /// The name, where it can be used.
    pub(crate) fn checked_name(&self) -> Result<&LockName, InvalidInput> {
        self.0.name.as_ref().map_err(|error| error.clone().into())
    }

    /// Sends a call by the lifeline's connection, which bounds the wait, and reads the reply.
    pub(crate) async fn ask<T>(
        &self,
        call: Call,
        decode: impl FnOnce(&Reply) -> Result<T, DecodeError>,
    ) -> Result<T, Error> {
        let reply = self.handle().link.call(Plane::Lifeline, call).await;
        let reply = reply.map_err(|error| Error::from_link(self.name(), &error))?;
        decode(&reply).map_err(|error| Error::from_link(self.name(), &LinkError::Unknown(error.to_string())))
    }

    /// The command by which the client publishes.
    pub(crate) fn publish(&self) -> Bytes {
        self.handle().with(|session, _| session.settings().publish.clone())
    }

    pub(crate) fn conflict(&self, kind: String) -> Error {
        Error::KeyConflict { lock: self.name().to_owned(), kind }
    }
}
