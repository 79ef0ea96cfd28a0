//! The shim of `leasehold run`: this program, started again, prepares its process and then executes the command.
//!
//! Safe Rust cannot run code between `fork` and `exec`. So the shim requests its own death with the parent, and waits
//! for the terminal. [`words`] creates its arguments.

use crate::failure::{Exit, Failure};
use crate::output;
use crate::run::terminal::{self, Terminal};
use rustix::process::{self, Pid, Signal, getpgrp, getppid};
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// The first argument of the shim, which users never type.
const WORD: &str = "__become";

/// The exit codes of shells for a command that cannot start.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// The start options of the shim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    /// The shim waits until its process group is in the foreground.
    pub(crate) in_front: bool,
    /// The shim first stops itself until its parent resumes it.
    pub(crate) stops: bool,
    /// The shim undoes its parent's `terminal::allow_changes`.
    pub(crate) unblocks: bool,
    /// The shim prints errors as JSON.
    pub(crate) json: bool,
}

impl Start {
    /// Encodes the options as one argument.
    fn word(self) -> OsString {
        let letter = |is: bool, letter| if is { letter } else { '-' };
        String::from_iter([
            letter(self.in_front, 'f'),
            letter(self.stops, 's'),
            letter(self.unblocks, 'u'),
            letter(self.json, 'j'),
        ])
        .into()
    }

    fn read(word: &OsStr) -> Self {
        let word = word.to_string_lossy();
        Self {
            in_front: word.contains('f'),
            stops: word.contains('s'),
            unblocks: word.contains('u'),
            json: word.contains('j'),
        }
    }
}

/// The arguments of the shim.
pub(crate) struct Words {
    parent: OsString,
    start: Start,
    command: Vec<OsString>,
}

/// Creates the arguments of the shim.
pub(crate) fn words(parent: Pid, start: Start, command: &[OsString]) -> Vec<OsString> {
    let mut words = vec![WORD.into(), parent.as_raw_nonzero().to_string().into(), start.word()];
    words.extend_from_slice(command);
    words
}

/// The path of the running program, valid even after an upgrade replaces the file.
const THIS: &str = "/proc/self/exe";

/// Returns the program to start as the shim.
///
/// # Errors
///
/// The path of the program is unknown.
pub(crate) fn program() -> io::Result<OsString> {
    if is_there(THIS) { Ok(THIS.into()) } else { by_its_path() }
}

/// Returns the path of this program on a system without /proc, such as a `chroot`.
#[cfg(target_os = "linux")]
fn by_its_path() -> io::Result<OsString> {
    let path = OsStr::from_bytes(rustix::param::linux_execfn().to_bytes());
    if is_there(path) { Ok(path.to_owned()) } else { Err(not_started(ErrorKind::NotFound.into())) }
}

#[cfg(not(target_os = "linux"))]
fn by_its_path() -> io::Result<OsString> {
    std::env::current_exe().map(Into::into)
}

fn is_there(path: impl AsRef<Path>) -> bool {
    path.as_ref().exists()
}

/// Returns the error of a shim that cannot start. The message mentions a missing /proc.
pub(crate) fn not_started(error: io::Error) -> io::Error {
    if is_there(THIS) || !cfg!(target_os = "linux") {
        return error;
    }
    io::Error::new(
        error.kind(),
        format!("leasehold cannot find its own executable without {THIS}; mount /proc ({error})"),
    )
}

/// Parses the arguments of the shim. `None` for a normal start.
pub(crate) fn asked_for(args: impl Iterator<Item = OsString>) -> Option<Words> {
    let mut args = args.skip(1);
    if args.next()? != WORD {
        return None;
    }
    let (parent, start) = (args.next()?, args.next()?);
    Some(Words { parent, start: Start::read(&start), command: args.collect() })
}

