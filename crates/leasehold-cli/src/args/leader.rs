//! `leasehold leader`.

use super::{RecordOptions, RunOptions};
use crate::{duration, failure};
use clap::Args;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  leasehold leader scheduler -- ./scheduler
  leasehold leader --lease 10s --grace 3s feed -- ./consume-feed
  leasehold leader --health :4040 scheduler -- ./scheduler
  curl -f http://127.0.0.1:4040/leading                 # fails unless this process leads

The command's environment has LEASEHOLD_NAME, LEASEHOLD_HOLDER, LEASEHOLD_HOLDERS and LEASEHOLD_FENCING_TOKEN.

If renewals fail, the command's process group gets SIGTERM --grace before the lease ends, and SIGKILL just before the lease ends. If the lock
was removed from the server, the group gets SIGTERM, and SIGKILL after --grace. Then leasehold campaigns again, and restarts the command once
it leads. leasehold forwards signals as `run` does.

When the command exits, leasehold resigns and exits with the command's exit code or signal. Let a service manager restart it.";

/// Run a command while this process leads
///
/// Of all processes with this NAME, one leads and runs its command; the others wait. When the leader exits, dies or
/// loses the server, a waiting process takes over. The leader holds the fenced lock NAME, like `Client::leader` in the
/// library.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{}", failure::TABLE))]
pub(crate) struct LeaderOptions {
    /// Name of the election; put a name that begins with a dash after --, and another -- before the command
    pub(crate) name: String,
    /// Answer health checks over HTTP on this address: PORT for this machine, :PORT for every network, or IP:PORT
    ///
    /// /healthz returns 200 while the process runs, /ready if it leads or follows, /leading if it leads, and /following
    /// if it follows. Otherwise these paths return 503. The body is the state as JSON.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) health: Option<SocketAddr>,
    /// Lease of the leadership: the longest time without a leader after a crash; renewed every third of it [default:
    /// 30s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) lease: Option<Duration>,
    /// Time between SIGTERM and SIGKILL to the command; at most a third of the lease if renewals fail
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "10s")]
    pub(crate) grace: Duration,
    /// Print nothing about the election except errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) records: RecordOptions,
    /// Command and arguments, after `--`; no shell
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

impl LeaderOptions {
    /// Converts to the options of a `run` for the fenced lock.
    pub(crate) fn as_run(&self) -> RunOptions {
        RunOptions {
            name: self.name.clone(),
            fenced: true,
            lease: self.lease,
            grace: self.grace,
            quiet: self.quiet,
            command: self.command.clone(),
            ..RunOptions::default()
        }
    }
}

/// Parses an address with a port. `PORT` means a loopback address, and `:PORT` means every IPv4 address.
fn address(text: &str) -> Result<SocketAddr, String> {
    if let Some(port) = text.strip_prefix(':').and_then(|port| port.parse::<u16>().ok()) {
        return Ok(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
    }
    if let Ok(port) = text.strip_prefix("localhost:").unwrap_or(text).parse::<u16>() {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    text.parse().map_err(|_| "expected IP:PORT, :4040 for every network, or 4040 for this machine only".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colon_before_the_port_means_every_network() {
        for (text, expected) in [
            (":4040", "0.0.0.0:4040"),
            ("4040", "127.0.0.1:4040"),
            ("localhost:4040", "127.0.0.1:4040"),
            ("[::]:4040", "[::]:4040"),
        ] {
            assert_eq!(address(text).map(|address| address.to_string()), Ok(expected.to_owned()), "{text}");
        }
        for text in ["", ":", ":x", "example.org:4040", "65536"] {
            assert!(address(text).is_err_and(|why| why.contains(":4040")), "{text}");
        }
    }
}
