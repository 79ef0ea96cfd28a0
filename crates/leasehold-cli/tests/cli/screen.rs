//! A terminal of the tests' own, and what a person would see on it.

use crate::support::{SERVER, patient};
use leasehold_test_support::{Server, until};
use rustix::io::ioctl_fionbio;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::num::NonZeroU16;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use vt100::Parser;

/// How long a picture may take to come. It is long because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program in a terminal of its own, which controls it.
pub(crate) struct Screen {
    child: Child,
    /// The end at which keys go in and pictures come out.
    keyboard: File,
    /// The end of the program, which is kept for the modes of the terminal.
    terminal: File,
    shown: Arc<Mutex<Shown>>,
    is_over: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

/// The bytes that the program has written, and the picture that they make.
struct Shown {
    bytes: Vec<u8>,
    picture: Parser,
}

fn cells(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).expect("a terminal has cells")
}

fn winsize(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

impl Screen {
    /// `leasehold top` with its options, for a server.
    pub(crate) fn of_top(server: &Server, words: &[&str], columns: u16, rows: u16) -> Self {
        Self::of_top_at(&server.url(), words, columns, rows)
    }

    /// The same for a URL.
    pub(crate) fn of_top_at(url: &str, words: &[&str], columns: u16, rows: u16) -> Self {
        let mut command = in_a_session(&[&[env!("CARGO_BIN_EXE_leasehold"), "top"][..], words].concat());
        command.env("LEASEHOLD_URL", patient(url));
        Self::of(command, columns, rows)
    }

    /// The same without colours.
    pub(crate) fn of_top_without_colour(server: &Server, words: &[&str], columns: u16, rows: u16) -> Self {
        let mut command = in_a_session(&[&[env!("CARGO_BIN_EXE_leasehold"), "top"][..], words].concat());
        command.env("LEASEHOLD_URL", patient(&server.url())).env("NO_COLOR", "1");
        Self::of(command, columns, rows)
    }

    /// A shell with job control.
    pub(crate) fn of_a_shell(columns: u16, rows: u16) -> Self {
        let mut command = in_a_session(&["bash", "--norc", "--noprofile", "--noediting", "-i"]);
        command.env("LEASEHOLD_URL", patient(&SERVER.url())).env("PS1", "$ ");
        Self::of(command, columns, rows)
    }

    fn of(mut command: Command, columns: u16, rows: u16) -> Self {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
        grantpt(&keyboard).expect("a terminal");
        unlockpt(&keyboard).expect("a terminal");
        tcsetwinsize(&keyboard, winsize(columns, rows)).expect("a size");
        ioctl_fionbio(&keyboard, true).expect("reads that do not wait");
        let path = ptsname(&keyboard, Vec::new()).expect("its name").into_string().expect("a path");
        let terminal = OpenOptions::new().read(true).write(true).open(path).expect("the terminal");
        let stream = || terminal.try_clone().expect("a stream");
        let child = command.stdin(stream()).stdout(stream()).stderr(stream()).spawn().expect("it starts");
        let picture = Parser::new(cells(rows), cells(columns), 0);
        let shown = Arc::new(Mutex::new(Shown { bytes: Vec::new(), picture }));
        let (keyboard, is_over) = (File::from(keyboard), Arc::new(AtomicBool::new(false)));
        let reader = reader(keyboard.try_clone().expect("a stream"), shown.clone(), is_over.clone());
        Self { child, keyboard, terminal, shown, is_over, reader: Some(reader) }
    }

    /// The lines of the picture, without the blanks at their ends.
    pub(crate) fn lines(&self) -> Vec<String> {
        let shown = self.shown.lock().expect("no panic");
        let screen = shown.picture.screen();
        screen.rows(0, screen.size().1.get()).map(|line| line.trim_end().to_owned()).collect()
    }

    pub(crate) fn text(&self) -> String {
        self.lines().join("\n")
    }

    /// Everything that the program has written.
    pub(crate) fn bytes(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().expect("no panic").bytes).into_owned()
    }

    /// Waits until the picture has a text.
    #[track_caller]
    pub(crate) fn shows(&self, text: &str) {
        self.comes_to(&format!("{text:?} is shown"), |shown| shown.contains(text));
    }

    /// Waits until something is so of the text of the picture.
    #[track_caller]
    pub(crate) fn comes_to(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        let end = Instant::now() + PATIENCE;
        loop {
            let text = self.text();
            if is_so(&text) {
                return;
            }
            assert!(Instant::now() < end, "waited in vain until {what}; the last picture:\n{text}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether a cell has a colour.
    pub(crate) fn has_colours(&self) -> bool {
        let shown = self.shown.lock().expect("no panic");
        let screen = shown.picture.screen();
        let (rows, columns) = screen.size();
        let mut cells = (0..rows.get()).flat_map(|row| (0..columns.get()).map(move |column| (row, column)));
        cells.any(|(row, column)| screen.cell(row, column).is_some_and(|cell| cell.fgcolor() != vt100::Color::Default))
    }

    pub(crate) fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("keys go in");
    }

    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        self.shown.lock().expect("no panic").picture.screen_mut().set_size(cells(rows), cells(columns));
        tcsetwinsize(&self.keyboard, winsize(columns, rows)).expect("a size");
    }

    /// Waits until the terminal is as it was before: lines are edited and echoed, the cursor is there, and so is the former screen.
    #[track_caller]
    pub(crate) fn is_restored(&self) {
        until("the terminal is as it was", || {
            let modes = tcgetattr(&self.terminal).expect("its modes").local_modes;
            let shown = self.shown.lock().expect("no panic");
            let screen = shown.picture.screen();
            let is_usual = !screen.alternate_screen() && !screen.hide_cursor();
            modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG) && is_usual
        });
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a pid")
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("its state").is_none()
    }

    /// Waits for the end of the program.
    #[track_caller]
    pub(crate) fn ends(&mut self) -> ExitStatus {
        until("the program ends", || !self.is_running());
        self.child.wait().expect("its end")
    }

    /// Takes the terminal away, as the end of a connection does, and waits for the end of the program.
    #[track_caller]
    pub(crate) fn hang_up(mut self) -> ExitStatus {
        self.stop_reading();
        let null = || File::open("/dev/null").expect("nothing");
        drop((std::mem::replace(&mut self.keyboard, null()), std::mem::replace(&mut self.terminal, null())));
        self.ends()
    }

    fn stop_reading(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A test that fails leaves no process behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.stop_reading();
    }
}

