//! The program `leasehold` beside a JVM: a process that a case starts, hears and sees end.
//!
//! It is the one that cargo has built beside this test. `cargo xtask interop` has it built first.

use crate::world::World;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

/// The longest that a line, or the end of the process, may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A command of `run` that says the id of its hold, and ends when its input ends.
pub(crate) const UNTIL_CLOSED: [&str; 4] = ["--", "sh", "-c", "echo $LEASEHOLD_HOLDER; exec cat"];

/// A process of the program. It is killed with its handle, and the command that it runs with it.
pub(crate) struct Program {
    process: Child,
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    complaints: ChildStderr,
}

/// What a process has said, and how it ended.
#[derive(Debug)]
pub(crate) struct Done {
    /// Its exit code; a death by a signal has none.
    pub(crate) code: Option<i32>,
    /// The lines of its output that nothing has heard before.
    pub(crate) lines: Vec<String>,
    pub(crate) complaint: String,
}

impl Program {
    /// Starts it for the server of this world.
    pub(crate) fn start(world: &World, words: &[&str]) -> Self {
        let mut command = Command::new(path());
        command.args(words);
        Self::of(world, command)
    }

    /// The same at a terminal, on which it says everything, and which types what [`Program::say`] is given. The words need no quotes.
    pub(crate) fn at_a_terminal(world: &World, words: &[&str]) -> Self {
        let line = format!("'{}' {}", path().display(), words.join(" "));
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--flush", "--command", &line, "/dev/null"]).env("SHELL", "sh");
        Self::of(world, command)
    }

    fn of(world: &World, mut command: Command) -> Self {
        for variable in ["REDIS_URL", "LEASEHOLD_PASSWORD", "LEASEHOLD_NAME", "LEASEHOLD_FENCING_TOKEN"] {
            command.env_remove(variable);
        }
        command.env("LEASEHOLD_URL", world.shared.place.url()).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("the program; run this by `cargo xtask interop`, which builds it");
        let input = process.stdin.take();
        let lines = BufReader::new(process.stdout.take().expect("its output")).lines();
        let complaints = process.stderr.take().expect("its complaints");
        Self { process, input, lines, complaints }
    }

    /// Runs it to its end, with an empty input.
    pub(crate) async fn finish_of(world: &World, words: &[&str]) -> Done {
        Self::start(world, words).finish().await
    }

    /// The next line that it says.
    pub(crate) async fn hear(&mut self) -> String {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("it said nothing for {PATIENCE:?}")).expect("its output");
        if let Some(line) = line {
            return line;
        }
        let mut complaint = String::new();
        self.complaints.read_to_string(&mut complaint).await.expect("its complaints");
        panic!("it ended instead of speaking: {complaint:?}");
    }

    /// Gives it a line.
    pub(crate) async fn say(&mut self, line: &str) {
        let input = self.input.as_mut().expect("an open input");
        input.write_all(format!("{line}\n").as_bytes()).await.expect("a process that listens");
    }

    /// It says nothing for that long, and does not end.
    pub(crate) async fn is_silent_for(&mut self, time: Duration) {
        let said = tokio::time::timeout(time, self.lines.next_line()).await;
        assert!(said.is_err(), "it is to wait, and said {said:?}");
    }

    /// Closes its input, and waits for its end.
    pub(crate) async fn finish(mut self) -> Done {
        drop(self.input.take());
        let ended = async {
            let (mut lines, mut complaint) = (Vec::new(), String::new());
            while let Some(line) = self.lines.next_line().await.expect("its output") {
                lines.push(line);
            }
            self.complaints.read_to_string(&mut complaint).await.expect("its complaints");
            let status = self.process.wait().await.expect("its end");
            Done { code: status.code(), lines, complaint }
        };
        tokio::time::timeout(PATIENCE, ended).await.unwrap_or_else(|_| panic!("it has not ended within {PATIENCE:?}"))
    }
}

impl Done {
    /// Wants an exit code, and these words in what it complained of.
    #[track_caller]
    pub(crate) fn fails_with(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        for word in words {
            assert!(self.complaint.contains(word), "{self:?} has {word:?}");
        }
    }

    /// Wants success and no complaint, and returns the lines.
    #[track_caller]
    pub(crate) fn succeeds(self) -> Vec<String> {
        assert_eq!((self.code, self.complaint.as_str()), (Some(0), ""), "{self:?}");
        self.lines
    }

    /// Wants success and a note of which this is a part, and returns the lines.
    #[track_caller]
    pub(crate) fn succeeds_with_note(self, part: &str) -> Vec<String> {
        let is_noted = self.complaint.lines().count() == 1 && self.complaint.contains(part);
        assert!(self.code == Some(0) && is_noted, "{part} in {self:?}");
        self.lines
    }
}

/// The program lies in the folder above that of this test, whichever target directory and target cargo was told.
fn path() -> PathBuf {
    let test = std::env::current_exe().expect("this program");
    let folder = test.parent().and_then(|deps| deps.parent()).expect("a folder of artifacts");
    folder.join(format!("leasehold{}", std::env::consts::EXE_SUFFIX))
}
