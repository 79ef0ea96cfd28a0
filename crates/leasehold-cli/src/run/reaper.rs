//! Reaps the children of this process: the command and its orphans.

use super::child::{Change, Ended, change};
use rustix::io::Errno;
use rustix::process::{self, Pid, Signal, WaitOptions};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use tokio::sync::mpsc;

/// The reaping thread. It never ends, because an orphan may outlive several commands.
#[derive(Default)]
pub(super) struct Reaper {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    watched: Mutex<Watched>,
    started: Condvar,
}

/// The current command.
#[derive(Default)]
struct Watched {
    runs: bool,
    /// The number of commands so far.
    commands: u64,
    /// `None` after the command's end, because the kernel may reuse the pid.
    command: Option<Pid>,
    told: Option<mpsc::UnboundedSender<Change>>,
}

/// A pause of the reaper, in which a command can start.
pub(super) struct Paused<'a> {
    reaper: &'a Reaper,
    watched: MutexGuard<'a, Watched>,
}

impl Reaper {
    /// Delays the reaper's reports until the result is dropped.
    pub(super) fn pause(&self) -> Paused<'_> {
        Paused { reaper: self, watched: self.shared.watched() }
    }
}

impl Paused<'_> {
    /// Starts reporting the changes of this command.
    ///
    /// # Errors
    ///
    /// The system cannot start a thread.
    pub(super) fn watch(&mut self, command: Pid) -> io::Result<mpsc::UnboundedReceiver<Change>> {
        let (told, changes) = mpsc::unbounded_channel();
        if !self.watched.runs {
            let shared = self.reaper.shared.clone();
            thread::Builder::new().name("child".to_owned()).spawn(move || shared.reap())?;
            self.watched.runs = true;
        }
        self.watched.commands += 1;
        (self.watched.command, self.watched.told) = (Some(command), Some(told));
        self.reaper.shared.started.notify_one();
        Ok(changes)
    }
}

impl Shared {
    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reaps every child, and reports each state change of the command's process.
    fn reap(&self) {
        loop {
            let before = self.watched().commands;
            let waited = process::wait(WaitOptions::UNTRACED);
            let mut watched = self.watched();
            match waited {
                Ok(Some((pid, status))) => watched.saw(pid, change(status)),
                Ok(None) | Err(Errno::INTR) => {}
                // A command started after the call.
                Err(_) if watched.commands != before => {}
                // No child remains. The end of the command was reported, unless other code reaped the command.
                Err(_) => {
                    if watched.command.is_some() {
                        watched.tell(Change::Ended(Ended::Killed(Signal::KILL.as_raw())));
                    }
                    let next = |watched: &mut Watched| watched.commands == before;
                    drop(self.started.wait_while(watched, next).unwrap_or_else(PoisonError::into_inner));
                }
            }
        }
    }
}

impl Watched {
    fn saw(&mut self, pid: Pid, change: Option<Change>) {
        match change {
            Some(change) if self.command == Some(pid) => self.tell(change),
            // The command's group may be empty now.
            Some(Change::Ended(_)) => self.tell(Change::Orphan),
            _ => {}
        }
    }

    fn tell(&mut self, change: Change) {
        if matches!(change, Change::Ended(_)) {
            self.command = None;
        }
        // The receiver may be gone.
        let _ = self.told.as_ref().map(|told| told.send(change));
    }
}
