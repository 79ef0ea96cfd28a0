//! The terminal and its foreground process group. The command has its own process group, which lets signals reach its
//! grandchildren. Only the foreground group can read the terminal and receives Ctrl-C and Ctrl-Z. So `run` moves the
//! command's group to the foreground, as a shell does.

use crate::failure::{Exit, Failure};
use nix::sys::signal::{SigSet, SigmaskHow, Signal as Number};
use rustix::process::{Pid, getpgrp};
use rustix::termios::{isatty, tcgetpgrp, tcsetpgrp};
use std::fs::OpenOptions;
use std::io::{stderr, stdin, stdout};
use std::os::fd::{AsFd as _, OwnedFd};

/// Returns the controlling terminal of this process, if any.
pub(crate) struct Terminal {
    device: Option<OwnedFd>,
    interactive: bool,
}

/// Blocks SIGTTOU for this thread and its new threads. Otherwise the kernel would stop this process when it reclaims
/// the terminal. Returns whether the command must unblock SIGTTOU.
///
/// # Errors
///
/// The system call fails, which should not happen.
pub(super) fn allow_changes() -> Result<bool, Failure> {
    let before = changes().thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let before = before.map_err(|error| Failure::new(Exit::Other, format!("cannot block a signal: {error}")))?;
    Ok(!before.contains(Number::SIGTTOU))
}

/// Undoes an inherited [`allow_changes`].
pub(crate) fn forbid_changes() {
    // After an error, SIGTTOU just stays blocked.
    let _ = changes().thread_unblock();
}

fn changes() -> SigSet {
    let mut set = SigSet::empty();
    set.add(Number::SIGTTOU);
    set
}

impl Terminal {
    /// Opens `/dev/tty`, because a program may use the terminal although its streams are files and pipes. Without
    /// `/dev/tty`, as in a small container, uses the streams.
    pub(crate) fn of_this_process() -> Self {
        let tty = OpenOptions::new().read(true).write(true).open("/dev/tty").ok().map(OwnedFd::from);
        let streams = [stdin().as_fd().try_clone_to_owned(), stdout().as_fd().try_clone_to_owned()];
        let streams = streams.into_iter().chain([stderr().as_fd().try_clone_to_owned()]).flatten();
        let device = tty.into_iter().chain(streams).find(|device| tcgetpgrp(device).is_ok());
        let is_in_front = device.as_ref().is_some_and(|device| tcgetpgrp(device) == Ok(getpgrp()));
        // In a pipeline, another program may own the terminal, such as a pager after the command.
        Self { device, interactive: is_in_front && isatty(stdin()) && isatty(stdout()) }
    }

    /// Returns whether the command starts in the foreground.
    pub(super) const fn is_interactive(&self) -> bool {
        self.interactive
    }

    /// Returns the foreground process group.
    pub(crate) fn front(&self) -> Option<Pid> {
        tcgetpgrp(self.device.as_ref()?).ok()
    }

    /// Moves a group to the foreground, if this process's group is in the foreground. Returns whether the group is in
    /// the foreground afterwards.
    pub(super) fn lend(&self, to: Pid) -> bool {
        let Some(device) = &self.device else { return false };
        match self.front() {
            Some(front) if front == getpgrp() => tcsetpgrp(device, to).is_ok(),
            front => front == Some(to),
        }
    }

    /// Moves this process's group to the foreground, if `from` is in the foreground.
    pub(super) fn take_back(&self, from: Pid) {
        if let (Some(device), true) = (&self.device, self.front() == Some(from)) {
            let _ = tcsetpgrp(device, getpgrp());
        }
    }
}
