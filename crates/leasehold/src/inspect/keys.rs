//! The names of the keys of all servers, page by page.

use crate::attempt;
use crate::client_inner::Handle;
use crate::error::Error;
use bytes::Bytes;
use leasehold_core::link::{Link as _, LinkError};
use leasehold_core::scan::{ScanPage, Scanned, ServerId};
use std::sync::Arc;
use std::time::Duration;

/// How many keys a server looks at for one page. It takes less than half a millisecond.
const PAGE: u32 = 1024;

/// A way through the keys of all servers.
#[derive(Clone)]
pub(super) struct Keys {
    handle: Arc<Handle>,
    pattern: Bytes,
    /// What is looked for, in errors.
    label: String,
    /// The servers whose keys have been seen to the end.
    done: Vec<ServerId>,
    place: Option<Place>,
}

/// A place in the keys of a server.
#[derive(Clone)]
struct Place {
    server: ServerId,
    cursor: u64,
    /// The process whose keys these are, once it has answered.
    process: Option<String>,
}

/// A page of names, and the place behind it.
pub(super) struct Page {
    pub(super) names: Vec<Bytes>,
    next: Option<Place>,
    server: ServerId,
}

impl Keys {
    /// The names that fit a pattern, from the first server on.
    pub(super) fn new(handle: Arc<Handle>, pattern: String, label: &str) -> Self {
        Self { handle, pattern: Bytes::from(pattern), label: label.to_owned(), done: Vec::new(), place: None }
    }

    /// The page at the present place; `None` where every server has been seen. It comes again until the page is [turned](Self::turn).
    pub(super) async fn page(&mut self) -> Result<Option<Page>, Error> {
        while let Some(place) = self.place() {
            let server = place.server;
            let Some(scanned) = self.scan(&place).await? else {
                // Its keys are at another server of the cluster by now.
                self.leave(server);
                continue;
            };
            if place.process.as_ref().is_some_and(|process| *process != scanned.process) {
                // A place in the keys of one process says nothing to another.
                self.place = Some(Place { server, cursor: 0, process: None });
                continue;
            }
            let next = scanned.next.map(|cursor| Place { server, cursor, process: Some(scanned.process) });
            return Ok(Some(Page { names: scanned.names, next, server }));
        }
        Ok(None)
    }

    /// All of a page has been seen.
    pub(super) fn turn(&mut self, page: Page) {
        match page.next {
            Some(next) => self.place = Some(next),
            None => self.leave(page.server),
        }
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

    /// A page; `None` where the server has no keys any more. A connection that is being made anew is waited for.
    async fn scan(&self, place: &Place) -> Result<Option<Scanned>, Error> {
        let handle = &self.handle;
        let end = handle.clock.now() + handle.settings.command_timeout;
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
            if !may_pass || handle.clock.now() >= end || handle.with(|session, _| session.is_closed()) {
                return Err(Error::of_a_search(&self.label, &error));
            }
            attempt::pause(handle, pause).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }
}
