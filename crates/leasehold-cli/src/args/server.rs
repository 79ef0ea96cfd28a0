//! The options that all commands share.

use crate::config::FromFile;
use clap::Args;
use std::path::PathBuf;

/// The server, its credentials, and the output format.
#[derive(Args, Debug)]
pub(crate) struct ServerOptions {
    /// URL of the server [env: LEASEHOLD_URL]
    ///
    /// redis://host:6379, rediss://host:6379 with TLS, redis-sentinel://, redis-cluster:// or redis+unix:///path.
    ///
    /// The default is the environment variable LEASEHOLD_URL, then REDIS_URL, then the configuration file: LEASEHOLD_CONFIG,
    /// or /etc/leasehold.toml, with lines such as url = "redis://db:6379", password-file, prefix, tls-ca, tls-cert and
    /// tls-key. A URL on the command line must not contain a password, because every user of the machine can read it there.
    #[arg(long, global = true, value_name = "URL", help_heading = "Server")]
    pub(crate) url: Option<String>,
    /// File with the password [env: LEASEHOLD_PASSWORD]
    ///
    /// Each connection attempt reads the file. The variable contains the password itself.
    #[arg(long, global = true, value_name = "FILE", help_heading = "Server")]
    pub(crate) password_file: Option<PathBuf>,
    /// Prefix of every lock name
    #[arg(long, global = true, value_name = "TEXT", help_heading = "Server")]
    pub(crate) prefix: Option<String>,
    /// PEM file with the trusted authorities [env: LEASEHOLD_TLS_CA]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Server")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// PEM file with the client certificate [env: LEASEHOLD_TLS_CERT]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Server")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// PEM file with the key, no passphrase [env: LEASEHOLD_TLS_KEY]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Server")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Print JSON, one object per line, including errors
    // The display order puts this option after the command's own options.
    #[arg(long, global = true, display_order = 100)]
    pub(crate) json: bool,
    #[arg(skip)]
    pub(crate) from_file: FromFile,
}
