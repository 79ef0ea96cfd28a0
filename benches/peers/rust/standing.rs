//! The work that stands while the server and others are measured: locks that are held, and tasks that wait.

use crate::library::Library;
use crate::process::{processor_time, resident};
use crate::work::{Figures, nanos};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The tasks that fill a process with locks.
const FILLERS: usize = 64;

/// The longest time that waiters have until they are taken to wait.
const SETTLED: Duration = Duration::from_secs(20);

/// The locks and waiters that stand until the process is ended.
pub(crate) struct Standing<'l, L: Library> {
    library: &'l L,
    held: Vec<L::Held>,
    grants: Arc<AtomicU64>,
}

impl<'l, L: Library> Standing<'l, L> {
    pub(crate) fn new(library: &'l L) -> Self {
        Self { library, held: Vec::new(), grants: Arc::default() }
    }

    /// Holds so many locks, each of its own name.
    pub(crate) async fn hold(&mut self, name: &str, count: usize) -> Figures {
        self.held.reserve(count);
        let before = resident();
        let mut tasks = Vec::new();
        for task in 0..FILLERS {
            let library = self.library.clone();
            let name = name.to_owned();
            tasks.push(tokio::spawn(async move {
                let mut held = Vec::with_capacity(count / FILLERS + 1);
                for number in (task..count).step_by(FILLERS) {
                    held.push(L::acquire(&library.lock(&format!("{name}:{number}"))).await);
                }
                held
            }));
        }
        for task in tasks {
            self.held.extend(task.await.expect("a task"));
        }
        vec![("bytes", resident().saturating_sub(before))]
    }

    /// Has so many tasks wait for one name, which another client holds.
    pub(crate) async fn wait(&mut self, name: &str, count: usize) -> Figures {
        self.held.push(L::acquire(&self.library.another().await.lock(name)).await);
        let before = resident();
        self.line_up(name, count).await;
        vec![("bytes", resident().saturating_sub(before))]
    }

    /// Has so many tasks wait for one name, which this client holds until [`Standing::go`].
    pub(crate) async fn queue(&mut self, name: &str, count: usize) -> Figures {
        self.held.push(L::acquire(&self.library.lock(name)).await);
        self.line_up(name, count).await;
        Vec::new()
    }

    /// Each task that is granted the lock releases it and stands in line again.
    async fn line_up(&self, name: &str, count: usize) {
        let started = Arc::new(AtomicUsize::new(0));
        for _ in 0..count {
            let (lock, grants, started) = (self.library.lock(name), self.grants.clone(), started.clone());
            tokio::spawn(async move {
                started.fetch_add(1, Ordering::Relaxed);
                loop {
                    let held = L::acquire(&lock).await;
                    grants.fetch_add(1, Ordering::Relaxed);
                    L::release(held).await;
                }
            });
        }
        // A library does not tell when its waiter waits, but then it takes no more memory.
        let begun = Instant::now();
        let mut seen = 0;
        while started.load(Ordering::Relaxed) < count || (seen != resident() && begun.elapsed() < SETTLED) {
            seen = resident();
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }

    /// Lets the first waiter have the lock.
    pub(crate) async fn go(&mut self) -> Figures {
        for held in self.held.drain(..) {
            L::release(held).await;
        }
        Vec::new()
    }

    /// The grants so far, and the processor time.
    pub(crate) fn count(&self) -> Figures {
        vec![("grants", self.grants.load(Ordering::Relaxed)), ("cpu", nanos(processor_time()))]
    }
}
