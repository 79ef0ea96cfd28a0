//! Looks at the locks with open pages, shared by all browsers.

use crate::failure::Failure;
use crate::inspect::{headline, lines};
use crate::overview::Server;
use crate::people::People;
use crate::seen::Seen;
use futures_util::future::join_all;
use leasehold::inspect::FoundKind;
use leasehold::{Client, Error};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

/// Maximum number of concurrent inspections, as in a search.
const AT_ONCE: usize = 8;

/// The state of a lock at the last look.
#[derive(Clone, Debug)]
pub(super) struct Detail {
    pub(super) server: Server,
    /// The name, its state and its kind.
    pub(super) headline: String,
    pub(super) lines: Vec<(&'static str, String)>,
    /// The ids and texts of the holders that the page can free.
    pub(super) holders: Vec<(String, String)>,
}

/// The locks with open pages.
#[derive(Debug, Default)]
pub(super) struct Details {
    open: Mutex<HashMap<String, Open>>,
    more: Notify,
}

#[derive(Debug)]
struct Open {
    pages: usize,
    detail: watch::Sender<Option<Arc<Detail>>>,
}

/// An open page, until it is dropped.
#[derive(Debug)]
pub(super) struct Followed {
    details: Arc<Details>,
    name: String,
    pub(super) detail: watch::Receiver<Option<Arc<Detail>>>,
}

impl Details {
    /// Looks at a lock until the result is dropped.
    pub(super) fn follow(self: &Arc<Self>, name: &str) -> Followed {
        let mut open = self.open();
        let entry = open.entry(name.to_owned()).or_insert_with(|| Open { pages: 0, detail: watch::Sender::new(None) });
        entry.pages += 1;
        let detail = entry.detail.subscribe();
        drop(open);
        self.more.notify_one();
        Followed { details: self.clone(), name: name.to_owned(), detail }
    }

    /// Looks at the locks of all open pages in a loop.
    pub(super) async fn look_at_all(&self, client: &Client, every: Duration) {
        loop {
            let names: Vec<String> = self.open().keys().cloned().collect();
            if names.is_empty() {
                self.more.notified().await;
                continue;
            }
            for some in names.chunks(AT_ONCE) {
                let looks = join_all(some.iter().map(|name| look(client, name))).await;
                for (name, look) in some.iter().zip(looks) {
                    self.share(name, look);
                }
            }
            // A new page does not wait.
            tokio::select! {
                () = sleep(every) => {}
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

/// Looks at one lock.
///
/// # Errors
///
/// The name is invalid, or the server refuses or does not answer.
pub(super) async fn look(client: &Client, name: &str) -> Result<Detail, Error> {
    let free = || Detail { headline: format!("{name}: free"), ..Detail::empty() };
    let Some(state) = client.inspect(name).await? else { return Ok(free()) };
    let can_be_freed = !matches!(state.kind, FoundKind::Semaphore | FoundKind::Counter | FoundKind::Foreign);
    let seen = Seen::new(state, &mut People::new(client)).await;
    let holders = seen.holds.iter().filter(|_| can_be_freed);
    let holders = holders.map(|hold| (hold.holder.id.to_string(), hold.as_text()));
    Ok(Detail { headline: headline(&seen), lines: lines(&seen), holders: holders.collect(), ..Detail::empty() })
}

/// The last state, marked with the outage.
pub(super) fn away(last: Option<&Detail>, name: &str, error: &Error) -> Detail {
    let last = last.cloned().unwrap_or_else(|| Detail { headline: name.to_owned(), ..Detail::empty() });
    let since = if let Server::Away { since, .. } = last.server { since } else { Instant::now() };
    let why = Failure::of_a_look(error.clone()).to_string();
    Detail { server: Server::Away { since, why }, ..last }
}

impl Detail {
    const fn empty() -> Self {
        Self { server: Server::Answers, headline: String::new(), lines: Vec::new(), holders: Vec::new() }
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
