//! The command's process, and the process group that it leads.

use super::terminal::Terminal;
use crate::shim;
use rustix::process::{self, Pid, Signal, WaitOptions, WaitStatus};
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::thread;
use tokio::sync::mpsc;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Exited(u8),
    Killed(i32),
}

/// A change of the command's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A signal, by its number, has stopped it. It may go on.
    Stopped(i32),
    Ended(Ended),
}

/// The command's process.
pub(super) struct Child {
    group: Pid,
    changes: mpsc::UnboundedReceiver<Change>,
}

impl Child {
    /// Starts the command in a process group of its own, and in front of the terminal where this process is.
    ///
    /// On Linux the kernel kills it when the calling *thread* ends, so that must be the main thread.
    ///
    /// # Errors
    ///
    /// The system has no process or no thread to give. A command that cannot be executed is started all the same, and ends with 126 or 127.
    pub(super) fn start(
        command: &[OsString],
        environment: &[(&str, Option<OsString>)],
        terminal: &Terminal,
        json: bool,
    ) -> io::Result<Self> {
        let in_front = terminal.is_interactive();
        let mut shim = Command::new(shim::program()?);
        shim.args(shim::words(process::getpid(), in_front, json, command)).process_group(0);
        for (name, value) in environment {
            match value {
                Some(value) => shim.env(name, value),
                None => shim.env_remove(name),
            };
        }
        let id = shim.spawn()?.id();
        let group = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
        if in_front {
            terminal.lend(group);
        }
        let (told, changes) = mpsc::unbounded_channel();
        thread::Builder::new().name("child".to_owned()).spawn(move || watch(group, &told))?;
        Ok(Self { group, changes })
    }

    pub(super) const fn group(&self) -> Pid {
        self.group
    }

    /// The next change of the command's process. After its end this never completes.
    pub(super) async fn changed(&mut self) -> Change {
        match self.changes.recv().await {
            Some(change) => change,
            None => std::future::pending().await,
        }
    }

    /// Sends a signal to the command's process group. A group that is gone needs none.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = process::kill_process_group(self.group, signal);
    }

    /// Whether the group has processes left.
    pub(super) fn has_processes(&self) -> bool {
        process::test_kill_process_group(self.group).is_ok()
    }
}

/// Tells every change of a process to the end.
fn watch(child: Pid, told: &mpsc::UnboundedSender<Change>) {
    loop {
        let change = match process::waitpid(Some(child), WaitOptions::UNTRACED) {
            Ok(Some((_, status))) => change(status),
            Ok(None) | Err(rustix::io::Errno::INTR) => None,
            // The process is none of ours any more, which only a bug can bring about.
            Err(_) => Some(Change::Ended(Ended::Killed(Signal::KILL.as_raw()))),
        };
        let Some(change) = change else { continue };
        if told.send(change).is_err() || matches!(change, Change::Ended(_)) {
            return;
        }
    }
}

fn change(status: WaitStatus) -> Option<Change> {
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
    /// The exit code that a shell writes for it.
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Exited(code) => code,
            Self::Killed(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
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
