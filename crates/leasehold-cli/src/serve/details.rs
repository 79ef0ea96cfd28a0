//! Inspects the locks with open pages, for all browsers together.

use crate::failure::Failure;
use crate::overview::Server;
use crate::people::People;
use crate::permits::find_holders;
use crate::seen::Seen;
use futures_util::future::join_all;
use leasehold::{Client, Error};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

/// Maximum number of concurrent inspections, as in a search.
const AT_ONCE: usize = 8;

/// The state of a lock at the last inspection.
#[derive(Clone)]
pub(super) struct Detail {
    pub(super) server: Server,
    pub(super) name: String,
    /// The state. `None` for a free lock, and before the first reply.
    pub(super) seen: Option<Arc<Seen>>,
    /// Whether the server has replied.
    pub(super) is_known: bool,
    /// The message about permits whose process is unknown.
    pub(super) unknown: Option<String>,
    /// The start of the inspection.
    pub(super) looked: Instant,
}

/// The locks with open pages.
#[derive(Default)]
pub(super) struct Details {
    open: Mutex<HashMap<String, Open>>,
    more: Notify,
}

struct Open {
    pages: usize,
    detail: watch::Sender<Option<Arc<Detail>>>,
}

/// An open page, until it is dropped.
pub(super) struct Followed {
    details: Arc<Details>,
    name: String,
    pub(super) detail: watch::Receiver<Option<Arc<Detail>>>,
}

impl Details {
    /// Inspects a lock until the result is dropped.
    pub(super) fn follow(self: &Arc<Self>, name: &str) -> Followed {
        let mut open = self.open();
        let entry = open.entry(name.to_owned()).or_insert_with(|| Open { pages: 0, detail: watch::Sender::new(None) });
        entry.pages += 1;
        let detail = entry.detail.subscribe();
        drop(open);
        self.more.notify_one();
        Followed { details: self.clone(), name: name.to_owned(), detail }
    }

    /// Inspects the locks of all open pages in a loop. Pauses for at least the duration of each pass.
    pub(super) async fn look_at_all(&self, client: &Client, prefix: &str, every: Duration) {
        loop {
            let begun = Instant::now();
            let names: Vec<String> = self.open().keys().cloned().collect();
            if names.is_empty() {
                self.more.notified().await;
                continue;
            }
            for some in names.chunks(AT_ONCE) {
                let looks = join_all(some.iter().map(|name| look(client, prefix, name))).await;
                for (name, look) in some.iter().zip(looks) {
                    self.share(name, look);
                }
            }
            // A new page ends the pause.
            let took = begun.elapsed();
            tokio::select! {
                () = sleep(every.saturating_sub(took).max(took)) => {}
                () = self.more.notified() => {}
            }
        }
    }

    fn share(&self, name: &str, look: Result<Detail, Error>) {
        if let Some(open) = self.open().get(name) {
            open.detail.send_modify(|detail| {
                let next = look.unwrap_or_else(|error| away(detail.as_deref(), name, &error));
                *detail = Some(Arc::new(next));
            });
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<String, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let mut open = self.details.open();
        if let Some(entry) = open.get_mut(&self.name) {
            entry.pages -= 1;
            if entry.pages == 0 {
                open.remove(&self.name);
            }
        }
    }
}

/// Inspects one lock.
///
/// # Errors
///
/// The name is invalid, or the server refuses or does not reply.
pub(super) async fn look(client: &Client, prefix: &str, name: &str) -> Result<Detail, Error> {
    let looked = Instant::now();
    let mut detail = Detail::empty(name, looked);
    detail.is_known = true;
    if let Some(state) = client.inspect(name).await? {
        let mut seen = Seen::new(state, &mut People::new(client)).await;
        detail.unknown = find_holders(client, &format!("{prefix}{name}"), &mut seen).await;
        detail.seen = Some(Arc::new(seen));
    }
    Ok(detail)
}

/// Returns the last state, marked with the outage.
pub(super) fn away(last: Option<&Detail>, name: &str, error: &Error) -> Detail {
    let last = last.cloned().unwrap_or_else(|| Detail::empty(name, Instant::now()));
    let since = if let Server::Away { since, .. } = last.server { since } else { Instant::now() };
    let why = Failure::of_a_look(error.clone()).to_string();
    Detail { server: Server::Away { since, why }, ..last }
}

impl Detail {
    pub(super) fn empty(name: &str, looked: Instant) -> Self {
        let name = name.to_owned();
        Self { server: Server::Answers, name, seen: None, is_known: false, unknown: None, looked }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_is_forgotten_with_its_last_page() {
        let details = Arc::new(Details::default());
        let (one, other) = (details.follow("stock"), details.follow("stock"));
        assert_eq!(details.open().len(), 1);
        drop(one);
        assert_eq!(details.open().len(), 1);
        drop(other);
        assert_eq!(details.open().len(), 0);
    }
}
