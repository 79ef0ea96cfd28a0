//! The search for locks whose names match a pattern.

use super::keys::Keys;
use super::state::{FoundKind, LockProblem, LockState, look_at};
use crate::client::Client;
use crate::client::inner::Handle;
use crate::error::{Error, InvalidInput};
use crate::lock::spec::LockSpec;
use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::stream;
use futures_util::{Stream, StreamExt as _};
use leasehold_core::command::Kind;
use leasehold_core::glob;
use leasehold_core::name::NameError;
use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;

/// The number of inspections in flight. A server processes the commands of one connection in sequence, so this limits the delay of other
/// clients: an inspection takes about twenty microseconds. Each reply starts the next inspection, so neither side idles.
const AT_ONCE: usize = 32;

/// The maximum number of listed holders and waiters of a lock.
const LISTED: u32 = 16;

/// The prefix of the queue of a fair lock.
const QUEUE: &str = "redisson_lock_queue:";

impl Client {
    /// Lists the locks on the server, or on all primaries of a cluster, whose names match `pattern`: held locks, and free locks with waiters in a
    /// queue. Other free locks have no key, so the search does not find them.
    ///
    /// In the pattern, `*` matches any text, `?` matches one byte, and `[abc]`, `[a-z]` and `[^a]` match one byte of a
    /// set; a backslash escapes the next byte. The pattern applies to names without the client's prefix, and names with
    /// other prefixes are not found. Keys that belong to a lock, such as its queue, are not listed.
    ///
    /// The search consists of many short commands (`SCAN`, and a script for each matching key), which never block the server for long. It keeps one
    /// page of names in memory. It finds every lock that exists throughout the search, and may miss locks that appear or end during the search. It
    /// may find a lock twice if the server reorganises its keys or the connection is lost.
    ///
    /// The user of the client needs the rights of the block `locks` in [docs/security.md](https://github.com/leasehold/leasehold/blob/main/docs/security.md).
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let client = leasehold::Client::embedded();
    /// let guard = client.lock("stock:1001").acquire().await?;
    /// let mut locks = client.locks("stock:*");
    /// while let Some(found) = locks.next().await {
    ///     let lock = found?;
    ///     println!("{} is a {} with {} holders", lock.name, lock.kind, lock.held);
    /// #   assert_eq!((lock.name.as_str(), lock.held), ("stock:1001", 1));
    /// }
    /// # guard.release().await?;
    /// # Ok::<(), leasehold::Error>(()) }).unwrap();
    /// ```
    pub fn locks(&self, pattern: impl AsRef<str>) -> Locks {
        let (handle, pattern) = (self.handle().clone(), pattern.as_ref().to_owned());
        let names = format!("{}{pattern}", glob::escaped(&handle.settings.prefix));
        Locks {
            keys: Keys::new(handle.clone(), names, &pattern),
            handle,
            pattern,
            with_foreign: false,
            wants: Box::new(|_| true),
            in_queues: false,
            found: VecDeque::new(),
            unseen: 0,
            refusal: None,
            is_over: false,
        }
    }
}

/// A search for locks, from [`Client::locks`]. It sends nothing before the first call of `next`.
#[must_use = "a search does nothing until `next` is called"]
pub struct Locks {
    handle: Arc<Handle>,
    pattern: String,
    with_foreign: bool,
    /// Selects the names to inspect.
    wants: Box<dyn Fn(&str) -> bool + Send + Sync>,
    keys: Keys,
    /// Whether the pass over the keys is complete. Then the search scans the queues: a free fair lock with waiters has no other key.
    in_queues: bool,
    /// The unread part of the page.
    found: VecDeque<LockState>,
    /// The number of names that the client's user may not inspect.
    unseen: u64,
    refusal: Option<String>,
    is_over: bool,
}

