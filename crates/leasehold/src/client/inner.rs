//! The shared state of a client's handles, guards, futures and background.

use crate::background::{Alarm, Background, is_at_rest};
use crate::client::settings::Settings;
use crate::error::InvalidInput;
use crate::link::AnyLink;
use crate::lock::acquire::Wait;
use crate::runtime::clock::Clock;
use crate::runtime::process::Process;
use crate::runtime::sync::Mutex;
use crate::runtime::user_code::{self, UserCode};
use crate::telemetry::Classes;
use leasehold_core::call::Call;
use leasehold_core::link::{Arrival, Link, Receiver};
use leasehold_core::owner::ClientId;
use leasehold_core::session::{CallId, Outgoing, Session};
use leasehold_core::time::Instant;
use std::sync::{Arc, OnceLock, Weak};

/// The shared state of a client.
#[derive(Debug)]
pub(crate) struct ClientInner {
    state: Mutex<State>,
    /// The state of an ended client, for forked children: another thread may have held the mutex at the fork.
    forked: OnceLock<Box<Mutex<State>>>,
    /// Calls that the caller could not send at once. The background sends them.
    deferred: Mutex<Vec<(CallId, Call, u64)>>,
    client: ClientId,
    pub(crate) link: AnyLink,
    pub(crate) clock: Clock,
    pub(crate) settings: Settings,
    pub(crate) classes: Classes,
    pub(crate) background: Background,
}

#[derive(Debug)]
struct State {
    session: Session,
    alarm: Alarm,
}

impl ClientInner {
    pub(crate) fn new(
        session: Session,
        link: AnyLink,
        clock: Clock,
        settings: Settings,
        background: Background,
    ) -> Arc<Self> {
        let inner = Arc::new(Self {
            client: session.client(),
            forked: OnceLock::new(),
            deferred: Mutex::new(Vec::new()),
            state: Mutex::new(State { session, alarm: Alarm::default() }),
            link,
            clock,
            settings,
            classes: Classes::new(),
            background,
        });
        let receiver: Weak<dyn Receiver> = Arc::<Self>::downgrade(&inner);
        inner.link.deliver_to(receiver);
        inner
    }

    /// Runs `work` on the session, sends the resulting calls, wakes the affected futures, and wakes the background if needed.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Session, Instant) -> T) -> T {
        if self.check_process().is_err() {
            return work(&mut self.forked().lock().session, Instant::FAR_FUTURE);
        }
        let (result, (must_wake, is_at_rest)) = self.locked(work, |state| {
            let due = state.session.poll_timeout();
            (state.alarm.bring_forward(due) || state.session.has_output(), is_at_rest(&state.session))
        });
        // An ending background waits for an idle session, and any call may end the last hold.
        if must_wake || is_at_rest && self.background.is_ending() {
            self.background.wake();
        } else {
            self.background.turn();
        }
        result
    }

    /// Runs `work` on the session, sends the resulting calls, and wakes the affected futures. `then` runs after the last call is sent.
    fn locked<T, U>(
        &self,
        work: impl FnOnce(&mut Session, Instant) -> T,
        then: impl FnOnce(&mut State) -> U,
    ) -> (T, U) {
        let mut state = self.state.lock();
        // Reading the clock under the lock keeps the session's time monotonic.
        let result = work(&mut state.session, self.clock.now_in_process());
        while let Some(Outgoing { id, call, .. }) = state.session.poll_call() {
            // Read under the lock: a later settling then stops the call.
            let decided = self.link.settlings(call.replicas().is_some());
            drop(state);
            let known = self.link.start(decided, id, call).unwrap_or_else(|call| {
                self.deferred.lock().push((id, call, decided));
                self.background.wake();
                None
            });
            state = self.state.lock();
            if let Some(outcome) = known {
                state.session.handle_called(self.clock.now_in_process(), id, outcome);
            }
        }
        let woken = state.session.take_woken();
        let then = then(&mut state);
        drop(state);
        for waker in woken {
            user_code::call(UserCode::Waker, || waker.wake());
        }
        (result, then)
    }

    /// # Errors
    ///
    /// Fails in a fork of the process that built the client.
    pub(crate) fn check_process(&self) -> Result<(), InvalidInput> {
        self.clock.process().map_or(Ok(()), Process::check)
    }

    fn forked(&self) -> &Mutex<State> {
        self.forked.get_or_init(|| {
            let mut session = Session::new(self.client, leasehold_core::settings::Settings::default(), 0);
            session.end(Instant::FAR_FUTURE);
            Box::new(Mutex::new(State { session, alarm: Alarm::default() }))
        })
    }

    /// Runs `work` like [`ClientInner::with`], for the background. Returns the instant until which the background may sleep.
    pub(crate) fn drive<T>(&self, work: impl FnOnce(&mut Session, Instant) -> T) -> (T, Option<Instant>) {
        self.locked(work, |state| {
            let due = state.session.poll_timeout();
            state.alarm.set(self.clock.now_in_process(), due)
        })
    }

    /// Returns the end of a wait that starts now. `None` is the client's default wait.
    pub(crate) fn end_of_wait(&self, wait: Option<Wait>) -> Instant {
        let wait = wait.map(Wait::left).or(self.settings.default_wait);
        wait.map_or(Instant::FAR_FUTURE, |wait| self.clock.now() + wait)
    }

    pub(crate) fn take_deferred(&self) -> Vec<(CallId, Call, u64)> {
        std::mem::take(&mut *self.deferred.lock())
    }
}

impl Receiver for ClientInner {
    fn receive(&self, arrivals: &mut Vec<Arrival>) {
        self.with(|session, now| {
            for arrival in arrivals.drain(..) {
                match arrival {
                    Arrival::Outcome(id, outcome) => session.handle_called(now, id, outcome),
                    Arrival::Event(event) => session.handle_event(now, event),
                }
            }
        });
    }
}

/// A reference that keeps a client alive. Dropping the last handle ends the background.
#[derive(Debug)]
pub(crate) struct Handle(Arc<ClientInner>);

impl Handle {
    pub(crate) fn new(shared: Arc<ClientInner>) -> Arc<Self> {
        Arc::new(Self(shared))
    }

    pub(crate) const fn shared(&self) -> &Arc<ClientInner> {
        &self.0
    }

    /// Returns whether two clients are known to share a server.
    pub(crate) fn is_of_server(&self, other: &Self) -> bool {
        let instance = &self.link.server().instance;
        Arc::ptr_eq(&self.0, &other.0) || (!instance.is_empty() && other.link.server().instance == *instance)
    }
}

impl std::ops::Deref for Handle {
    type Target = ClientInner;

    fn deref(&self) -> &ClientInner {
        &self.0
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.0.check_process().is_err() {
            return;
        }
        let owes = self.0.with(|session, _| !session.holds_nothing());
        self.0.background.end(owes);
    }
}
