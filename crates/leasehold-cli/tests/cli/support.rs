//! Starting the command, watching what it prints, and asking the server and the system what there is.

use leasehold_test_support::{Resp, Server, eventually, until};
use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{ErrorKind, Read, Write as _};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A server for all tests that do no harm to it.
pub(crate) static SERVER: LazyLock<Server> = LazyLock::new(Server::start);

/// A name that no other test has.
pub(crate) fn name() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("cli:{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A path of a file that does not exist yet, gone with the server.
pub(crate) fn path(server: &Server) -> PathBuf {
    server.dir().join(name())
}

/// The command, for a server, without what the surroundings say of another one.
pub(crate) fn leasehold(server: &Server) -> Command {
    let mut command = bare();
    command.env("LEASEHOLD_URL", patient(&server.url()));
    command
}

/// A URL with time for a server, and for a command, that a busy machine lets wait.
pub(crate) fn patient(url: &str) -> String {
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}command_timeout=10s&connect_deadline=60s")
}

/// The command without a server.
pub(crate) fn bare() -> Command {
    let mut command = with_usual_signals(env!("CARGO_BIN_EXE_leasehold"));
    for variable in [
        "LEASEHOLD_URL",
        "REDIS_URL",
        "LEASEHOLD_PASSWORD",
        "LEASEHOLD_TLS_CA",
        "LEASEHOLD_TLS_CERT",
        "LEASEHOLD_TLS_KEY",
        "LEASEHOLD_NAME",
        "LEASEHOLD_HOLDER",
        "LEASEHOLD_HOLDERS",
        "LEASEHOLD_FENCING_TOKEN",
        "LEASEHOLD_PERIOD",
    ] {
        command.env_remove(variable);
    }
    // Without the configuration of this machine.
    command.env("LEASEHOLD_CONFIG", "/dev/null").stdin(Stdio::null());
    command
}

/// A program that the keys of a terminal interrupt, also where the tests run in the background of a shell, which has them ignore that.
pub(crate) fn with_usual_signals(program: &str) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,QUIT", program]);
    command
}

/// `leasehold run` with its options, up to and without the command.
pub(crate) fn run(server: &Server, options: &[&str]) -> Command {
    let mut command = leasehold(server);
    command.arg("run").args(options);
    command
}

/// `leasehold run` of a script for `sh`.
pub(crate) fn run_script(server: &Server, options: &[&str], script: &str) -> Command {
    let mut command = run(server, options);
    command.args(["--", "sh", "-c", script]);
    command
}

/// What a process has printed and how it ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Done {
    /// Its exit code; a death by a signal has none.
    #[track_caller]
    pub(crate) fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("died by signal {:?}: {self:?}", self.status.signal()))
    }

    /// The signal by which it died.
    #[track_caller]
    pub(crate) fn signal(&self) -> i32 {
        self.status.signal().unwrap_or_else(|| panic!("no death by a signal: {self:?}"))
    }

    /// The one line that it said on stderr.
    #[track_caller]
    pub(crate) fn line(&self) -> &str {
        let lines: Vec<_> = self.stderr.lines().collect();
        let [line] = lines[..] else { panic!("one line on stderr, not {self:?}") };
        line
    }

    /// Wants an exit code, and one line on stderr with these words.
    #[track_caller]
    pub(crate) fn fails_with(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code(), code, "{self:?}");
        let line = self.line();
        for word in words {
            assert!(line.contains(word), "{line:?} has {word:?}");
        }
    }
}

/// A process that runs.
pub(crate) struct Running {
    child: Child,
    is_over: Arc<AtomicBool>,
    stdout: Arc<Mutex<Vec<u8>>>,
    stderr: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
}

pub(crate) trait Start {
    /// Starts it.
    fn start(&mut self) -> Running;

    /// Runs it to its end.
    fn finish(&mut self) -> Done {
        self.start().finish()
    }
}

impl Start for Command {
    #[track_caller]
    fn start(&mut self) -> Running {
        let mut child = self.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
        let (stdout, stderr, is_over) = (Arc::default(), Arc::default(), Arc::default());
        let readers = vec![
            reader(child.stdout.take().expect("its stdout"), &stdout, &is_over),
            reader(child.stderr.take().expect("its stderr"), &stderr, &is_over),
        ];
        Running { child, is_over, stdout, stderr, readers }
    }
}

/// Reads until the pipe is closed, or is empty and the process is over: a grandchild that goes on has the pipe too.
fn reader(
    mut from: impl Read + AsFd + Send + 'static,
    into: &Arc<Mutex<Vec<u8>>>,
    is_over: &Arc<AtomicBool>,
) -> JoinHandle<()> {
    ioctl_fionbio(&from, true).expect("reads that do not wait");
    let (into, is_over) = (into.clone(), is_over.clone());
    thread::spawn(move || {
        let mut buffer = [0; 8192];
        loop {
            // What the process has written is in the pipe before it is over.
            let was_over = is_over.load(Ordering::Acquire);
            match from.read(&mut buffer) {
                Ok(count @ 1..) => into.lock().expect("no panic").extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock && !was_over => {
                    thread::sleep(Duration::from_millis(2));
                }
                _ => return,
            }
        }
    })
}

