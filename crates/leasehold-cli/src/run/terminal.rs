//! The terminal, and which process group is in front of it.
//!
//! The command has a process group of its own, so that its grandchildren can be reached. A terminal lets only the group in front read, and
//! sends it the keys that interrupt and stop. So the command's group is put in front while it runs, as a shell with job control does it.

use crate::failure::{Exit, Failure};
use nix::sys::signal::{SigSet, Signal as Number};
use rustix::process::{Pid, getpgrp};
use rustix::termios::{isatty, tcgetpgrp, tcsetpgrp};
use std::io::{stdin, stdout};

/// The terminal at stdin, if there is one.
pub(super) struct Terminal {
    present: bool,
    interactive: bool,
}

/// Lets this process, and every thread that it starts from now on, change the terminal from behind. Otherwise the kernel would stop it for
/// taking the terminal back from the command.
///
/// # Errors
///
/// The system refuses, which it has no reason to.
pub(super) fn allow_changes() -> Result<(), Failure> {
    let mut set = SigSet::empty();
    set.add(Number::SIGTTOU);
    set.thread_block().map_err(|error| Failure::new(Exit::Other, format!("a signal cannot be blocked: {error}")))
}

impl Terminal {
    pub(super) fn of_this_process() -> Self {
        let present = isatty(stdin());
        // In a pipeline the terminal may belong to a program behind, such as a pager.
        let interactive = present && isatty(stdout()) && tcgetpgrp(stdin()) == Ok(getpgrp());
        Self { present, interactive }
    }

    /// Whether the command is to be put in front from its start.
    pub(super) const fn is_interactive(&self) -> bool {
        self.interactive
    }

    /// Puts a group in front, if this process's own group is. Says whether it did.
    pub(super) fn lend(&self, to: Pid) -> bool {
        self.present && tcgetpgrp(stdin()) == Ok(getpgrp()) && tcsetpgrp(stdin(), to).is_ok()
    }

    /// Puts this process's own group in front again, if `from` is.
    pub(super) fn take_back(&self, from: Pid) {
        if self.present && tcgetpgrp(stdin()) == Ok(from) {
            let _ = tcsetpgrp(stdin(), getpgrp());
        }
    }
}
