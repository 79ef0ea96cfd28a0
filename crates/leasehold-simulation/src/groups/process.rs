//! A process: its clock, its clients, one for each server, and its users.

use super::user::User;
use crate::world::clock::Clock;
use leasehold::embedded::{EmbeddedLink, EmbeddedServer, ManualClock, Recorder};
use leasehold::{Client, ClientBuilder, Owner};
use leasehold_core::time::Instant;

/// See the [module](self).
pub(super) struct Process {
    /// The time that its clock shows at a true time,
    pub(super) clock: Clock,
    /// and what its clients see of that: while it stands still, less.
    shown: ManualClock,
    pub(super) links: Vec<EmbeddedLink>,
    pub(super) calls: Vec<Recorder>,
    pub(super) clients: Vec<Client>,
    /// Their identities, with which the fields of their holds begin.
    pub(super) ids: Vec<String>,
    /// The id of the first client.
    pub(super) owner: Owner,
    pub(super) users: Vec<User>,
    pub(super) stands_since: Option<Instant>,
    /// Its clock stands still with it.
    pub(super) clock_stands: bool,
    pub(super) dead: bool,
    /// Its clock is or was wrong beyond the margin, so that it believes for too long.
    pub(super) clock_is_wrong: bool,
}

impl Process {
    pub(super) fn new(
        now: Instant,
        seed: u64,
        servers: &[EmbeddedServer],
        settings: impl Fn(ClientBuilder) -> ClientBuilder,
    ) -> Self {
        let shown = ManualClock::new();
        shown.jump(now.since(shown.now()));
        let links: Vec<EmbeddedLink> = servers.iter().map(EmbeddedServer::link).collect();
        let client = |(number, link): (usize, &EmbeddedLink)| {
            let seed = seed.wrapping_mul(8).wrapping_add(number as u64);
            let builder = settings(Client::builder()).manual_clock(&shown).seed(seed);
            builder.embedded_link(link.clone()).expect("settings that can be used")
        };
        let clients: Vec<Client> = links.iter().enumerate().map(client).collect();
        Self {
            clock: Clock::default(),
            shown,
            calls: links.iter().map(EmbeddedLink::record).collect(),
            owner: clients[0].new_owner(),
            ids: clients.iter().map(|client| client.id().into_string()).collect(),
            links,
            clients,
            users: Vec::new(),
            stands_since: None,
            clock_stands: false,
            dead: false,
            clock_is_wrong: false,
        }
    }

    pub(super) const fn runs(&self) -> bool {
        !self.dead && self.stands_since.is_none()
    }

    /// The time that its clock shows; its clients may not have seen that yet.
    pub(super) fn local(&self, now: Instant) -> Instant {
        match self.stands_since {
            Some(since) if self.clock_stands => self.clock.shows(since),
            _ => self.clock.shows(now),
        }
    }

    /// The time of its clock that its clients see.
    pub(super) fn seen(&self) -> Instant {
        self.shown.now()
    }

    /// When one of its clients wants to do something.
    pub(super) fn next(&self) -> Option<Instant> {
        self.shown.next_timer().filter(|_| self.runs()).map(|timer| self.clock.when(timer))
    }

    /// Lets its clients see what its clock shows, and do what they have to do.
    pub(super) fn turn(&self, now: Instant) {
        self.shown.jump(self.clock.shows(now).since(self.shown.now()));
    }

    /// It goes on after it stood still.
    pub(super) fn resume(&mut self, now: Instant) {
        let Some(since) = self.stands_since.take() else { return };
        if std::mem::take(&mut self.clock_stands) {
            self.clock.stood_still(since, now);
        }
    }

    /// It ends in peace. Its clients do what they still want to do by this clock.
    pub(super) fn exit(self) -> ManualClock {
        self.shown
    }

    /// It is killed. Its messages that are on the way arrive, and nothing else.
    pub(super) fn crash(&mut self) {
        self.dead = true;
        self.links.iter().for_each(|link| link.set_down(true));
        self.users.clear();
        self.clients.clear();
    }
}
