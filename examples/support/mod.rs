//! The part that the examples share: where their clients come from, and how a story is told.

#![expect(clippy::mod_module_files, reason = "cargo takes every file in examples/ for an example")]

use leasehold::embedded::EmbeddedServer;
use leasehold::{Client, ClientBuilder, ConnectError};
use std::fmt::Display;
use std::time::Instant;

/// The engine on which the story takes place, and its clock.
pub(crate) struct Stage {
    pub(crate) place: Place,
    /// The beginning of the names of all keys of the story.
    pub(crate) prefix: String,
    opened: Instant,
}

/// A server, or an engine inside this process.
pub(crate) enum Place {
    Server(String),
    Process(EmbeddedServer),
}

impl Stage {
    /// Takes the server that `LEASEHOLD_URL` names, or an engine inside this process where it names none.
    pub(crate) fn open(title: &str) -> Self {
        let place = match std::env::var("LEASEHOLD_URL") {
            Ok(url) => Place::Server(url),
            Err(_) => Place::Process(EmbeddedServer::new()),
        };
        println!("{title}");
        match &place {
            // A URL may carry a password.
            Place::Server(_) => println!("The locks are on the server that LEASEHOLD_URL names."),
            Place::Process(_) => {
                println!("The locks are on an engine inside this process; LEASEHOLD_URL=redis://… names a server.");
            }
        }
        println!();
        // Two runs on one server do not disturb each other, nor the locks of others.
        Self { place, prefix: format!("leasehold-example:{}:", std::process::id()), opened: Instant::now() }
    }

    /// The settings that all clients of the story share.
    pub(crate) fn builder(&self) -> ClientBuilder {
        Client::builder().prefix(self.prefix.as_str())
    }

    /// A client of the place.
    pub(crate) async fn client(&self, builder: ClientBuilder) -> Result<Client, ConnectError> {
        match &self.place {
            Place::Server(url) => builder.connect(url).await,
            Place::Process(server) => builder.embedded(server),
        }
    }

    /// Says what happens, and when.
    pub(crate) fn tell(&self, what: impl Display) {
        println!("{:>6} ms  {what}", self.opened.elapsed().as_millis());
    }
}
