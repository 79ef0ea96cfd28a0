//! The end of this process: an exit code, or the signal that ended its command.
//!
//! After Ctrl-C a shell only ends a loop if the command died by that signal.

use rustix::process::{self, Pid, Resource, Rlimit, Signal};
use std::process::ExitCode;

/// How this process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Code(u8),
    Signal {
        number: i32,
        /// The terminal sent it only to the command's group. This process sends it to its own group too, because a
        /// script around it would have received it.
        of_group: bool,
    },
}

impl From<u8> for Ending {
    fn from(code: u8) -> Self {
        Self::Code(code)
    }
}

impl Ending {
    /// The end by a signal that this process received.
    pub(crate) const fn by(signal: Signal) -> Self {
        Self::Signal { number: signal.as_raw(), of_group: false }
    }

    /// Ends this process by the signal. If that is impossible, returns the exit code that a shell shows for the signal.
    pub(crate) fn end(self) -> ExitCode {
        let (number, of_group) = match self {
            Self::Code(code) => return code.into(),
            Self::Signal { number, of_group } => (number, of_group),
        };
        if let (true, Some(signal)) = (of_group, Signal::from_named_raw(number)) {
            // This process has a handler for the signal, so it survives here.
            let _ = process::kill_current_process_group(signal);
        }
        // No second core dump besides the command's.
        let cores = process::getrlimit(Resource::Core);
        let _ = process::setrlimit(Resource::Core, Rlimit { current: Some(0), ..cores });
        // The kernel keeps the first process of a container from its own signals.
        if process::getpid() != Pid::INIT {
            let _ = signal_hook::low_level::emulate_default_handler(number);
        }
        u8::try_from(128 + number).unwrap_or(u8::MAX).into()
    }
}
