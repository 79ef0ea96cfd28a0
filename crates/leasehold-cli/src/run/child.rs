//! The command's process, and the process group that it leads.

use super::reaper::Reaper;
use super::terminal::Terminal;
use crate::ending::Ending;
use crate::shim::{self, Start};
use crate::signals;
use rustix::io::Errno;
use rustix::process::{self, Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus};
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use tokio::signal::unix::{self, SignalKind};
use tokio::sync::mpsc;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Exited(u8),
    Killed(i32),
}

/// A state change of the command's process, or of an orphan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A signal with this number has stopped the command.
    Stopped(i32),
    Ended(Ended),
    /// An orphan has ended, so the group may be empty.
    Orphan,
}

/// Which processes of a group received a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    /// All processes, or at least the processes of this user.
    Some,
    /// The group is empty.
    Nobody,
    /// None: another user owns all processes of the group.
    Forbidden,
}

/// The command's process.
pub(super) struct Child {
    group: Pid,
    has_ended: bool,
    changes: mpsc::UnboundedReceiver<Change>,
    /// Resets an inherited disposition of SIGCHLD that would discard exit codes.
    _reaps: Option<unix::Signal>,
}

impl Child {
    /// Starts the command in its own process group, in the foreground if this process is in the foreground. On Linux
    /// the kernel kills the command when the calling *thread* ends, so the caller must be the main thread. Orphans of
    /// the command become children of this process. This process reaps them, because zombies keep a group alive.
    ///
    /// # Errors
    ///
    /// The system cannot start a process or thread. A command that cannot be executed ends with 126 or 127.
    pub(super) fn start(
        reaper: &Reaper,
        command: &[OsString],
        environment: &[(&str, Option<OsString>)],
        terminal: &Terminal,
        unblocks: bool,
        json: bool,
    ) -> io::Result<Self> {
        adopt_orphans();
        let in_front = terminal.is_interactive();
        // A process whose parent ignores SIGCHLD leaves no exit code. The command must inherit an ignored SIGCHLD, but
        // this process must not ignore it. So the shim stops itself until this process listens for SIGCHLD.
        let stops = signals::is_ignored(Signal::CHILD);
        let mut shim = Command::new(shim::program()?);
        shim.args(shim::words(process::getpid(), Start { in_front, stops, unblocks, json }, command)).process_group(0);
        for (name, value) in environment {
            match value {
                Some(value) => shim.env(name, value),
                None => shim.env_remove(name),
            };
        }
        // The reaper must learn of the process before it reaps it.
        let mut reaping = reaper.pause();
        let id = shim.spawn().map_err(shim::not_started)?.id();
        let group = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
        if in_front {
            terminal.lend(group);
        }
        let reaps = if stops { Some(release(group)?) } else { None };
        let changes = reaping.watch(group)?;
        Ok(Self { group, has_ended: false, changes, _reaps: reaps })
    }

    pub(super) const fn group(&self) -> Pid {
        self.group
    }

    /// Waits for the next state change. Never completes after the end of the last child.
    pub(super) async fn changed(&mut self) -> Change {
        match self.changes.recv().await {
            Some(change) => {
                self.has_ended |= matches!(change, Change::Ended(_));
                change
            }
            None => std::future::pending().await,
        }
    }

    /// Returns whether the command has ended. [`changed`](Self::changed) may report the end a moment later.
    pub(super) fn is_over(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(process::waitid(WaitId::Pid(self.group), options), Ok(None))
    }

    /// Sends a signal to the command's process group, or to a command that has left the group.
    pub(super) fn signal(&self, signal: Signal) -> Reached {
        match reached(process::kill_process_group(self.group, signal)) {
            // The process id equals the group id. After the command's end, the kernel may reuse the id.
            Reached::Nobody if !self.has_ended => reached(process::kill_process(self.group, signal)),
            reached => reached,
        }
    }

    /// Returns which processes of the group remain.
    pub(super) fn left(&self) -> Reached {
        reached(process::test_kill_process_group(self.group))
    }
}

fn reached(result: rustix::io::Result<()>) -> Reached {
    match result {
        Ok(()) => Reached::Some,
        Err(Errno::PERM) => Reached::Forbidden,
        Err(_) => Reached::Nobody,
    }
}

/// Makes this process the parent of the command's orphans.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn adopt_orphans() {
    // If the kernel refuses, PID 1 inherits and reaps the orphans.
    let _ = process::set_child_subreaper(Some(process::getpid()));
}

/// On other systems PID 1 inherits the orphans.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn adopt_orphans() {}

/// Waits until the shim has stopped itself, listens for SIGCHLD, and resumes the shim.
fn release(shim: Pid) -> io::Result<unix::Signal> {
    // The exit code of a dead shim is lost. The reaper reports the loss.
    while let Err(Errno::INTR) | Ok(None) = process::waitpid(Some(shim), WaitOptions::UNTRACED) {}
    let listening = unix::signal(SignalKind::child())?;
    let _ = process::kill_process_group(shim, Signal::CONT);
    Ok(listening)
}

/// Converts a wait status.
pub(super) fn change(status: WaitStatus) -> Option<Change> {
    if let Some(signal) = status.stopping_signal() {
        return Some(Change::Stopped(signal));
    }
    if let Some(signal) = status.terminating_signal() {
        return Some(Change::Ended(Ended::Killed(signal)));
    }
    let code = status.exit_status()?;
    Some(Change::Ended(Ended::Exited(u8::try_from(code & 0xff).unwrap_or(u8::MAX))))
}

impl Ended {
    /// Returns the matching end of this process.
    pub(super) const fn passed_on(self, by_key: bool) -> Ending {
        match self {
            Self::Exited(code) => Ending::Code(code),
            Self::Killed(number) => Ending::Signal { number, of_group: by_key },
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exit code {code}"),
            Self::Killed(signal) => write!(f, "signal {signal}"),
        }
    }
}
