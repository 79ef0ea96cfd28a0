//! The state that the handles of a client, its guards, its futures and its background share.

use crate::background::{Alarm, Background};
use crate::caller;
use crate::clock::Clock;
use crate::error::InvalidInput;
use crate::foreign::{self, Foreign};
use crate::link::AnyLink;
use crate::process::Process;
use crate::settings::Settings;
use crate::sync::Mutex;
use crate::telemetry::Classes;
use leasehold_core::link::{Link, Plane};
use leasehold_core::owner::ClientId;
use leasehold_core::session::{Session, Via};
use leasehold_core::time::Instant;
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Duration;

/// The inside of a client.
#[derive(Debug)]
pub(crate) struct ClientInner {
    state: Mutex<State>,
    /// The state of an ended client, for forked children: another thread may have held the mutex at the fork.
    forked: OnceLock<Box<Mutex<State>>>,
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
    ) -> Self {
        Self {
            client: session.client(),
            forked: OnceLock::new(),
            state: Mutex::new(State { session, alarm: Alarm::default() }),
            link,
            clock,
            settings,
            classes: Classes::new(),
            background,
        }
    }

    /// Does something with the session, wakes whom that concerns, and wakes the background where it has something to do.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Session, Instant) -> T) -> T {
        if self.check_process().is_err() {
            return work(&mut self.forked().lock().session, Instant::FAR_FUTURE);
        }
        let mut state = self.state.lock();
        // The clock is read under the lock, so that the session never sees it go back.
        let result = work(&mut state.session, self.clock.now_in_process());
        let woken = state.session.take_woken();
        let due = state.session.poll_timeout();
        let must_wake = state.alarm.bring_forward(due) || state.session.has_output();
        drop(state);
        wake(woken);
        if must_wake {
            self.background.wake();
        } else {
            self.background.turn();
        }
        result
    }

    /// # Errors
    ///
    /// This process is a fork of the process that built the client.
    pub(crate) fn check_process(&self) -> Result<(), InvalidInput> {
        self.clock.process().map_or(Ok(()), Process::check)
    }

    fn forked(&self) -> &Mutex<State> {
        self.forked.get_or_init(|| {
            let mut session = Session::new(self.client, leasehold_core::settings::Settings::default(), 0);
            session.close(Instant::FAR_FUTURE);
            session.lose_all(Instant::FAR_FUTURE);
            Box::new(Mutex::new(State { session, alarm: Alarm::default() }))
        })
    }

    /// As [`ClientInner::with`], for the background itself, which then sleeps until the instant that is given, or until it is woken.
    pub(crate) fn drive<T>(&self, work: impl FnOnce(&mut Session, Instant) -> T) -> (T, Option<Instant>) {
        let mut state = self.state.lock();
        let now = self.clock.now_in_process();
        let result = work(&mut state.session, now);
        let woken = state.session.take_woken();
        let due = state.session.poll_timeout();
        let until = state.alarm.set(now, due);
        drop(state);
        wake(woken);
        (result, until)
    }

    /// When a caller who waits for `wait`, or for as long as the client says, does not want to wait any longer.
    pub(crate) fn end_of_wait(&self, wait: Option<Duration>) -> Instant {
        let wait = wait.or(self.settings.default_wait);
        wait.map_or(Instant::FAR_FUTURE, |wait| self.clock.now() + wait)
    }

    /// The plane of a caller's call at this moment. A thread's goes by the background always, whatever its client's runtime does.
    pub(crate) fn via(&self) -> Via {
        let plane = if caller::is_thread() { Plane::Background } else { self.link.home() };
        Via { plane, epoch: self.link.epoch(plane) }
    }
}

/// Wakes futures. It is called without the session's lock, and a waker that panics keeps no other future asleep.
fn wake(woken: Vec<Waker>) {
    for waker in woken {
        foreign::call(Foreign::Waker, || waker.wake());
    }
}

/// A value that keeps a client alive: the last one that is dropped ends its background.
#[derive(Debug)]
pub(crate) struct Handle(Arc<ClientInner>);

impl Handle {
    pub(crate) fn new(shared: Arc<ClientInner>) -> Arc<Self> {
        Arc::new(Self(shared))
    }

    pub(crate) const fn shared(&self) -> &Arc<ClientInner> {
        &self.0
    }

    /// Whether two clients are on one server, as far as that is known.
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
