//! Failures with their exit code and their line on stderr.

use crate::shown::shown;
use clap::error::ErrorKind;
use leasehold::{ConnectError, Error};
use std::fmt;

/// An exit code of `leasehold` itself. The command of `run` returns its own exit codes. The numbers follow `sysexits.h`
/// where it has a suitable code. `run` avoids 1 and 2, which most commands return, and codes from 126, which shells
/// return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The user did not confirm.
    Declined = 1,
    Usage = 64,
    Unreachable = 69,
    Other = 70,
    Conflict = 73,
    Io = 74,
    Busy = 75,
    Lost = 76,
    Refused = 77,
    /// The reader closed stdout. A shell shows this code for SIGPIPE.
    ClosedPipe = 141,
}

impl Exit {
    /// The value of `error` in the JSON output.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Declined => "declined",
            Self::Usage => "usage",
            Self::Unreachable => "unreachable",
            Self::Other => "other",
            Self::Conflict => "conflict",
            Self::Io => "io",
            Self::Busy => "busy",
            Self::Lost => "lost",
            Self::Refused => "refused",
            Self::ClosedPipe => "closed_pipe",
        }
    }
}

/// The exit codes for `--help` and the manual page.
pub(crate) const TABLE: &str = "\
Exit codes (`run` and `leader` exit with the code of their command, or die by the same signal):
  0    success
  1    doctor found a fault, deadlocks a deadlock, or unlock was not confirmed
  64   usage: an option, the URL or a setting is invalid; nothing was sent
  69   unreachable: no server answers, the connection broke, or the server is full
  70   another failure, such as an unknown outcome
  73   conflict: something else uses the name, or the semaphore has another number of permits
  74   a file or stream could not be read or written
  75   busy, for run and inspect --check; run --busy-exit sets another code
  76   lost: the lock was lost, not renewed, or held for --max-hold
  77   refused: password, rights, certificate or server; or deadlocks could not inspect all locks
  126  the command cannot be executed
  127  the command was not found
  128+n  in a shell: death by signal n, of the command, of top, serve, bench or doctor, or of a wait";

