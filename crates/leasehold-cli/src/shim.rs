//! The shim of `leasehold run`: the same program prepares its process, then replaces itself with the command.
//!
//! Without `unsafe`, a program can only change its own process. So the child itself requests its death with the parent,
//! and waits for the terminal. [`words`] creates its arguments.

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

/// The first argument of the shim. Users do not type it.
const WORD: &str = "__become";

/// The exit codes of shells for a command that does not start.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// The start options of the shim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    /// The shim waits until its process group is in the foreground.
    pub(crate) in_front: bool,
    /// The shim stops itself first, until its parent resumes it.
    pub(crate) stops: bool,
    /// The shim undoes `terminal::allow_changes` of its parent.
    pub(crate) unblocks: bool,
    /// The shim prints errors as JSON.
    pub(crate) json: bool,
}

impl Start {
    /// Encodes it as one argument.
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

/// The path of the running program, which stays valid after a newer file replaced it.
const THIS: &str = "/proc/self/exe";

/// The program to start as the shim.
///
/// # Errors
///
/// The path of the program is unknown.
pub(crate) fn program() -> io::Result<OsString> {
    if is_there(THIS) { Ok(THIS.into()) } else { by_its_path() }
}

/// The path with which the kernel started this program, for a system without /proc, such as a `chroot`.
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

/// The error of a shim that cannot be started. The message mentions a missing /proc.
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

/// Replaces this process with the command. Only returns after a failure, with the exit code of a shell.
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

/// Sets the command's own pid in the service manager's variables that name the target process. They named `leasehold`,
/// and a command ignores sockets and a watchdog of another process.
fn with_own_pid(mut command: Command, parent: &OsStr) -> Command {
    let own = process::getpid().as_raw_nonzero().to_string();
    for name in ["LISTEN_PID", "WATCHDOG_PID", "SYSTEMD_EXEC_PID"] {
        if std::env::var_os(name).is_some_and(|pid| pid == parent) {
            command.env(name, &own);
        }
    }
    // Newer managers also name the sockets' process by the number of a pidfd, which only its parent can have.
    if std::env::var_os("LISTEN_PID").is_some_and(|pid| pid == parent) {
        command.env_remove("LISTEN_PIDFDID");
    }
    command
}

/// Prints the reason, and returns the exit code.
fn tell(why: String, code: u8, json: bool) -> u8 {
    // The environment of the command contains the lock.
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

/// Requests SIGKILL from the kernel when the parent thread ends. The request survives an `exec`, except of a program that
/// changes its user or capabilities. Children do not inherit it.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn die_with_parent() -> io::Result<()> {
    process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(Into::into)
}

/// Other systems lack this request.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn die_with_parent() -> io::Result<()> {
    Ok(())
}

/// Waits until the parent has moved this process group to the foreground, because an earlier read would stop the program.
/// Continues after a second; the parent also handles a later stop.
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
