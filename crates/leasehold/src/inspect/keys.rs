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
    /// Those of them that did not answer, or refused, and how the first one did. The others are seen all the same.
    failed: Vec<ServerId>,
    failure: Option<Error>,
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
        let (pattern, label) = (Bytes::from(pattern), label.to_owned());
        Self { handle, pattern, label, done: Vec::new(), failed: Vec::new(), failure: None, place: None }
    }

    /// The names that fit another pattern, from the first server on that has not failed so far.
    pub(super) fn again(&self, pattern: String) -> Self {
        let (done, failed) = (self.failed.clone(), self.failed.clone());
        Self { pattern: Bytes::from(pattern), done, failed, place: None, ..self.clone() }
    }

    /// The page at the present place; `None` where every server has been seen, or has [failed](Self::failure). It comes again until the page is
    /// [turned](Self::turn).
    pub(super) async fn page(&mut self) -> Option<Page> {
        while let Some(place) = self.place() {
            let server = place.server;
            let scanned = match self.scan(&place).await {
                Ok(Some(scanned)) => scanned,
                // Its keys are at another server of the cluster by now.
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
                // A place in the keys of one process says nothing to another.
                self.place = Some(Place { server, cursor: 0, process: None });
                continue;
            }
            let next = scanned.next.map(|cursor| Place { server, cursor, process: Some(scanned.process) });
            return Some(Page { names: scanned.names, next, server });
        }
        None
    }

    /// How the first server failed that did. It counts where the [pages](Self::page) are at their end.
    pub(super) fn failure(&self) -> Result<(), Error> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// All of a page has been seen.
    pub(super) fn turn(&mut self, page: Page) {
        match page.next {
            Some(next) => self.place = Some(next),
            None => self.leave(page.server),
        }
    }

    /// What stands under the names of a page is not known, because of this error.
    pub(super) fn fail_page(&mut self, page: &Page, error: Error) {
        self.fail(page.server, error);
    }

    fn fail(&mut self, server: ServerId, error: Error) {
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

    /// A page; `None` where the server has no keys any more. A connection that is being made anew is waited for.
    async fn scan(&self, place: &Place) -> Result<Option<Scanned>, Error> {
        let handle = &self.handle;
        handle.check_process()?;
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
            if !may_pass || handle.clock.now() >= end || handle.with(|session, _| session.has_lost_all()) {
                return Err(Error::of_a_search(&self.label, &error));
            }
            attempt::pause(handle, pause).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }
}
