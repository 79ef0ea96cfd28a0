//! The options that every command has.

use clap::Args;
use std::path::PathBuf;

/// The server, and the form of what is printed.
#[derive(Args, Debug)]
pub(crate) struct ServerOptions {
    /// The server: redis://host:6379, rediss:// with TLS, redis-sentinel://, redis-cluster:// or redis+unix:///path
    ///
    /// Default: the environment variable LEASEHOLD_URL, or else REDIS_URL. A URL on the command line must not have a password, because
    /// every user of the machine can read it there.
    #[arg(long, global = true, value_name = "URL", help_heading = "Server")]
    pub(crate) url: Option<String>,
    /// The file that has the password, read at each connect; without it, the environment variable LEASEHOLD_PASSWORD, if it is set
    #[arg(long, global = true, value_name = "FILE", help_heading = "Server")]
    pub(crate) password_file: Option<PathBuf>,
    /// Put in front of every name of a lock
    #[arg(long, global = true, value_name = "TEXT", help_heading = "Server")]
    pub(crate) prefix: Option<String>,
    /// Trust these certificate authorities (PEM) instead of the operating system's; LEASEHOLD_TLS_CA names them too
    #[arg(long, global = true, value_name = "FILE", help_heading = "Server")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Show this certificate chain (PEM) to the server; LEASEHOLD_TLS_CERT names it too
    #[arg(long, global = true, value_name = "FILE", help_heading = "Server")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key (PEM) of --tls-cert, without a passphrase; LEASEHOLD_TLS_KEY names it too
    #[arg(long, global = true, value_name = "FILE", help_heading = "Server")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Print JSON, one object a line; errors too
    #[arg(long, global = true)]
    pub(crate) json: bool,
}