/// Replaces this process with the command. Returns only after a failure, with a shell's exit code.
pub(crate) fn become_the_command(words: Words) -> u8 {
    let Some((program, args)) = words.command.split_first() else { return NOT_FOUND };
    if let Err(error) = die_with_parent() {
        output::note(&format!("the command would survive a crash of leasehold: {error}"), words.start.json);
    }
    if words.start.stops {
        let _ = process::kill_process(process::getpid(), Signal::STOP);
    }
    // The parent may have died before `die_with_parent`.
    let parent = getppid().map(|parent| OsString::from(parent.as_raw_nonzero().to_string()));
    if parent.as_ref() != Some(&words.parent) {
        return tell(
            "the command was not started, because leasehold was killed".to_owned(),
            NOT_EXECUTABLE,
            words.start.json,
        );
    }
    if words.start.in_front {
        wait_for_terminal();
    }
    if words.start.unblocks {
        terminal::forbid_changes();
    }
    let error = with_own_pid(Command::new(program), &words.parent).args(args).exec();
    let code = if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
    tell(why_not(program, &error), code, words.start.json)
}

/// Sets the command's pid in the service manager's variables, which contain the pid of `leasehold`. A command ignores
/// sockets and a watchdog for another pid.
fn with_own_pid(mut command: Command, parent: &OsStr) -> Command {
    let own = process::getpid().as_raw_nonzero().to_string();
    for name in ["LISTEN_PID", "WATCHDOG_PID", "SYSTEMD_EXEC_PID"] {
        if std::env::var_os(name).is_some_and(|pid| pid == parent) {
            command.env(name, &own);
        }
    }
    // Newer managers also identify the process by a pidfd, which only its parent can create.
    if std::env::var_os("LISTEN_PID").is_some_and(|pid| pid == parent) {
        command.env_remove("LISTEN_PIDFDID");
    }
    command
}

/// Prints the reason, and returns the exit code.
fn tell(why: String, code: u8, json: bool) -> u8 {
    // The command's environment contains the lock's name.
    let lock = std::env::var("LEASEHOLD_NAME").unwrap_or_default();
    if let Some(line) = Failure::new(Exit::Other, why).of_lock(&lock).with_code(code).line(json) {
        output::complain(&line);
    }
    code
}

fn why_not(program: &OsStr, error: &io::Error) -> String {
    if program.is_empty() {
        return "the command after -- is empty".to_owned();
    }
    let program = program.display();
    match error.kind() {
        ErrorKind::NotFound => format!("{program}: command not found"),
        _ => format!("{program}: cannot execute the command: {error}"),
    }
}

/// Asks the kernel to send SIGKILL to this process when the parent thread exits. The request survives `exec`, except of a program
/// that changes its user or capabilities. Children do not inherit the request.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn die_with_parent() -> io::Result<()> {
    process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(Into::into)
}

/// Other systems have no such request.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn die_with_parent() -> io::Result<()> {
    Ok(())
}

/// Waits until the parent has moved this process group to the foreground. An earlier read of the terminal would stop
/// the program. Continues after a second, because the parent also handles later stops.
fn wait_for_terminal() {
    let terminal = Terminal::of_this_process();
    let end = Instant::now() + Duration::from_secs(1);
    while terminal.front().is_some_and(|front| front != getpgrp()) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_shim_are_read_as_they_were_written() {
        let command: Vec<OsString> = vec!["sh".into(), "-c".into(), "--".into()];
        let parent = process::getpid();
        for bits in 0..16 {
            let start =
                Start { in_front: bits & 1 > 0, stops: bits & 2 > 0, unblocks: bits & 4 > 0, json: bits & 8 > 0 };
            let args = std::iter::once("leasehold".into()).chain(words(parent, start, &command));
            let read = asked_for(args).expect("the shim");
            assert_eq!((read.start, &read.command), (start, &command));
            assert_eq!(read.parent, OsString::from(parent.as_raw_nonzero().to_string()));
        }
        assert!(asked_for(["leasehold".into(), "run".into()].into_iter()).is_none());
    }
}
