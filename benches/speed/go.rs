//! The peers that are written in Go: a process of their own, which is told what to do line by line.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// The process, where there is a Go to build it with.
pub(crate) struct Go {
    process: Child,
    tasks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// The times of some pairs.
pub(crate) struct Pairs {
    pub(crate) number: f64,
    pub(crate) all: Duration,
    pub(crate) half: Duration,
    pub(crate) tail: Duration,
    pub(crate) processor: Duration,
}

impl Go {
    /// Builds and starts the peers; says why there are none otherwise.
    pub(crate) fn start(server: SocketAddr) -> Result<Self, String> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/go");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-peers");
        let built = Command::new("go").arg("build").arg("-o").arg(&program).arg(".").current_dir(source).output();
        let built = built.map_err(|error| format!("there is no Go here ({error})"))?;
        if !built.status.success() {
            return Err(format!("they cannot be built: {}", String::from_utf8_lossy(&built.stderr).trim()));
        }
        let started =
            Command::new(&program).arg(server.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = started.map_err(|error| format!("they cannot be started ({error})"))?;
        let tasks = process.stdin.take().expect("a pipe");
        let answers = BufReader::new(process.stdout.take().expect("a pipe"));
        Ok(Self { process, tasks, answers })
    }

    /// Has each of so many goroutines acquire and release a lock of its own so many times.
    pub(crate) fn repeat(&mut self, library: &str, workers: usize, pairs: usize) -> Pairs {
        writeln!(self.tasks, "{library} {workers} {pairs}").expect("it reads");
        let mut answer = String::new();
        let _ = self.answers.read_line(&mut answer).expect("it answers");
        let figures: Vec<u64> = answer.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        let [number, all, half, tail, processor] = figures[..] else { panic!("{library} failed: see above") };
        #[expect(clippy::cast_precision_loss, reason = "a rate is made of it")]
        let number = number as f64;
        let [all, half, tail, processor] = [all, half, tail, processor].map(Duration::from_nanos);
        Pairs { number, all, half, tail, processor }
    }
}

impl Drop for Go {
    fn drop(&mut self) {
        // It only reads what it is told to do.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
