//! `leasehold serve`.

use super::every::at_least_100ms;
use clap::Args;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  leasehold serve                                          # http://127.0.0.1:8090, on this machine only
  leasehold serve 'stock:*' --listen 127.0.0.1:8091
  leasehold serve --allow-unlock --token-file /run/secrets/leasehold-token
  leasehold serve --listen 0.0.0.0:8090 --host locks.example.org
  leasehold serve --path /locks/ --host locks.example.org  # behind a proxy; see the README for nginx
  curl http://127.0.0.1:8090/metrics
  curl http://127.0.0.1:8090/locks.json?show=problems

The page shows the table of `leasehold top`, and needs the same rights on the server. It has no password and no TLS, so by default it listens on this machine only. To let other people use it, put it behind a proxy with TLS and passwords.

`serve` only accepts requests whose Host header is a name or address of this machine, the address of the request, or a name from --host. The
check prevents DNS rebinding.";

/// Show the locks on a live web page, and export metrics for Prometheus
///
/// The page lists problems first, then waits. It filters by text, kind and state, and each view has a URL. Each lock
/// has a page with its holders, its queue and its last 50 holds. Other pages show the waits between processes, and the
/// last holds of all locks. Server-sent events update the pages; without JavaScript, a browser reloads them every five
/// seconds. Each view is also available as JSON (locks.json, lock.json, waits.json, history.json). /metrics exports
/// metrics for Prometheus, and /healthz returns 200 while `serve` runs. While no page is open, `serve` sends no
/// commands to the server, unless --record is set. During an outage, the page shows its start and reason, and resumes
/// afterwards; `serve` can also start during an outage. Ctrl-C or SIGTERM ends `serve` with exit code 0.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeOptions {
    /// Pattern of lock names; quote it for the shell
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
    /// Address and port of the page; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address, default_value = "127.0.0.1:8090")]
    pub(crate) listen: SocketAddr,
    /// Also answer requests for this name or address; repeatable
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) host: Vec<String>,
    /// Path of the page, for a proxy that does not strip it, such as /locks/
    #[arg(long, value_name = "PATH", value_parser = path, default_value = "/")]
    pub(crate) path: String,
    /// Scan the locks even while no page is open, for a history without gaps
    #[arg(long)]
    pub(crate) record: bool,
    /// Interval between scans of all locks, at least 100ms
    ///
    /// `serve` scans for new names, and inspects visible locks, twice as often. It pauses after each scan for at least
    /// the duration of the scan, so the interval is longer on a server with many keys.
    #[arg(long, value_name = "TIME", value_parser = at_least_100ms, default_value = "500ms")]
    pub(crate) every: Duration,
    /// Let users with a token free locks on the page
    ///
    /// The token comes from --token-file or the environment variable LEASEHOLD_SERVE_TOKEN. Otherwise `serve` creates a
    /// token and prints it on stderr.
    #[arg(long)]
    pub(crate) allow_unlock: bool,
    /// Read the token from this file; at least 16 characters
    #[arg(long, value_name = "FILE", requires = "allow_unlock")]
    pub(crate) token_file: Option<PathBuf>,
}

/// Parses an address with a port. A bare port or `localhost` means a loopback address.
fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix("localhost:").unwrap_or(text);
    if let Ok(port) = port.parse::<u16>() {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    text.parse().map_err(|_| {
        "expected IP:PORT, such as 127.0.0.1:8090 for this machine only, or 0.0.0.0:8090 for every network".to_owned()
    })
}

/// Parses a path of a URL, which begins and ends with a slash.
fn path(text: &str) -> Result<String, String> {
    let is_plain = |next: char| next.is_ascii_alphanumeric() || "-._~/".contains(next);
    let parts = || text.trim_matches('/').split('/');
    let is_valid = text == "/" || parts().all(|part| !["", ".", ".."].contains(&part));
    if !text.starts_with('/') || text.starts_with("//") || !text.chars().all(is_plain) || !is_valid {
        return Err("expected a path such as /locks/ of letters, digits, `-`, `.`, `_`, `~` and `/`".to_owned());
    }
    Ok(if text.ends_with('/') { text.to_owned() } else { format!("{text}/") })
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

    #[test]
    fn path_has_slashes_at_both_ends() {
        for (text, expected) in [("/", "/"), ("/locks", "/locks/"), ("/ops/locks/", "/ops/locks/")] {
            assert_eq!(path(text).as_deref(), Ok(expected), "{text}");
        }
        for text in ["", "locks", "//evil.example/", "/a//b/", "/../", "/{x}/", "/a b/", "/a?b/", "/lo\"cks/"] {
            assert!(path(text).is_err_and(|why| why.contains("/locks/")), "{text}");
        }
    }
}
