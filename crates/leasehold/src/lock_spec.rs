//! The specification of a lock: a name, a kind, and how it is asked for. Every public type of lock has one.

use crate::attempt;
use crate::client_inner::Handle;
use crate::error::{Error, InvalidInput};
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

/// Everything behind one counter: clones are made on every acquire.
#[derive(Clone)]
pub(crate) struct LockSpec(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    handle: Arc<Handle>,
    kind: Kind,
    name: Result<LockName, Box<RefusedName>>,
    class: Arc<Class>,
    /// Boxed, because most locks have none.
    options: Option<Box<LockOptions>>,
}

/// A name that cannot be used, as it was given, and why.
#[derive(Clone)]
struct RefusedName {
    given: String,
    why: InvalidInput,
}

/// The result of an operation on a counter, with the number that the server told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done(i64),
    /// It does not apply.
    Refused(i64),
    /// The counter would leave its range.
    Overflow(i64),
}

/// How a lock is asked for, where the caller's acquire does not say otherwise.
#[derive(Clone, Debug)]
pub(crate) struct LockOptions {
    /// A fixed lease, not renewed unless the acquire says so.
    pub(crate) lease: Option<Duration>,
    /// The name of its holds on the server.
    pub(crate) field: Option<Bytes>,
    /// The owner of an acquire outside of every scope: a new one for each acquire, if none is set.
    pub(crate) owner: Option<OwnerId>,
    /// The fallback without the server; the client's, if none is set.
    pub(crate) fallback: Option<Fallback>,
    /// How long the mark of a waiting writer counts.
    pub(crate) prefer_writers: Option<Duration>,
    /// For how long the lock lingers after a release.
    pub(crate) linger: Option<Duration>,
}

/// The options of a lock that has none.
static NO_OPTIONS: LockOptions =
    LockOptions { lease: None, field: None, owner: None, fallback: None, prefer_writers: None, linger: None };

impl LockSpec {
    /// A lock with a name from the program.
    pub(crate) fn new(handle: Arc<Handle>, kind: Kind, given: &str) -> Self {
        let spec = Self::found(handle, kind, given);
        match check_ends(given) {
            Ok(()) => spec,
            Err(why) => spec.refused(why.into()),
        }
    }

    /// A lock with a name from the server, which another program may have written.
    pub(crate) fn found(handle: Arc<Handle>, kind: Kind, given: &str) -> Self {
        let name = LockName::new(&handle.settings.prefix, given).and_then(|name| {
            if handle.link.server().cluster {
                let client = handle.with(|session, _| session.client());
                kind.protocol().keys(&name, &client).check_cluster(&name)?;
            }
            Ok(name)
        });
        let name = name.map_err(|error| Box::new(RefusedName { given: given.to_owned(), why: error.into() }));
        let class = handle.classes.get(DEFAULT_CLASS);
        Self(Arc::new(Inner { handle, kind, name, class, options: None }))
    }

    pub(crate) fn with_class(&self, class: &str) -> Self {
        let class = self.0.handle.classes.get(class);
        Self(Arc::new(Inner { class, ..Inner::clone(&self.0) }))
    }

    pub(crate) fn with_options(&self, change: impl FnOnce(&mut LockOptions)) -> Self {
        let mut options = self.options().clone();
        change(&mut options);
        Self(Arc::new(Inner { options: Some(Box::new(options)), ..Inner::clone(&self.0) }))
    }

    /// The same name as another kind.
    pub(crate) fn with_kind(&self, kind: Kind) -> Self {
        Self(Arc::new(Inner { kind, ..Inner::clone(&self.0) }))
    }

    /// The same, to be refused whenever it is used.
    pub(crate) fn refused(&self, why: InvalidInput) -> Self {
        let name = Err(Box::new(RefusedName { given: self.name().to_owned(), why }));
        Self(Arc::new(Inner { name, ..Inner::clone(&self.0) }))
    }

    /// The behaviour of an acquire while the server is out of reach.
    pub(crate) fn fallback(&self) -> Fallback {
        let said = self.options().fallback.unwrap_or(self.0.handle.settings.fallback);
        if self.0.kind.supports_fallback() { said } else { Fallback::Fail }
    }

