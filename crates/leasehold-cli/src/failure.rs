//! The reasons why the command fails, its exit codes, and the one line that it says.

use crate::shown::shown;
use clap::error::ErrorKind;
use leasehold::{ConnectError, Error};
use std::fmt;

/// An exit code of the command itself. A command that it runs has its own codes.
///
/// The numbers follow `sysexits.h` if it has a suitable code. `run` avoids 1 and 2, which commands use most, and all
/// codes from 126, which shells use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The answer to a question was not yes.
    Declined = 1,
    Usage = 64,
    Unreachable = 69,
    Other = 70,
    Conflict = 73,
    Io = 74,
    Busy = 75,
    Lost = 76,
    Refused = 77,
    /// The reader of the output has gone, which a shell writes as the death by SIGPIPE.
    ClosedPipe = 141,
}

impl Exit {
    /// The word in the output of `--json`.
    const fn word(self) -> &'static str {
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

/// The table of the exit codes, for `--help` and the manual page.
pub(crate) const TABLE: &str = "\
Exit codes (`run` exits with the code of its command, or dies by the signal by which its command died):
  0    done
  1    doctor has found a fault, or deadlocks a deadlock, or the question of unlock was not answered with yes
  64   usage: an option, the URL or a setting cannot be used; nothing was sent
  69   unreachable: no server answers, or it went away
  70   another failure, such as an outcome that is not known
  73   conflict: the name is in use by something else
  74   a file or stream could not be read or written
  75   busy: others hold the lock (run --busy-exit chooses another code; inspect --check)
  76   lost: the lock was lost while the command ran, could not be renewed, or was held for --max-hold
  77   refused: the password, the rights, the certificate or the server itself does not fit; or deadlocks has found none
       among the locks at which this user may look, and there are others
  126  the command cannot be executed
  127  the command was not found
  128+n  what a shell shows after a death by signal n, also of the wait for the lock, top, serve, bench or doctor";

/// Why the command ends without success.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    code: u8,
    lock: Option<String>,
    message: String,
    quiet: bool,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, code: exit as u8, lock: None, message: message.into(), quiet: false }
    }

    /// Suppresses the line on stderr: the exit code is enough for the user.
    pub(crate) fn quiet(mut self, quiet: bool) -> Self {
        self.quiet = quiet;
        self
    }

    /// Replaces the message of the failure.
    pub(crate) fn in_other_words(mut self, text: impl FnOnce(&str) -> String) -> Self {
        self.message = text(&self.message);
        self
    }

    /// Names the lock that it is about.
    pub(crate) fn of_lock(mut self, lock: &str) -> Self {
        self.lock = Some(lock.to_owned());
        self
    }

    /// Replaces the exit code by one that the user has chosen.
    pub(crate) fn with_code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }

    /// Converts an error of an acquire, after which the command does not start. An unknown outcome counts as a missing
    /// reply: the client rolls back a possible grant.
    pub(crate) fn of_an_acquire(error: Error) -> Self {
        match error {
            Error::OutcomeUnknown { lock, message, .. } => {
                let text = format!(
                    "no usable answer about the lock {lock:?}: {message}; the command was not started, and the lock may be busy for up to a lease"
                );
                Self::new(Exit::Unreachable, text).of_lock(&lock)
            }
            other => other.into(),
        }
    }

    /// An error of a look at the server, which changes nothing: an outcome that is not known is a missing answer.
    pub(crate) fn of_a_look(error: Error) -> Self {
        match error {
            Error::OutcomeUnknown { lock, message, .. } => {
                Self::new(Exit::Unreachable, format!("no usable answer about the lock {lock:?}: {message}"))
                    .of_lock(&lock)
            }
            other => other.into(),
        }
    }

    /// A command line that cannot be read, in one line and without the usage, which `--help` has.
    pub(crate) fn of_usage(error: &clap::Error) -> Self {
        if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            return Self::new(Exit::Usage, "a subcommand is missing, such as run; --help tells more");
        }
        let text = error.render().to_string();
        let said: Vec<_> = text.lines().take_while(|line| !line.starts_with("Usage:")).map(str::trim).collect();
        let said = said.into_iter().filter(|line| !line.is_empty() && !line.starts_with("For more information"));
        let said = said.collect::<Vec<_>>().join(" ").replace(" tip: ", "; ");
        let said = said.strip_prefix("error: ").unwrap_or(&said).to_owned();
        // The usage of `run` is the one that has a command, and its `--` is easily forgotten.
        let is_run = text.contains("-- <CMD>");
        if let (true, Some((said, _))) = (is_run, said.split_once("; to pass '-")) {
            return Self::new(Exit::Usage, format!("{said}; {DASHES}; --help tells more"));
        }
        let is_about_the_command = matches!(
            error.kind(),
            ErrorKind::MissingRequiredArgument | ErrorKind::UnknownArgument | ErrorKind::TooManyValues
        );
        let behind = if is_run && is_about_the_command { "; the command stands behind --" } else { "" };
        Self::new(Exit::Usage, format!("{said}{behind}; --help tells more"))
    }

    pub(crate) const fn exit(&self) -> Exit {
        self.exit
    }

    pub(crate) const fn code(&self) -> u8 {
        self.code
    }

    /// The one line that stderr gets; `None` where there is nothing to say.
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
            "error": self.exit.word(),
            "exit_code": self.code,
            "lock": self.lock,
            "message": self.message,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Line breaks of a server's error or of a name stay within the one line, and a terminal gets no command from them.
        f.write_str(&shown(&self.message.replace(['\n', '\r'], " ")))
    }
}

