//! The keys of all servers, page by page.

use crate::client::inner::Handle;
use crate::error::Error;
use crate::lock::attempt;
use bytes::Bytes;
use leasehold_core::link::{Link as _, LinkError};
use leasehold_core::scan::{ScanPage, Scanned, ServerId};
use std::sync::Arc;
use std::time::Duration;

/// The `COUNT` of a `SCAN`, which takes less than half a millisecond.
const PAGE: u32 = 1024;

/// A cursor over the keys of all servers.
pub(super) struct Keys {
    handle: Arc<Handle>,
    pattern: Bytes,
    /// The pattern in errors.
    label: String,
    /// The completed servers.
    done: Vec<ServerId>,
    /// The completed servers whose scan failed. The scan continues on the other servers.
    failed: Vec<ServerId>,
    failure: Option<Error>,
    place: Option<Place>,
}

/// The cursor of one server.
#[derive(Clone)]
struct Place {
    server: ServerId,
    cursor: u64,
    /// The server process, known after its first reply. A cursor is valid only in this process.
    process: Option<String>,
}

/// A page of names, and the next cursor.
pub(super) struct Page {
    pub(super) names: Vec<Bytes>,
    next: Option<Place>,
    pub(super) server: ServerId,
}

impl Keys {
    /// Starts a scan for names that match a pattern.
    pub(super) fn new(handle: Arc<Handle>, pattern: String, label: &str) -> Self {
        let (pattern, label) = (Bytes::from(pattern), label.to_owned());
        Self { handle, pattern, label, done: Vec::new(), failed: Vec::new(), failure: None, place: None }
    }

    /// Starts another scan without the failed servers.
    pub(super) fn restart(&mut self, pattern: String) {
        self.pattern = pattern.into();
        self.done.clone_from(&self.failed);
        self.place = None;
    }

    /// Returns the current page, or `None` after every server was scanned or has [failed](Self::failure). Repeated calls return the page
    /// until [`turn`](Self::turn) advances past it.
    pub(super) async fn page(&mut self) -> Option<Page> {
        while let Some(place) = self.place() {
            let server = place.server;
            let scanned = match self.scan(&place).await {
                Ok(Some(scanned)) => scanned,
                // The server has left the cluster, and its keys have moved to another server.
                Ok(None) => {
                    self.leave(server);
                    continue;
                }
                Err(error) => {
                    self.fail(server, error);
                    continue;
                }
            };
            if place.process.as_ref().is_some_and(|process| *process != scanned.process) {
                // A cursor is invalid on another process.
                self.place = Some(Place { server, cursor: 0, process: None });
                continue;
            }
            let next = scanned.next.map(|cursor| Place { server, cursor, process: Some(scanned.process) });
            return Some(Page { names: scanned.names, next, server });
        }
        None
    }

    /// Returns the first failure of a server. Call it after the last [page](Self::page).
    pub(super) fn failure(&self) -> Result<(), Error> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Advances past a completed page.
    pub(super) fn turn(&mut self, page: Page) {
        match page.next {
            Some(next) => self.place = Some(next),
            None => self.leave(page.server),
        }
    }

    /// Records that the keys of a server could not be read.
    pub(super) fn fail(&mut self, server: ServerId, error: Error) {
        self.failed.push(server);
        self.failure.get_or_insert(error);
        self.leave(server);
    }

    fn place(&mut self) -> Option<Place> {
        if self.place.is_none() {
            let server = self.handle.link.servers().into_iter().find(|server| !self.done.contains(server))?;
            self.place = Some(Place { server, cursor: 0, process: None });
        }
        self.place.clone()
    }

    fn leave(&mut self, server: ServerId) {
        self.done.push(server);
        self.place = None;
    }

    /// Reads a page, or `None` if the server no longer exists. This waits for a reconnect.
    async fn scan(&self, place: &Place) -> Result<Option<Scanned>, Error> {
        let handle = &self.handle;
        handle.check_process()?;
        let end = handle.clock.now() + handle.settings.session.command_timeout;
        let mut pause = Duration::from_millis(5);
        loop {
            let page = ScanPage { cursor: place.cursor, pattern: self.pattern.clone(), count: PAGE };
            let error = match handle.link.scan(place.server, page).await {
                Ok(page) => return Ok(Some(page)),
                Err(error) => error,
            };
            if !handle.link.servers().contains(&place.server) {
                return Ok(None);
            }
            let may_pass = !matches!(error, LinkError::Unknown(_)) && !error.is_lasting();
            if !may_pass || handle.clock.now() >= end || handle.with(|session, _| session.has_lost_all()) {
                return Err(Error::from_link(&self.label, &error).in_a_search(&self.label));
            }
            attempt::pause(handle, pause).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }
}