impl Locks {
    /// Also finds keys that are not locks, as [`FoundKind::Foreign`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use leasehold::inspect::FoundKind;
    /// # use leasehold::embedded::EmbeddedServer;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let server = EmbeddedServer::new();
    /// let client = leasehold::Client::builder().embedded(&server)?;
    /// server.command(&[b"RPUSH", b"stock", b"1"])?;
    /// assert!(client.locks("*").next().await.is_none());
    /// let found = client.locks("*").with_foreign().next().await.expect("a key")?;
    /// assert_eq!(found.kind, FoundKind::Foreign);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn with_foreign(mut self) -> Self {
        self.with_foreign = true;
        self
    }

    /// Inspects only names for which `wants` returns `true`. The search still reads the names of all keys, which is cheap compared with an
    /// inspection. A repeated search can skip known names. `wants` receives each matching name without the client's prefix, and must not block.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let client = leasehold::Client::embedded();
    /// let known = client.lock("stock:1001").acquire().await?;
    /// let new = client.lock("stock:1002").acquire().await?;
    /// let mut locks = client.locks("stock:*").only(|name| name != "stock:1001");
    /// assert_eq!(locks.next().await.expect("a lock")?.name, "stock:1002");
    /// assert!(locks.next().await.is_none());
    /// # known.release().await?;
    /// # new.release().await?;
    /// # Ok::<(), leasehold::Error>(()) }).unwrap();
    /// ```
    pub fn only(mut self, wants: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.wants = Box::new(wants);
        self
    }

    /// Returns the next lock, or `None` after the last lock and after an error.
    ///
    /// # Errors
    ///
    /// [`Error::SearchFailed`] if a server did not reply within the command timeout, or refused. The search returns the error last, after the locks of the
    /// other nodes of a cluster. A key that the client's user may not inspect is not an error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future skips no lock: the next call reads the current page again.
    pub async fn next(&mut self) -> Option<Result<LockState, Error>> {
        loop {
            if let Some(found) = self.found.pop_front() {
                return Some(Ok(found));
            }
            if self.is_over {
                return None;
            }
            if let Err(error) = self.turn_page().await {
                self.is_over = true;
                return Some(Err(error.in_a_search(&self.pattern)));
            }
        }
    }

    /// Returns the locks as a [`Stream`], for the combinators of the crate `futures`. The stream reads the next page only when it is polled
    /// after the last lock of a page, so the consumer sets the pace.
    ///
    /// # Cancel safety
    ///
    /// Dropping the stream ends the search. Dropping the future of `next` loses no lock.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures_util::TryStreamExt as _;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let client = leasehold::Client::embedded();
    /// let guard = client.lock("stock:1001").acquire().await?;
    /// let names: Vec<_> = client.locks("stock:*").into_stream().map_ok(|lock| lock.name).try_collect().await?;
    /// assert_eq!(names, ["stock:1001"]);
    /// # guard.release().await?;
    /// # Ok::<(), leasehold::Error>(()) }).unwrap();
    /// ```
    pub fn into_stream(self) -> impl Stream<Item = Result<LockState, Error>> + Send + Unpin + 'static {
        // Boxed, which makes the stream `Unpin`. An allocation is cheap beside the round trips of a search.
        Box::pin(stream::unfold(self, async |mut locks| Some((locks.next().await?, locks))))
    }

    /// Returns the number of names that the client's user may not inspect, some of which may be locks.
    /// [`with_foreign`](Self::with_foreign) includes them, with [`LockProblem::NotSeen`](crate::inspect::LockProblem::NotSeen).
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let client = leasehold::Client::embedded();
    /// let mut locks = client.locks("stock:*");
    /// while let Some(found) = locks.next().await {
    ///     println!("{}", found?.name);
    /// }
    /// if let Some(refusal) = locks.refusal() {
    ///     println!("{} names could not be inspected: {refusal}", locks.unseen());
    /// }
    /// # assert_eq!(locks.unseen(), 0);
    /// # Ok::<(), leasehold::Error>(()) }).unwrap();
    /// ```
    pub const fn unseen(&self) -> u64 {
        self.unseen
    }

    /// Returns the server's last refusal of an inspection, or `None` without a refusal. See [`unseen`](Self::unseen).
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Inspects a page, and then advances past it, because the future may be dropped during the inspection.
    async fn turn_page(&mut self) -> Result<(), Error> {
        let Some(page) = self.keys.page().await else {
            self.is_over = self.in_queues;
            if self.is_over {
                return self.keys.failure();
            }
            self.in_queues = true;
            // The name in the key has braces around it, or contains braces.
            self.keys.restart(format!("{QUEUE}*{}{}*", glob::escaped(&self.handle.settings.prefix), self.pattern));
            return Ok(());
        };
        let names: HashSet<&Bytes> = page.names.iter().collect();
        let looked = if self.in_queues { self.look_at_queues(names).await } else { self.look_at_keys(names).await };
        let found = match looked {
            Ok(found) => found,
            Err(error) => {
                self.keys.fail(page.server, error);
                return Ok(());
            }
        };
        self.keys.turn(page);
        for state in found {
            if let Some(refusal) = state.refusal() {
                self.unseen += 1;
                self.refusal = Some(refusal.to_owned());
            }
            if self.with_foreign || state.kind != FoundKind::Foreign {
                self.found.push_back(state);
            }
        }
        Ok(())
    }

    /// Inspects keys of locks.
    async fn look_at_keys(&self, names: HashSet<&Bytes>) -> Result<Vec<LockState>, Error> {
        let prefix = &self.handle.settings.prefix;
        let (mut found, mut specs) = (Vec::new(), Vec::new());
        for key in names {
            let name = std::str::from_utf8(key).ok().and_then(|key| key.strip_prefix(prefix.as_str()));
            let Some(name) = name else {
                let name = String::from_utf8_lossy(key).into_owned();
                found.push(LockState::foreign(name, LockProblem::NotALock { what: "the key is no text".to_owned() }));
                continue;
            };
            if !(self.wants)(name) {
                continue;
            }
            let spec = self.spec(name);
            match spec.checked_name() {
                // Keys that belong to a lock are found with the lock.
                Err(InvalidInput::Name(NameError::Reserved { .. })) => {}
                Err(why) => {
                    let problem = LockProblem::NotALock { what: why.to_string() };
                    found.push(LockState::foreign(name.to_owned(), problem));
                }
                Ok(_) => specs.push(spec),
            }
        }
        let mut looks = stream::iter(specs.iter().map(look)).buffer_unordered(AT_ONCE);
        while let Some(state) = looks.next().await {
            found.extend(state?);
        }
        drop(looks);
        Ok(found)
    }

    /// Inspects the free fair locks of the queues on a page.
    async fn look_at_queues(&self, names: HashSet<&Bytes>) -> Result<Vec<LockState>, Error> {
        let mut found = Vec::new();
        for queue in names {
            // Inspect both names if the filter accepts either: only the inspection reveals the held lock.
            let specs = self.locks_of_queue(queue);
            if !specs.iter().any(|spec| (self.wants)(spec.name())) {
                continue;
            }
            let states = join_all(specs.iter().map(look)).await;
            let states = states.into_iter().collect::<Result<Vec<_>, _>>()?;
            // The other pass finds a lock with its own key.
            let is_held = states.iter().flatten().any(|state| state.held > 0 || state.kind == FoundKind::Foreign);
            let free = states.into_iter().flatten().find(|state| state.waiters.is_some_and(|waiters| waiters > 0));
            found.extend(free.filter(|state| !is_held && (self.wants)(&state.name)));
        }
        Ok(found)
    }

    /// Returns the locks that may own a queue of this name: `a` and `{a}` share a queue.
    fn locks_of_queue(&self, queue: &[u8]) -> Vec<LockSpec> {
        let Some(raw) = std::str::from_utf8(queue).ok().and_then(|queue| queue.strip_prefix(QUEUE)) else {
            return Vec::new();
        };
        let inner = raw.strip_prefix('{').and_then(|raw| raw.strip_suffix('}')).filter(|inner| !inner.contains('{'));
        let names = inner.into_iter().chain(Some(raw).filter(|raw| raw.contains('{')));
        let names = names.filter_map(|name| name.strip_prefix(self.handle.settings.prefix.as_str()));
        let names = names.filter(|name| glob::matches(self.pattern.as_bytes(), name.as_bytes()));
        names.map(|name| self.spec(name)).filter(|spec| spec.checked_name().is_ok()).collect()
    }

    fn spec(&self, name: &str) -> LockSpec {
        LockSpec::found(self.handle.clone(), Kind::Lock, name)
    }
}

/// Inspects a found name. The key may be gone, and a refusal is not an error of the search.
async fn look(spec: &LockSpec) -> Result<Option<LockState>, Error> {
    match look_at(spec, spec.checked_name()?, LISTED).await {
        Ok(state) => Ok(state.filter(|state| {
            // A register of fencing tokens alone is not a lock.
            state.held > 0 || state.available.is_some() || !state.queue.is_empty() || state.kind == FoundKind::Foreign
        })),
        Err(Error::Refused { refusal, .. }) if !refusal.is_transient() => {
            let problem = LockProblem::NotSeen { refusal: refusal.text().to_owned() };
            Ok(Some(LockState::foreign(spec.name().to_owned(), problem)))
        }
        Err(error) => Err(error),
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks").field("pattern", &self.pattern).finish_non_exhaustive()
    }
}