    /// How long the known outage of the lock's server has lasted.
    pub(crate) fn out_of_reach_for(&self) -> Option<Duration> {
        let name = self.0.name.as_ref().ok()?;
        self.0.handle.with(|session, now| session.out_of_reach_for(now, name))
    }

    pub(crate) fn name(&self) -> &str {
        match &self.0.name {
            Ok(name) => name.as_str(),
            Err(refused) => &refused.given,
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.0.kind
    }

    pub(crate) fn kind_word(&self) -> &'static str {
        self.0.kind.protocol().word()
    }

    pub(crate) fn options(&self) -> &LockOptions {
        self.0.options.as_deref().unwrap_or(&NO_OPTIONS)
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.0.handle
    }

    pub(crate) fn metrics(&self) -> &Arc<Class> {
        &self.0.class
    }

    /// The name, where it can be used.
    pub(crate) fn checked_name(&self) -> Result<&LockName, InvalidInput> {
        self.0.name.as_ref().map_err(|refused| refused.why.clone())
    }

    /// Sends a call, and reads the reply. During a reconnect, or while the slot of the keys moves, it waits for up to one command
    /// timeout. In a known outage it fails at once.
    pub(crate) async fn call_once<T>(
        &self,
        call: Call,
        decode: impl FnOnce(&Reply) -> Result<T, DecodeError>,
    ) -> Result<T, Error> {
        let handle = self.handle();
        handle.check_process()?;
        let end = handle.clock.now() + handle.settings.command_timeout;
        let mut pause = Duration::from_millis(5);
        let reply = loop {
            let reply = handle.link.call(call.clone()).await;
            let is_over = || handle.clock.now() >= end || handle.with(|session, _| session.has_lost_all());
            let again = match &reply {
                // As a try, it does not wait for the end of an outage.
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
        decode(&reply).map_err(|error| Error::from_link(self.name(), &LinkError::Unknown(error.to_string())))
    }

    /// Sends a call until it is known what became of it, for as long as a server may be out of reach. A copy of the call must change
    /// nothing: what would change something twice carries the id of an operation.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the call was applied.
    pub(crate) async fn call_until_known<T>(
        &self,
        call: Call,
        decode: impl Fn(&Reply) -> Result<T, DecodeError>,
    ) -> Result<T, Error> {
        let handle = self.handle();
        handle.check_process()?;
        let end = handle.clock.now() + handle.settings.unreachable_after;
        let mut pause = Duration::from_millis(10);
        let mut unknown = None;
        loop {
            let reply = handle.link.call(call.clone()).await;
            let outcome = reply.and_then(|reply| decode(&reply).map_err(|error| LinkError::Unknown(error.to_string())));
            let error = match outcome {
                Ok(value) => return Ok(value),
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
            // As an acquire, it counts the time from the loss of the server.
            let too_long = self.out_of_reach_for().is_some_and(|lasted| lasted >= handle.settings.unreachable_after);
            if refused || closed || too_long || handle.clock.now() >= end {
                // A copy that got no reply may have been applied, whatever is said of the later ones.
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

    /// As [`LockSpec::call_until_known`], for an operation with an id of its own; what the server refused by its data is the caller's to judge.
    pub(crate) async fn call_idempotent(
        &self,
        call: impl FnOnce(&LockName, &[u8], &Bytes) -> Call,
        decode: impl Fn(&Reply) -> Result<Done, DecodeError>,
    ) -> Result<Outcome, Error> {
        let name = self.checked_name()?;
        let (operation, publish) =
            self.handle().with(|session, _| (session.new_operation(), session.settings().publish.clone()));
        match self.call_until_known(call(name, &operation, &publish), decode).await? {
            Done::Done { number, .. } => Ok(Outcome::Done(number)),
            Done::Refused { number } => Ok(Outcome::Refused(number)),
            Done::Overflow { number } => Ok(Outcome::Overflow(number)),
            Done::Kind(kind) => Err(self.conflict(kind)),
        }
    }

    /// The command by which the client publishes.
    pub(crate) fn publish(&self) -> Bytes {
        self.handle().with(|session, _| session.settings().publish.clone())
    }

    pub(crate) fn conflict(&self, kind: String) -> Error {
        Error::KeyConflict { lock: self.name().to_owned(), kind }
    }
}
