//! The end of this process: by an exit code, or by the signal that ended its command.
//!
//! After Ctrl-C a shell only ends a loop if the command died by that signal.

use rustix::process::{self, Pid, Resource, Rlimit, Signal};
use std::process::ExitCode;

/// The end of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Code(u8),
    Signal {
        number: i32,
        /// The terminal sent the signal only to the command's group. This process forwards the signal to its own group,
        /// because an enclosing script expects it.
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

    /// The exit code that a shell shows.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal { number, .. } => u8::try_from(128 + number).unwrap_or(u8::MAX),
        }
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
        // The command has already dumped its core.
        let cores = process::getrlimit(Resource::Core);
        let _ = process::setrlimit(Resource::Core, Rlimit { current: Some(0), ..cores });
        // The kernel does not deliver such a signal to the first process of a container.
        if process::getpid() != Pid::INIT {
            let _ = signal_hook::low_level::emulate_default_handler(number);
        }
        self.code().into()
    }
}