/// A program that leads a session of its own with the terminal at its stdin. Interrupts are not ignored.
fn in_a_session(words: &[&str]) -> Command {
    let mut command = Command::new("setsid");
    command.args(["--ctty", "env", "--default-signal=HUP,INT,QUIT"]).args(words);
    command.env("TERM", "xterm-256color").env_remove("NO_COLOR").env_remove("LEASEHOLD_PASSWORD");
    command
}

fn reader(mut from: File, into: Arc<Mutex<Shown>>, is_over: Arc<AtomicBool>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut buffer = [0; 8192];
        while !is_over.load(Ordering::Relaxed) {
            match from.read(&mut buffer) {
                Ok(count @ 1..) => {
                    let mut shown = into.lock().expect("no panic");
                    shown.bytes.extend_from_slice(&buffer[..count]);
                    shown.picture.process(&buffer[..count]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(Duration::from_millis(2)),
                _ => break,
            }
        }
    })
}

/// Wants a picture to be as it is kept in a file below `tests/cli/screens`. With the variable `KEEP_SCREENS` the file is written anew.
#[track_caller]
pub(crate) fn is_kept(name: &str, picture: &str) {
    let path = format!("{}/tests/cli/screens/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let picture = format!("{picture}\n");
    if std::env::var_os("KEEP_SCREENS").is_some() {
        std::fs::write(&path, &picture).expect("the file can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(kept, picture, "{path}, and the picture:\n{picture}");
}