/// A failure of the command.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    code: u8,
    lock: Option<String>,
    message: String,
    quiet: bool,
    /// The value of `error` in the JSON output.
    word: &'static str,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, code: exit as u8, lock: None, message: message.into(), quiet: false, word: exit.word() }
    }

    /// Suppresses the line on stderr: the exit code is enough for the user.
    pub(crate) fn quiet(mut self, quiet: bool) -> Self {
        self.quiet = quiet;
        self
    }

    /// Sets a more specific `error` in the JSON output, for outcomes that share an exit code.
    pub(crate) fn called(mut self, word: &'static str) -> Self {
        self.word = word;
        self
    }

    /// Replaces the message of the failure.
    pub(crate) fn in_other_words(mut self, text: impl FnOnce(&str) -> String) -> Self {
        self.message = text(&self.message);
        self
    }

    /// Sets the name of the lock.
    pub(crate) fn of_lock(mut self, lock: &str) -> Self {
        self.lock = Some(lock.to_owned());
        self
    }

    /// Sets the exit code from the user's options.
    pub(crate) fn with_code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }

    /// Converts an error from an acquire, which prevents the command's start. An unknown outcome counts as a missing
    /// reply: the client rolls back a possible grant.
    pub(crate) fn of_an_acquire(error: Error) -> Self {
        match error {
            Error::OutcomeUnknown { lock, message, .. } => {
                let text = format!(
                    "no usable reply for the lock {lock:?}: {message}; the command was not started, and the lock may be busy for one lease"
                );
                Self::new(Exit::Unreachable, text).of_lock(&lock)
            }
            other => other.into(),
        }
    }

    /// Converts an error from a read-only command. An unknown outcome counts as a missing reply.
    pub(crate) fn of_a_look(error: Error) -> Self {
        match error {
            Error::OutcomeUnknown { lock, message, .. } => {
                Self::new(Exit::Unreachable, format!("no usable reply for the lock {lock:?}: {message}")).of_lock(&lock)
            }
            other => other.into(),
        }
    }

    /// Converts a command-line error to one line, without the usage text.
    pub(crate) fn of_usage(error: &clap::Error) -> Self {
        if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            return Self::new(Exit::Usage, "a subcommand is missing, such as run; see --help");
        }
        let text = error.render().to_string();
        let said: Vec<_> = text.lines().take_while(|line| !line.starts_with("Usage:")).map(str::trim).collect();
        let said = said.into_iter().filter(|line| !line.is_empty() && !line.starts_with("For more information"));
        let said = said.collect::<Vec<_>>().join(" ").replace(" tip: ", "; ");
        let said = said.strip_prefix("error: ").unwrap_or(&said).to_owned();
        // Only `run` and `leader` take a command. Users easily forget the `--` before it.
        let is_run = text.contains("-- <CMD>");
        if let (true, Some((said, _))) = (is_run, said.split_once("; to pass '-")) {
            let verb = if text.contains("leasehold leader") { "leader" } else { "run" };
            let dashes = format!("for a name that begins with a dash, use: leasehold {verb} -- -name -- COMMAND");
            return Self::new(Exit::Usage, format!("{said}; {dashes}; see --help"));
        }
        let is_about_the_command = matches!(
            error.kind(),
            ErrorKind::MissingRequiredArgument | ErrorKind::UnknownArgument | ErrorKind::TooManyValues
        );
        let behind = if is_run && is_about_the_command { "; put the command after --" } else { "" };
        Self::new(Exit::Usage, format!("{said}{behind}; see --help"))
    }

    pub(crate) const fn exit(&self) -> Exit {
        self.exit
    }

    pub(crate) const fn code(&self) -> u8 {
        self.code
    }

    /// The line for stderr. `None` for a quiet failure.
    pub(crate) fn line(&self, json: bool) -> Option<String> {
        match self.exit {
            Exit::ClosedPipe => None,
            _ if self.quiet => None,
            _ if json => Some(self.json().to_string()),
            _ => Some(format!("leasehold: {self}")),
        }
    }

    fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "error": self.word,
            "exit_code": self.code,
            "lock": self.lock,
            "message": self.message,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An error message or a name may contain line breaks and terminal commands.
        f.write_str(&shown(&self.message.replace(['\n', '\r'], " ")))
    }
}

/// Returns whether a retry may succeed.
pub(crate) fn passes(error: &Error) -> bool {
    match error {
        Error::Refused { refusal, .. } => refusal.is_transient() || is_full(error),
        error => error.is_retryable(),
    }
}

/// Returns whether the server refused a command for lack of memory.
pub(crate) fn is_full(error: &Error) -> bool {
    matches!(error, Error::Refused { refusal, .. } if refusal.to_string().contains("OOM "))
}

/// Returns advice for a server that lacks memory or disk, by its refusal. Empty for any other refusal.
pub(crate) fn of_resources(refusal: &str) -> &'static str {
    if refusal.contains("OOM ") {
        "the server is out of memory: free memory or raise maxmemory"
    } else if refusal.contains("MISCONF") {
        "the server cannot save its data: check its log and disk"
    } else {
        ""
    }
}

/// Returns the reason of a failed search, without the pattern.
pub(crate) fn reason(error: &Error) -> String {
    match error {
        Error::SearchFailed { message, .. } => message.clone(),
        error => error.to_string(),
    }
}

/// The advice about the connect timeout.
const ANOTHER_TIME: &str = "; ?connect_deadline=30s in the URL changes this limit";

/// The part of the library's advice that only a program can follow.
const FOR_PROGRAMS: &str = ", or use connect_lazy if the server may start later";

