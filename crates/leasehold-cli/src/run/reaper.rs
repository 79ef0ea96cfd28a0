//! Reaps the children of this process: the command, and orphans of the command.

use super::child::{Change, Ended, change};
use rustix::io::Errno;
use rustix::process::{self, Pid, Signal, WaitOptions};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use tokio::sync::mpsc;

/// The thread that reaps. It lives as long as this process, because an orphan of one command may outlive several commands.
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
    /// `None` after its end: another process may get its pid.
    command: Option<Pid>,
    told: Option<mpsc::UnboundedSender<Change>>,
}

/// A pause of the reaper, during which a command may start.
pub(super) struct Paused<'a> {
    reaper: &'a Reaper,
    watched: MutexGuard<'a, Watched>,
}

impl Reaper {
    /// Delays the reports of the reaper until the result is dropped.
    pub(super) fn pause(&self) -> Paused<'_> {
        Paused { reaper: self, watched: self.shared.watched() }
    }
}

impl Paused<'_> {
    /// Reports the changes of this command from now on.
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
                // No child is left. The command's end was reported, unless other code in this process has reaped it.
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
            // The group of the command may be empty now.
            Some(Change::Ended(_)) => self.tell(Change::Orphan),
            _ => {}
        }
    }

    fn tell(&mut self, change: Change) {
        if matches!(change, Change::Ended(_)) {
            self.command = None;
        }
        // Without a receiver nobody needs the change.
        let _ = self.told.as_ref().map(|told| told.send(change));
    }
}
