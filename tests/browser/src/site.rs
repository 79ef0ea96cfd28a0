//! `leasehold serve` and `leasehold run` as processes. They end with their handles.

use crate::programs;
use leasehold_test_support::Server;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};

/// The token of the page.
pub(crate) const TOKEN: &str = "a token of 24 letters or so";

/// `leasehold serve`, until it is dropped.
pub(crate) struct Site {
    process: Process,
    /// The address and the port, such as `127.0.0.1:40001`.
    pub(crate) address: String,
}

/// A process, until it is dropped.
struct Process(Child);

/// `leasehold run`, until it is dropped: then it is killed, as by `kill -9`.
pub(crate) struct Holder {
    process: Process,
    stdin: Option<ChildStdin>,
}

impl Site {
    pub(crate) fn of(server: &Server, words: &[&str]) -> Self {
        Self::at(server, "127.0.0.1:0", words)
    }

    /// The page at a given address.
    pub(crate) fn at(server: &Server, listen: &str, words: &[&str]) -> Self {
        Self::started(server, &[&["--listen", listen], words].concat())
    }

    /// The page with these options and no others.
    pub(crate) fn started(server: &Server, words: &[&str]) -> Self {
        let mut command = leasehold(server);
        command.arg("serve").args(words).env("LEASEHOLD_SERVE_TOKEN", TOKEN);
        let (process, line) = started(command, "listening on http://");
        Self { process, address: line.trim_end_matches('/').to_owned() }
    }

    /// Stops the process, as a machine that stands still does, or has it go on.
    pub(crate) fn freeze(&self, is_frozen: bool) {
        let signal = if is_frozen { Signal::STOP } else { Signal::CONT };
        let pid = Pid::from_child(&self.process.0);
        kill_process(pid, signal).expect("the process is there");
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The text behind an address, read without a browser.
    pub(crate) fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address);
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        text
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
    }
}

impl Holder {
    /// Takes a lock, and holds it until it is told to end.
    pub(crate) fn of(server: &Server, name: &str, options: &[&str]) -> Self {
        let mut command = leasehold(server);
        command.arg("run").args(options).args([name, "--", "sh", "-c", "echo in; read end"]).stdin(Stdio::piped());
        let (mut process, _) = started(command, "in");
        let stdin = process.0.stdin.take();
        Self { process, stdin }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// Waits for a lock that another one holds.
    pub(crate) fn waiting(server: &Server, name: &str, options: &[&str]) -> Self {
        let mut command = leasehold(server);
        command.arg("run").args(options).args([name, "--", "true"]);
        Self { process: Process(command.spawn().expect("leasehold starts")), stdin: None }
    }

    /// Has it release the lock.
    pub(crate) fn end(mut self) {
        drop(self.stdin.take());
        let _ = self.process.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port of loopback that is free.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address").port()
}

fn leasehold(server: &Server) -> Command {
    let mut command = Command::new(programs::leasehold());
    for variable in ["REDIS_URL", "LEASEHOLD_PASSWORD", "LEASEHOLD_NAME", "LEASEHOLD_HOLDER"] {
        command.env_remove(variable);
    }
    command.env("LEASEHOLD_URL", server.url()).stdin(Stdio::null()).stderr(Stdio::null());
    command
}

/// Starts it, and waits for a line with this beginning, of which it returns the rest.
fn started(mut command: Command, beginning: &str) -> (Process, String) {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("leasehold starts");
    let lines = BufReader::new(child.stdout.take().expect("its stdout")).lines();
    let process = Process(child);
    let line = lines.map_while(Result::ok).find_map(|line| line.strip_prefix(beginning).map(str::to_owned));
    (process, line.unwrap_or_else(|| panic!("{beginning:?} is said")))
}
