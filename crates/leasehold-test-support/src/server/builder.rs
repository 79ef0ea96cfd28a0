//! The settings of a server, and its start.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    sync::{Arc, Mutex},
};

use super::Server;
use crate::{
    Binary, Flavor, Side, WallClock, port,
    reaper::ScratchDir,
    tls::{Ca, Issued},
};

/// The settings of a [`Server`]. A setting that is not given is the server's own default, save that nothing is persisted.
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing itself, use .start()"]
pub struct ServerBuilder {
    binary: Option<Binary>,
    settings: Vec<(String, String)>,
    password: Option<String>,
    tls: Option<fn(&Ca) -> Issued>,
    unix_socket: bool,
    sentinel: bool,
    clock: Option<Arc<WallClock>>,
    side: Option<Side>,
}

impl ServerBuilder {
    /// The program to run. Default: [`Binary::any`], or one that speaks TLS where that is asked for.
    pub fn binary(mut self, binary: &Binary) -> Self {
        self.binary = Some(binary.clone());
        self
    }

    /// One line of the configuration file, such as `("maxmemory", "10mb")` or `("appendonly", "yes")`. Later lines win.
    pub fn arg(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The password of the default user.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.arg("requirepass", password)
    }

    /// A further user, as an ACL rule: `"app on >secret ~app:* &* +@all"`.
    pub fn user(self, acl_rule: &str) -> Self {
        self.arg("user", acl_rule)
    }

    /// Speaks TLS on a port of its own, with a certificate for `localhost` and `127.0.0.1` of a private authority. Clients need
    /// no certificate unless `.arg("tls-auth-clients", "yes")` says so.
    pub fn tls(self) -> Self {
        self.tls_with(|ca| ca.issue(&["localhost", "127.0.0.1"]))
    }

    /// The same with another certificate, such as one that has expired.
    pub fn tls_with(mut self, issue: fn(&Ca) -> Issued) -> Self {
        self.tls = Some(issue);
        self
    }

    /// Listens on a unix socket too.
    pub fn unix_socket(mut self) -> Self {
        self.unix_socket = true;
        self
    }

    /// Goes by this clock, in everything that has to do with the wall time: `TIME`, and the lives of keys.
    pub fn clock(mut self, clock: &Arc<WallClock>) -> Self {
        self.clock = Some(clock.clone());
        self
    }

    /// Runs on one side of a [`Divide`](crate::Divide).
    pub fn on(mut self, side: &Side) -> Self {
        self.side = Some(side.clone());
        self.arg("bind", "0.0.0.0").arg("protected-mode", "no")
    }

    /// Runs as a sentinel instead.
    pub(crate) fn sentinel(mut self) -> Self {
        self.sentinel = true;
        self
    }

    /// Starts it and waits until it answers.
    ///
    /// # Panics
    ///
    /// When there is no server program or it does not start.
    #[must_use]
    #[track_caller]
    pub fn start(self) -> Server {
        match self.try_start() {
            Ok(server) => server,
            Err(error) => panic!("{error}"),
        }
    }

    /// As [`ServerBuilder::start`], for settings that a server may refuse.
    pub fn try_start(&self) -> io::Result<Server> {
        let binary = match &self.binary {
            Some(binary) => binary.clone(),
            None if self.tls.is_some() => Binary::with_tls().map_err(io::Error::other)?,
            None => Binary::any().map_err(io::Error::other)?,
        };
        // Another process can take a free port before the server does; a server that fails for another reason fails again.
        let mut attempts = 0;
        loop {
            let server = self.prepare(&binary)?;
            match server.launch() {
                Ok(()) => return Ok(server),
                Err(error) if attempts == 5 || !error.to_string().contains("in use") => return Err(error),
                Err(_) => attempts += 1,
            }
        }
    }

    fn prepare(&self, binary: &Binary) -> io::Result<Server> {
        let dir = ScratchDir::new();
        let server = Server {
            binary: binary.clone(),
            port: port::free(),
            tls: self.tls.map(|_| (port::free(), Ca::new())),
            unix_socket: self.unix_socket.then(|| dir.path().join("server.sock")),
            password: self.password.clone(),
            sentinel: self.sentinel,
            environment: self
                .clock
                .as_ref()
                .map_or_else(|| Ok(Vec::new()), |clock| clock.environment().map(Vec::from))?,
            side: self.side.clone(),
            child: Mutex::new(None),
            connection: Mutex::new(None),
            dir,
        };
        if let (Some((_, ca)), Some(issue)) = (&server.tls, self.tls) {
            let issued = issue(ca);
            let files = [("ca.pem", ca.pem()), ("cert.pem", issued.cert_pem), ("key.pem", issued.key_pem)];
            for (name, pem) in files {
                fs::write(server.dir().join(name), pem)?;
            }
        }
        let path = server.dir().join("server.conf");
        fs::write(&path, self.configuration(&server))?;
        // It may hold passwords.
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        Ok(server)
    }

    fn configuration(&self, server: &Server) -> String {
        let file = |name: &str| server.dir().join(name).display().to_string();
        let mut lines = vec![
            "bind 127.0.0.1".to_owned(),
            format!("port {}", server.port),
            format!("dir {}", server.dir().display()),
            format!("logfile {}", file("server.log")),
        ];
        if !self.sentinel {
            lines.extend(["save \"\"", "appendonly no"].map(str::to_owned));
            // Older Redis allows DEBUG without a word and does not know the setting.
            if server.binary.flavor == Flavor::Valkey || server.binary.version.major >= 7 {
                // A server on one side of a divide is not reached by a local address.
                let who = if self.side.is_some() { "yes" } else { "local" };
                lines.push(format!("enable-debug-command {who}"));
            }
        }
        if let Some((port, _)) = &server.tls {
            lines.push(format!("tls-port {port}"));
            lines.push("tls-auth-clients no".to_owned());
            let files = [("tls-ca-cert-file", "ca.pem"), ("tls-cert-file", "cert.pem"), ("tls-key-file", "key.pem")];
            lines.extend(files.map(|(setting, name)| format!("{setting} {}", file(name))));
        }
        if let Some(path) = &server.unix_socket {
            lines.push(format!("unixsocket {}", path.display()));
        }
        lines.extend(self.settings.iter().map(|(name, value)| format!("{name} {value}")));
        lines.join("\n") + "\n"
    }
}