/// The advice for a failed TLS handshake, by the text of its error.
fn of_certificates(message: &str) -> &'static str {
    const ADVICE: [(&str, &str); 6] = [
        ("authority that is not trusted", "; trust the authority with --tls-ca"),
        ("client certificate has expired", "; set a valid certificate with --tls-cert and --tls-key"),
        ("client certificate", "; set an accepted certificate with --tls-cert and --tls-key"),
        ("has expired", "; check the clock of this machine, or renew the certificate of the server"),
        ("the certificate was rejected", "; trust the authority with --tls-ca"),
        ("not valid for this host name", "; use a host name or address of the certificate in the URL"),
    ];
    ADVICE.iter().find(|(reason, _)| message.contains(reason)).map_or("", |(_, advice)| advice)
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let (exit, advice) = match &error {
            ConnectError::Invalid { .. } => (Exit::Usage, ""),
            ConnectError::Unreachable { message, .. } if message.contains("connect_deadline") => {
                (Exit::Unreachable, ANOTHER_TIME)
            }
            ConnectError::Unreachable { .. } => (Exit::Unreachable, ""),
            ConnectError::Loading { .. } => (Exit::Unreachable, "; try again in a moment"),
            ConnectError::Denied { .. } => {
                (Exit::Refused, "; set LEASEHOLD_PASSWORD or --password-file, and check the user's rights")
            }
            ConnectError::Tls { message, .. } => (Exit::Refused, of_certificates(message)),
            _ => (Exit::Refused, ""),
        };
        // Drop the library's advice for programs.
        let text = error.to_string().replace(FOR_PROGRAMS, "");
        Self::new(exit, format!("{text}{advice}"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let exit = match &error {
            Error::WaitElapsed { .. } => Exit::Busy,
            Error::Lost { .. } => Exit::Lost,
            Error::Unreachable { .. } | Error::SearchFailed { refusal: None, .. } => Exit::Unreachable,
            Error::KeyConflict { .. } | Error::ExceedsCapacity { .. } => Exit::Conflict,
            // The server is reachable but not ready: it is loading its data, it is full, or its cluster is down.
            Error::Refused { .. } if passes(&error) => Exit::Unreachable,
            Error::Refused { .. } | Error::SearchFailed { .. } => Exit::Refused,
            Error::Invalid(_) => Exit::Usage,
            _ => Exit::Other,
        };
        let text = error.to_string();
        let advice = match of_resources(&text) {
            "" => String::new(),
            advice => format!("; {advice}"),
        };
        let failure = Self::new(exit, format!("{}{advice}", text.trim_end_matches('.')));
        match error.lock_name() {
            Some(name) => failure.of_lock(name),
            None => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_every_exit_code() {
        for exit in [
            Exit::Declined,
            Exit::Usage,
            Exit::Unreachable,
            Exit::Other,
            Exit::Conflict,
            Exit::Io,
            Exit::Busy,
            Exit::Lost,
            Exit::Refused,
        ] {
            assert!(TABLE.contains(&format!("\n  {}   ", exit as u8)), "{exit:?}");
        }
    }

    /// A managed service sends this error with an unknown outcome.
    #[test]
    fn answer_that_leaves_the_outcome_open_is_not_called_missing() {
        let message = "ERR max daily request limit exceeded".to_owned();
        for told in [Failure::of_an_acquire, Failure::of_a_look] {
            let error = Error::OutcomeUnknown { lock: "stock".to_owned(), message: message.clone() };
            let text = told(error).to_string();
            assert!(text.contains("no usable reply for the lock \"stock\": ERR max daily"), "{text}");
        }
    }

    #[test]
    fn a_failure_is_one_line_whatever_its_text() {
        let failure = Failure::new(Exit::Busy, "the lock \"a\nb\u{1b}[2J\" is busy").with_code(9);
        assert_eq!((failure.to_string().lines().count(), failure.code()), (1, 9));
        assert!(!failure.to_string().contains('\u{1b}'));
        assert_eq!(failure.json()["error"], "busy");
    }
}