impl Running {
    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.stdout.lock().expect("no panic")).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr.lock().expect("no panic")).into_owned()
    }

    /// Waits until stdout has a whole line that begins so, and returns the rest of it.
    #[track_caller]
    pub(crate) fn says(&self, beginning: &str) -> String {
        let said = || {
            let text = self.stdout();
            let (whole, _) = text.rsplit_once('\n')?;
            whole.lines().find_map(|line| line.trim_end().strip_prefix(beginning)).map(str::to_owned)
        };
        eventually(&format!("{beginning:?} is printed"), said)
    }

    /// Waits until stdout has a text anywhere.
    #[track_caller]
    pub(crate) fn shows(&self, text: &str) {
        until(&format!("{text:?} is shown"), || self.stdout().contains(text));
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a pid")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    pub(crate) fn write(&mut self, text: &str) {
        let stdin = self.child.stdin.as_mut().expect("a stdin that is a pipe");
        stdin.write_all(text.as_bytes()).expect("the process reads");
        stdin.flush().expect("the process reads");
    }

    pub(crate) fn close_stdin(&mut self) {
        drop(self.child.stdin.take());
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("its state").is_none()
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn finish(self) -> Done {
        self.finish_within(Duration::from_secs(60))
    }

    /// The same, for a process that has many others before it.
    #[track_caller]
    pub(crate) fn finish_within(mut self, patience: Duration) -> Done {
        let end = Instant::now() + patience;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("its state") {
                break status;
            }
            let (said, complained) = (self.stdout(), self.stderr());
            assert!(Instant::now() < end, "it has not ended within {patience:?}: {said:?} {complained:?}");
            thread::sleep(Duration::from_millis(5));
        };
        self.is_over.store(true, Ordering::Release);
        until("its output is read", || self.readers.iter().all(JoinHandle::is_finished));
        Done { status, stdout: self.stdout(), stderr: self.stderr() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A test that fails leaves no process behind; its children go with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.is_over.store(true, Ordering::Release);
    }
}

pub(crate) fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).expect("a pid"), signal).expect("the process is there");
}

/// Whether a process runs; one that is dead and not yet waited for does not.
pub(crate) fn runs(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim().chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// The parent of a process; `None` once the process is dead and was waited for.
pub(crate) fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// The children of a process that run.
pub(crate) fn children(pid: i32) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("its threads").flatten();
    let of_task = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).unwrap_or_default();
    let all: Vec<_> = tasks.map(of_task).collect();
    all.iter()
        .flat_map(|line| line.split_whitespace())
        .filter_map(|pid| pid.parse().ok())
        .filter(|pid| runs(*pid))
        .collect()
}

/// The time that a process has used, in hundredths of a second.
pub(crate) fn ticks(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("its state");
    let (_, fields) = stat.rsplit_once(')').expect("its name");
    let fields: Vec<_> = fields.split_whitespace().collect();
    [11, 12].map(|at| fields[at].parse::<u64>().expect("ticks")).iter().sum()
}

/// Waits until a process does not run any more.
#[track_caller]
pub(crate) fn until_gone(pid: &str) {
    let pid = pid.trim().parse().expect("a pid");
    until("the process is gone", || !runs(pid));
}

/// Waits until a lock is held.
#[track_caller]
pub(crate) fn until_held(server: &Server, name: &str) {
    until("the lock is held", || exists(server, name));
}

/// Waits until the process that holds a lock has left its record.
#[track_caller]
pub(crate) fn until_announced(server: &Server, name: &str) {
    until("the holder has announced itself", || {
        let holders = texts(&server.command(&["HKEYS", name]));
        let client =
            holders.iter().find(|field| field.contains(':')).map(|field| field.split(':').next().unwrap_or(field));
        client.is_some_and(|client| exists(server, &format!("leasehold:1:client:{client}")))
    });
}

pub(crate) fn exists(server: &Server, key: &str) -> bool {
    server.command(&["EXISTS", key]).as_int() == Some(1)
}

/// Holds a lock as a process of a JVM does, for as long as `lease` says in milliseconds.
pub(crate) fn held_by_a_jvm(server: &Server, name: &str, lease: &str) {
    server.command(&["HSET", name, "6f0c0000-0000-4000-8000-000000000000:1", "1"]);
    server.command(&["PEXPIRE", name, lease]);
}

/// A lock that a process holds until the test ends it.
pub(crate) fn held(server: &Server, options: &[&str]) -> Running {
    let running = run_script(server, options, "echo in; read end").stdin(Stdio::piped()).start();
    running.says("in");
    running
}

/// The objects that the command has printed, one a line.
#[track_caller]
pub(crate) fn objects(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("an object: {line:?}"))).collect()
}

/// Releases it as a JVM does.
pub(crate) fn released_by_the_jvm(server: &Server, name: &str) {
    server.command(&["DEL", name]);
    server.command(&["PUBLISH", &format!("redisson_lock__channel:{{{name}}}"), "0"]);
}

/// The lines of a file; none while it does not exist.
pub(crate) fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// The elements of a list of texts.
pub(crate) fn texts(reply: &Resp) -> Vec<String> {
    reply.elements().iter().filter_map(Resp::as_str).map(str::to_owned).collect()
}
