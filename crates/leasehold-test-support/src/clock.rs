//! The wall clock of a server, moved by hand.

use std::{
    env,
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use crate::reaper::ScratchDir;

/// A wall clock that stands still until it is set, or one that runs and is stepped, for servers that are built [with it](crate::ServerBuilder::clock). A lease of a
/// minute then ends in microseconds, and exactly where the test says.
///
/// A small library in C is compiled and preloaded for that, so it needs Linux, a C compiler (`cc`, or what the environment variable
/// `CC` names) and a server program that is linked dynamically.
#[derive(Debug)]
pub struct WallClock {
    file: File,
    /// The variable by which a server finds the file.
    variable: &'static str,
    dir: ScratchDir,
}

impl WallClock {
    /// A clock that shows this many microseconds since the epoch.
    ///
    /// # Panics
    ///
    /// When its file cannot be made.
    #[must_use]
    #[track_caller]
    pub fn at_micros(micros: i64) -> Self {
        Self::make("LEASEHOLD_CLOCK", micros)
    }

    /// A clock that runs as that of the machine does, until it is stepped.
    ///
    /// # Panics
    ///
    /// When its file cannot be made.
    #[must_use]
    #[track_caller]
    pub fn running() -> Self {
        Self::make("LEASEHOLD_CLOCK_STEP", 0)
    }

    #[track_caller]
    fn make(variable: &'static str, micros: i64) -> Self {
        let dir = ScratchDir::new();
        let file = File::create_new(dir.path().join("clock")).expect("a file for the clock");
        let clock = Self { file, variable, dir };
        clock.write(micros);
        clock
    }

    /// Steps a running clock, so that it is so many microseconds ahead of the machine's; less than 0 is behind it. The monotonic clocks of
    /// its servers stay as they are.
    ///
    /// # Panics
    ///
    /// When its file cannot be written.
    #[track_caller]
    pub fn step_micros(&self, ahead: i64) {
        self.write(ahead);
    }

    /// Sets it, forward or back. Every command that is sent from now on is run at this time.
    ///
    /// # Panics
    ///
    /// When its file cannot be written.
    #[track_caller]
    pub fn set_micros(&self, micros: i64) {
        self.write(micros);
    }

    #[track_caller]
    fn write(&self, micros: i64) {
        self.file.write_all_at(&micros.to_ne_bytes(), 0).expect("the file of the clock can be written");
    }

    /// The variables in the environment of a server that make it go by this clock.
    pub(crate) fn environment(&self) -> io::Result<[(&'static str, PathBuf); 2]> {
        Ok([("LD_PRELOAD", library()?.to_owned()), (self.variable, self.dir.path().join("clock"))])
    }
}

/// The library that is preloaded, compiled once in a process.
fn library() -> io::Result<&'static Path> {
    static COMPILED: OnceLock<Result<(PathBuf, ScratchDir), String>> = OnceLock::new();
    let compiled = COMPILED.get_or_init(|| compile().map_err(|error| error.to_string()));
    compiled.as_ref().map(|(path, _)| path.as_path()).map_err(|error| io::Error::other(error.clone()))
}

fn compile() -> io::Result<(PathBuf, ScratchDir)> {
    if !cfg!(target_os = "linux") {
        return Err(io::Error::other("the clock of a server can be moved on Linux only"));
    }
    let dir = ScratchDir::new();
    let (source, library) = (dir.path().join("clock_shim.c"), dir.path().join("clock_shim.so"));
    fs::write(&source, include_str!("clock_shim.c"))?;
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let output =
        Command::new(&compiler).args(["-O1", "-shared", "-fPIC", "-o"]).args([&library, &source]).arg("-ldl").output();
    let output = output.map_err(|error| {
        io::Error::other(format!(
            "moving the clock of a server needs a C compiler, and {compiler:?} does not run: {error}"
        ))
    })?;
    if output.status.success() {
        return Ok((library, dir));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{compiler:?} does not compile the library that moves the clock of a server: {said}")))
}
