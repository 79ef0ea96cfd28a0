//! Output to stdout and stderr.

use crate::failure::{Exit, Failure};
use crate::shown::shown;
use std::io::{ErrorKind, Write as _};

/// Writes a text to stdout.
///
/// # Errors
///
/// The reader closed stdout, which ends the command silently, or the write failed.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    write(text.as_bytes())
}

/// Writes bytes to stdout.
///
/// # Errors
///
/// As [`print`].
pub(crate) fn write(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(|error| unwritten(&error))
}

/// Converts an error from a write to stdout.
pub(crate) fn unwritten(error: &std::io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::new(Exit::ClosedPipe, "the reader closed stdout"),
        _ => Failure::new(Exit::Io, format!("cannot write to stdout: {error}")),
    }
}

/// Prints a note on stderr.
pub(crate) fn note(text: &str, json: bool) {
    if json {
        complain(&serde_json::json!({ "note": text }).to_string());
    } else {
        complain(&format!("leasehold: {}", shown(text)));
    }
}

/// Prints a warning about a lock on stderr.
pub(crate) fn warn(what: &str, lock: &str, text: &str, json: bool) {
    if json {
        complain(&serde_json::json!({ "warning": what, "lock": lock, "message": text }).to_string());
    } else {
        complain(&format!("leasehold: {}", shown(text)));
    }
}

/// Writes a line to stderr. Ignores errors, because no output remains to report them.
pub(crate) fn complain(line: &str) {
    let _ = std::io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}
