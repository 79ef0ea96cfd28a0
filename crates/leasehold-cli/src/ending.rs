//! The end of this process: by an exit code, or by the signal by which its work ended.
//!
//! A shell that runs a loop asks how its command died: after the interrupt key it ends the loop only if the command died by that signal.

use rustix::process::{self, Pid, Resource, Rlimit, Signal};
use std::process::ExitCode;

/// How this process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Code(u8),
    Signal {
        number: i32,
        /// The key of a terminal has sent it to the command's group alone, and the group of this process gets it too: the script around
        /// this process would have got it.
        of_group: bool,
    },
}

impl From<u8> for Ending {
    fn from(code: u8) -> Self {
        Self::Code(code)
    }
}

impl Ending {
    /// By a signal that this process has received.
    pub(crate) const fn by(signal: Signal) -> Self {
        Self::Signal { number: signal.as_raw(), of_group: false }
    }

    /// Ends this process by the signal. Where that is not possible, the result is the exit code that a shell writes for it.
    pub(crate) fn end(self) -> ExitCode {
        let (number, of_group) = match self {
            Self::Code(code) => return code.into(),
            Self::Signal { number, of_group } => (number, of_group),
        };
        if let (true, Some(signal)) = (of_group, Signal::from_named_raw(number)) {
            // This process listens for it, and outlives it here.
            let _ = process::kill_current_process_group(signal);
        }
        // The command has left a core dump, if there is to be one.
        let cores = process::getrlimit(Resource::Core);
        let _ = process::setrlimit(Resource::Core, Rlimit { current: Some(0), ..cores });
        // The kernel keeps the first process of a container from its own signals.
        if process::getpid() != Pid::INIT {
            let _ = signal_hook::low_level::emulate_default_handler(number);
        }
        u8::try_from(128 + number).unwrap_or(u8::MAX).into()
    }
}
