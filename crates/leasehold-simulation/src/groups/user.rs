//! A user: one wish, from the question to the end of what was granted.

use super::wish::{Answer, Doing, Grant, Thing, Wish};
use bytes::Bytes;
use leasehold::Error;
use leasehold::embedded::Recorder;
use leasehold_core::time::Instant;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use tokio_test::task::{Spawn, spawn};

/// See the [module](self).
pub(super) struct User {
    pub(super) wish: Wish,
    pub(super) things: Vec<Thing>,
    pub(super) stage: Stage,
    pub(super) polls: PollPolicy,
    /// When he asked, by the clock of his process.
    pub(super) since: Instant,
    /// When the stage ended that came before, if it is over with him.
    pub(super) ended: Instant,
    /// The calls of its process since then, if it asked for several things.
    pub(super) calls: Vec<Recorder>,
    /// The fields of the holds that he tried to begin.
    pub(super) tried: BTreeSet<Bytes>,
    /// He waited for one thing of several, and it was seen that he had none.
    pub(super) compared: bool,
    /// A server has lost data since he asked.
    pub(super) saw_loss: bool,
    /// Until when it is in doubt which of the things he has: a server has lost its record of that.
    pub(super) doubts: BTreeMap<String, Instant>,
}

impl User {
    pub(super) fn end(&mut self, now: Instant) {
        self.stage = Stage::Over;
        self.ended = now;
    }
}

/// The activity of a user.
pub(super) enum Stage {
    Asks(Task<Answer>),
    Holds(Hold),
    Releases {
        task: Task<Result<(), Error>>,
        /// Whether he had what he released at that time, and was told nothing else.
        held: bool,
    },
    Over,
}

/// The hold of a user.
pub(super) struct Hold {
    pub(super) grant: Rc<Grant>,
    /// Is done when he is told that it is lost.
    told: Task<()>,
    pub(super) is_told: bool,
}

/// The way in which a user polls its future.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PollPolicy {
    AtOnce,
    /// As long as this after he was woken.
    Late(Duration),
    /// So many times.
    Times(u32),
}

/// A future of a user.
pub(super) struct Task<T> {
    spawned: Spawn<Doing<T>>,
    is_new: bool,
    /// A late poll is under way.
    pub(super) awaited: bool,
}

impl<T> Task<T> {
    pub(super) fn new(future: Doing<T>) -> Self {
        Self { spawned: spawn(future), is_new: true, awaited: false }
    }

    /// Whether it wants to be polled.
    pub(super) fn is_woken(&self) -> bool {
        self.is_new || self.spawned.is_woken()
    }

    pub(super) fn poll(&mut self) -> Option<T> {
        self.is_new = false;
        self.awaited = false;
        match self.spawned.poll() {
            std::task::Poll::Ready(value) => Some(value),
            std::task::Poll::Pending => None,
        }
    }
}

impl Hold {
    pub(super) fn new(grant: Grant, way: u8) -> Self {
        let grant = Rc::new(grant);
        let told = Task::new(grant.told(way));
        Self { grant, told, is_told: false }
    }

    /// Lets him hear what there is to hear. Tells whether there was something.
    pub(super) fn hear(&mut self) -> bool {
        let wanted = !self.is_told && self.told.is_woken();
        if wanted {
            self.is_told = self.told.poll().is_some();
        }
        wanted
    }

    /// Gives up what he has.
    pub(super) fn into_grant(self) -> Grant {
        drop(self.told);
        Rc::into_inner(self.grant).expect("nobody else has it")
    }
}
