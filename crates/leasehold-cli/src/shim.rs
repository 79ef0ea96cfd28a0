//! The shim between `leasehold run` and its command: the same program once more, which prepares its process and then becomes the command.
//!
//! A program may change only its own process without `unsafe`, so the child arranges by itself that it dies with its parent and waits for
//! the terminal. `leasehold` starts it with the words that [`words`] makes.

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

/// The first word of the shim's command line. People have no reason to type it.
const WORD: &str = "__become";

/// The exit codes that shells use for a command that does not start.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// How the shim starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    /// It waits until its process group is in front of the terminal.
    pub(crate) in_front: bool,
    /// It stops itself first, until its parent lets it go on.
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

/// The words that the shim is told.
pub(crate) struct Words {
    parent: OsString,
    start: Start,
    command: Vec<OsString>,
}

/// The arguments with which this program is started as the shim.
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
/// The system does not tell where the program is.
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
    io::Error::new(error.kind(), format!("leasehold cannot find its own program without {THIS}; mount /proc ({error})"))
}

/// The words for the shim, if the program was started as such.
pub(crate) fn asked_for(args: impl Iterator<Item = OsString>) -> Option<Words> {
    let mut args = args.skip(1);
    if args.next()? != WORD {
        return None;
    }
    let (parent, start) = (args.next()?, args.next()?);
    Some(Words { parent, start: Start::read(&start), command: args.collect() })
}

/// Becomes the command. This returns only if that fails, and the exit code is that of a shell.
pub(crate) fn become_the_command(words: Words) -> u8 {
    let Some((program, args)) = words.command.split_first() else { return NOT_FOUND };
    if let Err(error) = die_with_parent() {
        output::note(&format!("the command would outlive a crash: {error}"), words.start.json);
    }
    if words.start.stops {
        let _ = process::kill_process(process::getpid(), Signal::STOP);
    }
    // The parent may have died before the kernel was told to watch it.
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

/// Tells why there is no command, and gives the exit code.
fn tell(why: String, code: u8, json: bool) -> u8 {
    // The lock is known from what the command would have been told.
    let lock = std::env::var("LEASEHOLD_NAME").unwrap_or_default();
    if let Some(line) = Failure::new(Exit::Other, why).of_lock(&lock).with_code(code).line(json) {
        output::complain(&line);
    }
    code
}

fn why_not(program: &OsStr, error: &io::Error) -> String {
    if program.is_empty() {
        return "the command behind -- is empty".to_owned();
    }
    let program = program.display();
    match error.kind() {
        ErrorKind::NotFound => format!("{program}: the command was not found"),
        _ => format!("{program}: the command cannot be executed: {error}"),
    }
}

/// Has the kernel kill this process when the thread that started it ends. The order survives an `exec`, except of a program that changes
/// its user or its capabilities, and is not inherited by children.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn die_with_parent() -> io::Result<()> {
    process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(Into::into)
}

/// Other systems have no such order.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn die_with_parent() -> io::Result<()> {
    Ok(())
}

/// Waits until the parent has put this process group in front: a program that reads the terminal before is stopped. Without an answer in
/// a second it goes on, and is put in front when it is stopped.
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
