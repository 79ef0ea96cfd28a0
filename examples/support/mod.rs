//! Shared code of the examples: clients, and output with timestamps.

#![expect(clippy::mod_module_files, reason = "cargo treats every file in examples/ as an example")]

use leasehold::embedded::EmbeddedServer;
use leasehold::{Client, ClientBuilder, ConnectError};
use std::fmt::Display;
use std::time::Instant;

/// The server or engine of an example, and its clock.
pub(crate) struct Stage {
    pub(crate) place: Place,
    /// The prefix of all keys of the example.
    pub(crate) prefix: String,
    opened: Instant,
}

/// A server, or an in-process engine.
pub(crate) enum Place {
    Server(String),
    Process(EmbeddedServer),
}

impl Stage {
    /// Uses the server in `LEASEHOLD_URL`, or an in-process engine if the variable is unset.
    pub(crate) fn open(title: &str) -> Self {
        let place = match std::env::var("LEASEHOLD_URL") {
            Ok(url) => Place::Server(url),
            Err(_) => Place::Process(EmbeddedServer::new()),
        };
        println!("{title}");
        match &place {
            // Do not print the URL, which may contain a password.
            Place::Server(_) => println!("The locks are on the server that LEASEHOLD_URL names."),
            Place::Process(_) => {
                println!("The locks are on an engine inside this process; LEASEHOLD_URL=redis://… names a server.");
            }
        }
        println!();
        // A unique prefix separates concurrent runs and other locks on one server.
        Self { place, prefix: format!("leasehold-example:{}:", std::process::id()), opened: Instant::now() }
    }

    /// Returns the common settings of all clients.
    pub(crate) fn builder(&self) -> ClientBuilder {
        Client::builder().prefix(self.prefix.as_str())
    }

    /// Creates a client of the server or engine.
    pub(crate) async fn client(&self, builder: ClientBuilder) -> Result<Client, ConnectError> {
        match &self.place {
            Place::Server(url) => builder.connect(url).await,
            Place::Process(server) => builder.embedded(server),
        }
    }

    /// Prints an event and its time.
    pub(crate) fn tell(&self, what: impl Display) {
        println!("{:>6} ms  {what}", self.opened.elapsed().as_millis());
    }
}
