//! The terminal during `top`: raw mode and the alternate screen.

use crate::failure::{Exit, Failure};
use crate::output::unwritten;
use crossterm::cursor::{Hide, Show};
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use rustix::process::getpgrp;
use rustix::termios::{isatty, tcgetpgrp};
use std::io::{self, BufWriter, Stdout, stdout};
use std::mem::ManuallyDrop;
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Returns whether stdout is a terminal that can move its cursor.
pub(super) fn can_be_drawn_on() -> bool {
    isatty(stdout()) && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Returns whether this process is in the foreground.
pub(super) fn is_in_front() -> bool {
    // Only the controlling terminal can have this process in the background.
    tcgetpgrp(stdout()).ok().is_none_or(|front| front == getpgrp())
}

/// Whether the terminal is in raw mode. Restoring it twice would move the cursor.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The screen. A drop or a panic restores the terminal.
pub(super) struct Screen {
    /// Never dropped, because dropping it prints to stderr if the terminal is closed, which panics.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<BufWriter<Stdout>>>>,
}

impl Screen {
    /// Switches the terminal to raw mode and the alternate screen.
    ///
    /// # Errors
    ///
    /// No terminal accepts keys, or a write to stdout fails.
    pub(super) fn open() -> Result<Self, Failure> {
        restore_at_panics();
        enter()?;
        match Terminal::new(CrosstermBackend::new(BufWriter::new(stdout()))) {
            Ok(terminal) => Ok(Self { terminal: ManuallyDrop::new(terminal) }),
            Err(error) => {
                restore();
                Err(unwritten(&error))
            }
        }
    }

    /// Draws the changes since the last call.
    ///
    /// # Errors
    ///
    /// A write to stdout fails.
    pub(super) fn draw(&mut self, picture: impl FnOnce(Rect, &mut Buffer)) -> Result<(), Failure> {
        let drawn = self.terminal.draw(|frame| picture(frame.area(), frame.buffer_mut()));
        drawn.map(|_| ()).map_err(|error| unwritten(&error))
    }

    /// Makes the next call redraw the whole screen.
    ///
    /// # Errors
    ///
    /// A write to stdout fails.
    pub(super) fn forget(&mut self) -> Result<(), Failure> {
        let cleared = self.terminal.size().and_then(|size| self.terminal.resize(Rect::from((Position::ORIGIN, size))));
        cleared.map_err(|error| unwritten(&error))
    }

    /// Restores the terminal until [`Self::take_back`].
    pub(super) fn lend() {
        restore();
    }

    /// Switches the terminal back to raw mode and the alternate screen.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub(super) fn take_back(&mut self) -> Result<(), Failure> {
        enter()?;
        self.forget()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn enter() -> Result<(), Failure> {
    let no_keys = |error: io::Error| Failure::new(Exit::Io, format!("cannot read keys from a terminal: {error}"));
    enable_raw_mode().map_err(no_keys)?;
    IS_TAKEN.store(true, Ordering::Relaxed);
    execute!(stdout(), EnterAlternateScreen, Hide).map_err(|error| {
        restore();
        unwritten(&error)
    })
}

/// Restores the terminal. Ignores errors of a closed terminal.
fn restore() {
    if !IS_TAKEN.swap(false, Ordering::Relaxed) {
        return;
    }
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// Restores the terminal before a panic message. A panic of another thread does not end the program.
fn restore_at_panics() {
    let (tell, own) = (panic::take_hook(), thread::current().id());
    panic::set_hook(Box::new(move |info| {
        if thread::current().id() == own {
            restore();
        }
        tell(info);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{LocalModes, tcgetattr};
    use std::fs::{File, OpenOptions};
    use std::io::Read as _;
    use std::process::Command;

    /// The variable that makes this test binary run as the panicking program.
    const PANICS: &str = "LEASEHOLD_TEST_PANICS";

    #[test]
    fn terminal_is_restored_before_a_panic_speaks() {
        if std::env::var_os(PANICS).is_some() {
            let mut screen = Screen::open().expect("a terminal");
            screen.draw(|_, _| panic!("the picture is broken")).expect("a panic before");
        }
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
        grantpt(&keyboard).expect("a terminal");
        unlockpt(&keyboard).expect("a terminal");
        let path = ptsname(&keyboard, Vec::new()).expect("its name").into_string().expect("a path");
        let terminal = OpenOptions::new().read(true).write(true).open(path).expect("the terminal");
        let stream = || terminal.try_clone().expect("a stream");
        let mut itself = Command::new(std::env::current_exe().expect("this program"));
        itself.args(["--exact", "top::terminal::tests::terminal_is_restored_before_a_panic_speaks", "--nocapture"]);
        itself.env(PANICS, "1").env("RUST_BACKTRACE", "0").stdin(stream()).stdout(stream()).stderr(stream());
        let mut child = itself.spawn().expect("it starts");
        assert!(!child.wait().expect("its end").success());
        let modes = tcgetattr(&terminal).expect("its modes").local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO), "{modes:?}");
        // A closed terminal returns the buffered output, then an error.
        drop((itself, terminal));
        let mut said = Vec::new();
        let _ = File::from(keyboard).read_to_end(&mut said);
        let said = String::from_utf8_lossy(&said);
        let at = |text: &str| said.find(text).unwrap_or_else(|| panic!("{text:?} is in {said:?}"));
        assert!(at("\u{1b}[?1049h") < at("\u{1b}[?1049l"), "{said:?}");
        assert!(at("\u{1b}[?1049l") < at("the picture is broken"), "{said:?}");
    }
}
