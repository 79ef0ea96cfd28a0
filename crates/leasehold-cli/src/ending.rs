//! Ends this process with an exit code, or by the signal that killed its command.
//!
//! After Ctrl-C, a shell only leaves a loop if the command died by SIGINT.

use rustix::process::{self, Pid, Resource, Rlimit, Signal};
use std::process::ExitCode;

/// How this process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Code(u8),
    Signal {
        number: i32,
        /// The terminal sent the signal only to the command's group. This process sends the signal to its own group
        /// too, because an enclosing script expects it.
        of_group: bool,
    },
}

impl From<u8> for Ending {
    fn from(code: u8) -> Self {
        Self::Code(code)
    }
}

impl Ending {
    /// Returns the end by a signal that this process received.
    pub(crate) const fn by(signal: Signal) -> Self {
        Self::Signal { number: signal.as_raw(), of_group: false }
    }

    /// Returns the exit code that a shell shows.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal { number, .. } => u8::try_from(128 + number).unwrap_or(u8::MAX),
        }
    }

    /// Kills this process with the signal. If the process survives, returns the exit code that a shell shows for the
    /// signal.
    pub(crate) fn end(self) -> ExitCode {
        let (number, of_group) = match self {
            Self::Code(code) => return code.into(),
            Self::Signal { number, of_group } => (number, of_group),
        };
        if let (true, Some(signal)) = (of_group, Signal::from_named_raw(number)) {
            // This process handles the signal, so it survives.
            let _ = process::kill_current_process_group(signal);
        }
        // The command has already dumped its core.
        let cores = process::getrlimit(Resource::Core);
        let _ = process::setrlimit(Resource::Core, Rlimit { current: Some(0), ..cores });
        // The kernel does not deliver unhandled signals to the first process of a container.
        if process::getpid() != Pid::INIT {
            let _ = signal_hook::low_level::emulate_default_handler(number);
        }
        self.code().into()
    }
}
