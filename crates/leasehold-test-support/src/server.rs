//! One private server.

mod builder;

use std::{
    collections::BTreeMap,
    fmt,
    fs::{self, File},
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

pub use self::builder::ServerBuilder;
use crate::{
    Binary, Connection, Resp, Side,
    port::loopback,
    proxy::watch::name_in,
    reaper::{self, ScratchDir},
    tls::Ca,
    until,
};

/// A private server on loopback, killed when the handle is dropped, and with the process that started it.
pub struct Server {
    binary: Binary,
    port: u16,
    tls: Option<(u16, Ca)>,
    unix_socket: Option<PathBuf>,
    password: Option<String>,
    sentinel: bool,
    environment: Vec<(&'static str, PathBuf)>,
    side: Option<Side>,
    child: Mutex<Option<Child>>,
    connection: Mutex<Option<Connection>>,
    // Dropped after the process has been ended by `Drop`.
    dir: ScratchDir,
}

impl Server {
    /// Starts a server with the usual settings: no password, no persistence, no eviction.
    ///
    /// # Panics
    ///
    /// When there is no server program or it does not start.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// A server with settings.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// The URL at which a client reaches it, with the password of the default user: by TLS or by the unix socket where it was
    /// built so.
    #[must_use]
    pub fn url(&self) -> String {
        match (&self.unix_socket, &self.tls) {
            // A URL can have a password only beside a host, which is of no account here.
            (Some(path), _) if self.password.is_some() => {
                format!("redis+unix://{}localhost{}", self.credentials(), path.display())
            }
            (Some(path), _) => format!("redis+unix://{}", path.display()),
            (None, Some((port, _))) => self.tcp_url(*port),
            (None, None) => self.tcp_url(self.port),
        }
    }

    /// The URL by TCP, with another port: that of a proxy.
    pub(crate) fn tcp_url(&self, port: u16) -> String {
        let scheme = if self.tls.is_some() { "rediss" } else { "redis" };
        format!("{scheme}://{}127.0.0.1:{port}", self.credentials())
    }

    /// The port of plain connections, which is there also beside TLS and a unix socket.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address of plain connections from this process.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.side.as_ref().map_or_else(|| loopback(self.port), |side| (side.outside, self.port).into())
    }

    /// The address of plain connections from other servers, and from their clients.
    #[must_use]
    pub fn peer_addr(&self) -> SocketAddr {
        self.side.as_ref().map_or_else(|| loopback(self.port), |side| (side.linked, self.port).into())
    }

    /// The address of TLS connections, if it was built with them.
    #[must_use]
    pub fn tls_addr(&self) -> Option<SocketAddr> {
        self.tls.as_ref().map(|(port, _)| loopback(*port))
    }

    /// The certificate authority to trust, in PEM.
    ///
    /// # Panics
    ///
    /// When the server was built without TLS.
    #[must_use]
    pub fn ca_pem(&self) -> String {
        self.ca().pem()
    }

    /// The certificate authority, to issue a certificate for a client with.
    ///
    /// # Panics
    ///
    /// When the server was built without TLS.
    #[must_use]
    pub fn ca(&self) -> &Ca {
        &self.tls.as_ref().expect("a server that was built with .tls()").1
    }

    /// The path of the unix socket, if it was built with one.
    #[must_use]
    pub fn unix_socket(&self) -> Option<&Path> {
        self.unix_socket.as_deref()
    }

    /// The number of its process.
    ///
    /// # Panics
    ///
    /// When it was killed and not restarted.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child().as_ref().expect("a server that runs").id()
    }

    /// The program that it runs.
    #[must_use]
    pub fn binary(&self) -> &Binary {
        &self.binary
    }

    /// The directory of its files: `server.log`, `server.conf`, and what it persists.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A connection of the caller's own, authenticated as the default user.
    pub fn connect(&self) -> io::Result<Connection> {
        let mut connection = Connection::connect(self.addr())?;
        if let Some(password) = &self.password {
            connection.auth(None, password)?;
        }
        Ok(connection)
    }

    /// Sends one command on a connection that is kept, and returns its reply; an error reply is a reply.
    ///
    /// # Panics
    ///
    /// When the server does not answer within a minute.
    #[track_caller]
    pub fn command<A: AsRef<[u8]>>(&self, argv: &[A]) -> Resp {
        match self.command_within(argv, Duration::from_secs(60)) {
            Ok(reply) => reply,
            Err(error) => panic!("{self:?} did not answer: {error}"),
        }
    }

    /// As [`Server::command`], with a timeout of five seconds for a server that may be down or stopped. After an error
    /// the command may have been applied.
    pub fn try_command<A: AsRef<[u8]>>(&self, argv: &[A]) -> io::Result<Resp> {
        self.command_within(argv, Duration::from_secs(5))
    }

    fn command_within<A: AsRef<[u8]>>(&self, argv: &[A], patience: Duration) -> io::Result<Resp> {
        let mut kept = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        connection.set_read_timeout(patience)?;
        let reply = connection.command(argv)?;
        *kept = Some(connection);
        Ok(reply)
    }

    /// A field of `INFO`, such as `run_id`, `connected_clients` or `rejected_connections`.
    #[track_caller]
    pub fn info(&self, field: &str) -> Option<String> {
        self.info_of("all", field)
    }

    /// The name of its process: the beginning of its run id, and its port. `None` where it does not answer. A [`Watch`](crate::Watch) is
    /// told the same name.
    pub fn process(&self) -> Option<String> {
        name_in(self.try_command(&["INFO", "server"]).ok()?.as_str()?)
    }

    /// How often a command was called since the start or `CONFIG RESETSTAT`, calls from within scripts included. The name is
    /// in lower case; a subcommand is written `client|kill`.
    #[track_caller]
    pub fn commandstats(&self, command: &str) -> u64 {
        let stats = self.info_of("commandstats", &format!("cmdstat_{command}"));
        let calls = stats.as_deref().and_then(|stats| stats.strip_prefix("calls=")?.split(',').next()?.parse().ok());
        calls.unwrap_or(0)
    }

    /// The connected clients as `CLIENT LIST` has them: the fields of each by name.
    #[track_caller]
    pub fn client_list(&self) -> Vec<BTreeMap<String, String>> {
        let reply = self.command(&["CLIENT", "LIST"]);
        let text = reply.as_str().expect("CLIENT LIST answers a text");
        let fields = |line: &str| line.split(' ').filter_map(|field| field.split_once('=')).map(owned).collect();
        text.lines().map(fields).collect()
    }

    /// Stops the process (SIGSTOP): connections stay, and nothing is answered. Returns when it has stopped.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
        let stat = format!("/proc/{}/stat", self.pid());
        if Path::new(&stat).exists() {
            until("the server has stopped", || process_state(&stat) == Some('T'));
        }
    }

    /// Lets a stopped process go on (SIGCONT).
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Whether the process runs: it is neither killed nor stopped.
    #[must_use]
    pub fn is_up(&self) -> bool {
        let pid = self.child().as_ref().map(Child::id);
        pid.is_some_and(|pid| process_state(&format!("/proc/{pid}/stat")) != Some('T'))
    }

    /// Kills the process (SIGKILL) and waits for its end. Nothing is saved. Without effect when it is dead already.
    pub fn kill(&self) {
        self.forget_connection();
        if let Some(mut child) = self.child().take() {
            let _ = child.kill();
            reaper::disown(child.id());
            let _ = child.wait();
        }
    }

    /// Kills the process if it runs, and starts it again with the same port and settings. It comes back empty unless it was
    /// built with persistence.
    ///
    /// # Panics
    ///
    /// When it does not start.
    #[track_caller]
    pub fn restart(&self) {
        self.kill();
        if let Err(error) = self.launch() {
            panic!("{self:?} did not start again: {error}");
        }
    }

    /// As [`Server::restart`], without what it had written to disk, and with further lines of the configuration file.
    ///
    /// # Panics
    ///
    /// When it does not start.
    #[track_caller]
    pub fn restart_empty(&self, settings: &[(&str, &str)]) {
        self.kill();
        let path = self.dir().join("server.conf");
        let mut configuration = fs::read_to_string(&path).expect("the configuration of a server of ours");
        settings.iter().for_each(|(name, value)| configuration.push_str(&format!("\n{name} {value}\n")));
        fs::write(&path, configuration).expect("the configuration of a server of ours");
        for file in ["dump.rdb", "appendonly.aof"] {
            let _ = fs::remove_file(self.dir().join(file));
        }
        let _ = fs::remove_dir_all(self.dir().join("appendonlydir"));
        self.restart();
    }

    /// Starts the process and waits until it answers.
    fn launch(&self) -> io::Result<()> {
        let mut command = self.binary.start();
        command.arg(self.dir().join("server.conf"));
        if self.sentinel {
            command.arg("--sentinel");
        }
        if let Some(side) = &self.side {
            command = side.run(&command);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let output = File::create(self.dir().join("server.out"))?;
        let child = command.stdin(Stdio::null()).stderr(output.try_clone()?).stdout(output).spawn()?;
        reaper::adopt(child.id());
        *self.child() = Some(child);
        self.wait_until_ready().inspect_err(|_| self.kill())
    }

    fn wait_until_ready(&self) -> io::Result<()> {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(status) = self.child().as_mut().and_then(|child| child.try_wait().transpose()) {
                return Err(io::Error::other(format!("the server ended with {:?}: {}", status?, self.last_words())));
            }
            // Another process that took the port would answer too.
            if self.answers_as(self.pid()) {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(io::Error::other(format!("the server is not ready: {}", self.last_words())));
            }
            std::thread::sleep(Duration::from_millis(3));
        }
    }

    fn answers_as(&self, pid: u32) -> bool {
        let reply = self.try_command(&["INFO", "server"]);
        let answers = reply.is_ok_and(|reply| field_of(&reply, "process_id") == Some(pid.to_string()));
        if !answers {
            self.forget_connection();
        }
        answers
    }

    fn last_words(&self) -> String {
        let read = |name| fs::read_to_string(self.dir().join(name)).unwrap_or_default();
        let text = read("server.out") + &read("server.log");
        let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(5)..].join(" / ")
    }

    fn info_of(&self, section: &str, field: &str) -> Option<String> {
        field_of(&self.command(&["INFO", section]), field)
    }

    fn credentials(&self) -> String {
        self.password.as_ref().map(|password| format!(":{password}@")).unwrap_or_default()
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid().cast_signed()).expect("the number of a process is positive");
        kill_process(pid, signal).expect("a signal to a server of ours");
    }

    fn forget_connection(&self) {
        *self.connection.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.binary, self.addr())
    }
}

fn field_of(info: &Resp, field: &str) -> Option<String> {
    let lines = info.as_str()?.lines();
    lines.filter_map(|line| line.split_once(':')).find(|(name, _)| *name == field).map(|(_, value)| value.to_owned())
}

/// The third field of the file, after the name in parentheses.
fn process_state(stat: &str) -> Option<char> {
    fs::read_to_string(stat).ok()?.rsplit_once(") ")?.1.chars().next()
}

fn owned((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[cfg(test)]
mod tests;