/// Whether the server may answer later.
pub(crate) fn passes(error: &Error) -> bool {
    match error {
        Error::Refused { refusal, .. } => refusal.is_transient(),
        error => error.is_retryable(),
    }
}

/// The reason why a look at many locks failed, for those who know what they look at.
pub(crate) fn reason(error: &Error) -> String {
    match error {
        Error::SearchFailed { message, .. } => message.clone(),
        error => error.to_string(),
    }
}

/// The place of a name that looks like an option.
const DASHES: &str = "a name that begins with a dash is written so: leasehold run -- -name -- COMMAND";

/// How another time to connect is chosen.
const ANOTHER_TIME: &str = "; ?connect_deadline=30s in the URL sets another time";

/// What the library tells programs to do where nothing listens.
const FOR_PROGRAMS: &str = ", or make the client by connect_lazy where the server may come later";

/// What helps where no secure connection was made, by the reason for that.
fn of_certificates(message: &str) -> &'static str {
    const ADVICE: [(&str, &str); 6] = [
        ("authority that is not trusted", "; --tls-ca names the authority to trust"),
        ("of the client has expired", "; --tls-cert and --tls-key name another one"),
        ("of the client", "; --tls-cert and --tls-key name one that it accepts"),
        ("has expired", "; the server needs a new one, if the clock of this machine is right"),
        ("the certificate was not accepted", "; --tls-ca names the authority to trust"),
        ("not valid for this host name", "; the URL must have a name or address that the certificate has"),
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
        // The library's advice for programs is none for who types a command.
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
            // The server is reachable but not ready: it loads its data, or its cluster is down.
            Error::Refused { refusal, .. } if refusal.is_transient() => Exit::Unreachable,
            Error::Refused { .. } | Error::SearchFailed { .. } => Exit::Refused,
            Error::Invalid(_) => Exit::Usage,
            _ => Exit::Other,
        };
        let failure = Self::new(exit, error.to_string());
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
    fn every_code_stands_in_the_table() {
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

    /// A managed server sends this error; whether it applied the command is unknown.
    #[test]
    fn answer_that_leaves_the_outcome_open_is_not_called_missing() {
        let message = "ERR max daily request limit exceeded".to_owned();
        for told in [Failure::of_an_acquire, Failure::of_a_look] {
            let error = Error::OutcomeUnknown { lock: "stock".to_owned(), message: message.clone() };
            let text = told(error).to_string();
            assert!(text.contains("no usable answer about the lock \"stock\": ERR max daily"), "{text}");
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
