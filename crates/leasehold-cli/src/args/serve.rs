//! `leasehold serve`.

use super::every::at_least_100ms;
use clap::Args;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  leasehold serve                                          # http://127.0.0.1:8090, on this machine alone
  leasehold serve 'stock:*' --listen 127.0.0.1:8091
  leasehold serve --allow-unlock --token-file /run/secrets/leasehold-token
  leasehold serve --listen 0.0.0.0:8090 --host locks.example.org
  curl http://127.0.0.1:8090/metrics

The page shows what `leasehold top` shows, and needs the same rights on the server. It has no password: who reaches the address can read it. So it
listens on this machine alone, unless --listen says otherwise; put a proxy with TLS and passwords before it where others shall read it.

A request is answered only if its header Host has a name or address of this machine, the address that it came to, or a name of --host.
Otherwise a page elsewhere could read this one, by a name that it lets point here.";

/// Show the locks on a web page that is kept up to date, and figures for Prometheus
///
/// The page has the table of `leasehold top`, with a filter, an order and pages, and a page for each lock with its holders and its queue. It is
/// kept up to date by server-sent events; without JavaScript it is read anew every five seconds. /metrics has figures for
/// Prometheus. While no page is open, `serve` sends no commands to the server. During an outage, also at the start, the
/// page shows its start and reason, and resumes afterwards. Ctrl-C or SIGTERM ends the program with exit code 0.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeOptions {
    /// The pattern of the names, in quotes because of the shell
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
    /// The address and port of the page; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address, default_value = "127.0.0.1:8090")]
    pub(crate) listen: SocketAddr,
    /// Answer also requests for this name or address; may be given several times
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) host: Vec<String>,
    /// The time between two looks at all locks, 100ms at the least
    ///
    /// Rows that browsers have before them, and names that are new, are looked at twice as often. After a look it rests for at least as long as
    /// the look took, so that a server with many keys is not kept busy.
    #[arg(long, value_name = "TIME", value_parser = at_least_100ms, default_value = "500ms")]
    pub(crate) every: Duration,
    /// Let the page free locks, with a token
    ///
    /// The token is that of --token-file, or of the environment variable LEASEHOLD_SERVE_TOKEN, or else a new one that is printed on stderr.
    #[arg(long)]
    pub(crate) allow_unlock: bool,
    /// The file that has the token, of 16 characters at the least
    #[arg(long, value_name = "FILE", requires = "allow_unlock")]
    pub(crate) token_file: Option<PathBuf>,
}

/// An address with a port. A port alone, and `localhost`, mean a loopback address.
fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix("localhost:").unwrap_or(text);
    if let Ok(port) = port.parse::<u16>() {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    text.parse().map_err(|_| {
        "an address has numbers and a port: 127.0.0.1:8090 is for this machine alone, 0.0.0.0:8090 for every network".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_alone_is_one_of_this_machine() {
        for (text, expected) in [
            ("8090", "127.0.0.1:8090"),
            ("localhost:8090", "127.0.0.1:8090"),
            ("0.0.0.0:0", "0.0.0.0:0"),
            ("[::1]:8090", "[::1]:8090"),
        ] {
            assert_eq!(address(text).map(|address| address.to_string()), Ok(expected.to_owned()), "{text}");
        }
        for text in [":8090", "", "localhost", "localhost:", "65536", "example.org:8090", "127.0.0.1"] {
            assert!(address(text).is_err_and(|why| why.contains("127.0.0.1:8090")), "{text}");
        }
    }
}
