//! The command line.

mod dashes;
mod words;

use crate::{duration, failure};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
pub(crate) use dashes::parse;
use leasehold::FoundKind;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
pub(crate) use words::{Column, KindWord};

const EXAMPLES: &str = "\
Examples:
  export LEASEHOLD_URL=redis://127.0.0.1:6379

  # one backup at a time, over all machines; wait for as long as it takes
  leasehold run backup -- pg_dump shop

  # skip this time if another machine is at it
  leasehold run --try nightly-report -- ./report.sh";

const RUN_EXAMPLES: &str = "\
Examples:
  leasehold run backup -- pg_dump shop
  leasehold run --try --busy-exit 0 nightly-report -- ./report.sh
  leasehold run --wait 30s --fair till:3 -- ./book.sh
  leasehold run --permits 3 supplier -- ./fetch.sh      # at most three at once
  leasehold run --read catalogue -- ./export.sh
  leasehold run --fenced ledger -- sh -c 'echo \"token $LEASEHOLD_FENCING_TOKEN\"'
  leasehold run -- -name -- ./report.sh                 # a name that begins with a dash

The command sees LEASEHOLD_NAME, LEASEHOLD_HOLDER, LEASEHOLD_HOLDERS and, with --fenced, LEASEHOLD_FENCING_TOKEN.

Signals: TERM, INT, HUP, QUIT, USR1, USR2 and WINCH are passed on to the command and its process group. One of the first four that comes
while leasehold waits for the lock ends the wait at once. Ctrl-Z stops both; while they are stopped the lock is not renewed.

When the lock is lost, the command's process group gets SIGTERM, and SIGKILL after --grace. On Linux the command itself is killed when
leasehold is killed by SIGKILL; its own children are not, so a lock that must survive that needs a fencing token.";

const LS_EXAMPLES: &str = "\
Examples:
  leasehold ls
  leasehold ls 'stock:*' --held-longer-than 1h
  leasehold ls --kind fair,fenced-fair --json | jq 'select(.waiting > 10) | .name'
  leasehold ls 'shop:*' --foreign        # also what is no lock
  leasehold ls '\\[a\\]*'                 # names that begin with [a]

In the pattern, * stands for any text, ? for one byte, [abc] or [a-z] for one byte of a set; a backslash takes the special meaning away.";

const TOP_EXAMPLES: &str = "\
Examples:
  leasehold top
  leasehold top 'stock:*' --sort held
  leasehold top --kind fair,fenced-fair --sort queue --every 5s

Keys:
  n k o g h l w u t !   sort by name, kind, holder, grants, held, lease, waiters, queue, wait, problems; once more turns the order round
  /                     show only rows that have a text in name, kind, holder or problems; * stands for any text
  arrows, PageUp, PageDown, Home, End   scroll
  p                     pause: no look is taken until p is pressed again
  ?                     what the columns mean
  q, Esc, Ctrl-C        end";

const SERVE_EXAMPLES: &str = "\
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

/// Runs programs under distributed locks on Redis and Valkey, and shows, frees and checks locks
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, about, after_help = EXAMPLES)]
#[command(after_long_help = format!("{EXAMPLES}\n\n{}", failure::TABLE), disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    #[command(subcommand)]
    pub(crate) task: Task,
}

/// The server, and the form of what is printed.
#[derive(Args, Debug)]
pub(crate) struct ServerOptions {
    /// The server: redis://host:6379, rediss:// with TLS, redis-sentinel://, redis-cluster:// or redis+unix:///path
    ///
    /// Default: the environment variable LEASEHOLD_URL, or else REDIS_URL. A URL on the command line must not have a password, because
    /// every user of the machine can read it there.
    #[arg(long, global = true, value_name = "URL", help_heading = "Server")]
    pub(crate) url: Option<String>,
    /// The file that has the password; without it, the environment variable LEASEHOLD_PASSWORD, if it is set
    #[arg(long, global = true, value_name = "FILE", help_heading = "Server")]
    pub(crate) password_file: Option<PathBuf>,
    /// Put in front of every name of a lock
    #[arg(long, global = true, value_name = "TEXT", help_heading = "Server")]
    pub(crate) prefix: Option<String>,
    /// Trust these certificate authorities (PEM) instead of the operating system's
    #[arg(long, global = true, value_name = "FILE", help_heading = "Server")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Show this certificate chain (PEM) to the server
    #[arg(long, global = true, value_name = "FILE", requires = "tls_key", help_heading = "Server")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key (PEM) of --tls-cert
    #[arg(long, global = true, value_name = "FILE", requires = "tls_cert", help_heading = "Server")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Print JSON, one object a line; errors too
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Run a command while a lock is held
    Run(RunOptions),
    /// List the locks whose names fit a pattern
    ///
    /// Each lock is printed as soon as it is found. The column WAITERS counts the queue of a fair lock, and of other locks the clients that listen
    /// for a release. Host and process are those of holders that announce themselves, as `leasehold run` does; such a holder also says for how
    /// long it has held a lock, once that is a second. A line on stderr counts the names at which this user may not look. The exit code is 0 also if no
    /// lock is found.
    #[command(after_help = LS_EXAMPLES)]
    Ls(LsOptions),
    /// Tell what happens to the locks whose names fit a pattern
    ///
    /// It looks again and again, and prints a line for each grant, release, loss and change of the number of waiters between two looks, with the
    /// time of day in UTC. A hold that came and went between two looks is not seen. A hold is lost if its lease can have run out; the server does
    /// not tell a release from a force release. If the server goes away, that is one line, and another one when it is back. The interrupt key ends it with the exit code 0.
    #[command(
        after_help = "Examples:\n  leasehold watch backup\n  leasehold watch 'stock:*' --every 2s\n  leasehold watch '*' --json | jq 'select(.event == \"lost\")'"
    )]
    Watch(WatchOptions),
    /// Show the locks in a table that is kept up to date
    ///
    /// It looks again and again, and draws on the terminal: the locks that changed hands most often, were held longest, or are waited for most.
    /// GRANTS/S counts new holders between two looks, over the last ten seconds or so: a lock changes hands at least so often, and what came
    /// and went between two looks is not seen. HELD FOR is what holders say of themselves, and with a > in front how long it was seen. QUEUE is the
    /// queue of a fair lock, and LONGEST WAIT the wait of its waiter that says to have waited longest; WAITERS counts for other locks the
    /// clients that listen for a release. A lock that is free stays in the table for ten seconds. The first line says how old the table is. If
    /// the server goes away, the second line says so and why, and the table goes on when it is back. NO_COLOR takes the colours away.
    #[command(after_help = TOP_EXAMPLES)]
    Top(TopOptions),
    /// Show the locks on a web page that is kept up to date, and figures for Prometheus
    ///
    /// The page has the table of `leasehold top`, with a filter, an order and pages, and a page for each lock with its holders and its queue. It is
    /// kept up to date by server-sent events; without JavaScript it is read anew every five seconds. /metrics has figures for
    /// Prometheus. Nothing is asked of the server while no page is open. If the server goes away, the page says so and since when, and
    /// goes on when it is back. The interrupt key or SIGTERM ends it with the exit code 0.
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeOptions),
    /// Find processes that wait for each other in a circle
    ///
    /// Each line is one circle: every process waits for a lock that the next one holds. This rests on what programs that announce themselves say
    /// of the locks of their owner scopes, a second after they began to hold or to wait. The exit code is 1 if there is a deadlock, and 77 if none
    /// was found and there are locks at which this user may not look, which are named.
    #[command(
        after_help = "Examples:\n  leasehold deadlocks\n  leasehold deadlocks --json | jq -r '.waits[] | [.host, .pid, .key] | @tsv'"
    )]
    Deadlocks,
    /// Show who holds a lock and who waits for it
    #[command(
        after_help = "Examples:\n  leasehold inspect backup\n  leasehold inspect backup --json | jq .holders[0].process"
    )]
    Inspect(InspectOptions),
    /// Free a lock that another process holds
    ///
    /// The holder is not asked: it learns of it at its next renewal, and may go on with its work until then. If you can, stop the holder instead. A
    /// holder that has died loses the lock by itself when its lease has run out. A semaphore has permits and no holder, so
    /// this does not free it.
    #[command(
        after_help = "Examples:\n  leasehold unlock backup\n  leasehold unlock backup --holder 6f0c1de2-4a53-4b0e-9f0a-0c2d7b1f3a55:7 --yes"
    )]
    Unlock(UnlockOptions),
    /// Find out whether the server can be trusted with locks
    ///
    /// It reads what the server says of itself, of a cluster every primary, takes locks of every kind under a name of its own, and measures. Each
    /// line is one check, with what to do behind a semicolon: `ok`; `note`, which limits what locks promise, or could not be found out, and may
    /// be as it is wanted; or `FAULT`, by which locks can be lost or cannot be had. The exit code is 1 if there is a fault. It changes no lock of
    /// others, and takes some seconds.
    #[command(
        after_help = "Examples:\n  leasehold doctor\n  leasehold doctor --json | jq 'select(.verdict == \"fault\")'"
    )]
    Doctor(DoctorOptions),
    /// Measure locks on this server, beside its PING
    #[command(after_help = "Example:\n  leasehold bench --pairs 2000")]
    Bench(BenchOptions),
    /// Print completions for a shell
    #[command(after_help = "Example:\n  leasehold completions bash > /etc/bash_completion.d/leasehold")]
    Completions { shell: Shell },
    /// Print the manual pages
    #[command(after_help = "Example:\n  leasehold man | man -l -")]
    Man,
}

/// How `run` locks, and what it runs.
#[derive(Args, Debug)]
#[command(after_help = RUN_EXAMPLES, after_long_help = format!("{RUN_EXAMPLES}\n\n{}", failure::TABLE))]
pub(crate) struct RunOptions {
    /// The name of the lock; one that begins with a dash stands behind --, and another -- before the command
    pub(crate) name: String,
    /// Serve the waiters in the order in which they came
    #[arg(long, help_heading = "Kind of lock")]
    pub(crate) fair: bool,
    /// Give the command a fencing token, which grows with every grant
    #[arg(long, help_heading = "Kind of lock")]
    pub(crate) fenced: bool,
    /// Take the read half of a read-write lock, which many may hold at once
    #[arg(long, conflicts_with_all = ["fair", "fenced", "permits", "write"], help_heading = "Kind of lock")]
    pub(crate) read: bool,
    /// Take the write half of a read-write lock
    #[arg(long, conflicts_with_all = ["fair", "fenced", "permits"], help_heading = "Kind of lock")]
    pub(crate) write: bool,
    /// Let up to this many run at once; everyone must name the same number
    #[arg(long, value_name = "N", conflicts_with_all = ["fair", "fenced"], value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)), help_heading = "Kind of lock")]
    pub(crate) permits: Option<u32>,
    /// Wait for at most this long for server and lock, such as 500ms, 30s or 1h30m; the server has at least 1s [default: as long as it takes]
    #[arg(long, value_name = "TIME", value_parser = duration::parse, help_heading = "Times")]
    pub(crate) wait: Option<Duration>,
    /// Do not wait for the lock, and for the server for at most 3s
    #[arg(long = "try", conflicts_with = "wait", help_heading = "Times")]
    pub(crate) try_once: bool,
    /// After a crash the lock is free within this time; it is renewed after a third of it [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse, help_heading = "Times")]
    pub(crate) lease: Option<Duration>,
    /// Give the lock up, and stop the command, after this time
    #[arg(long, value_name = "TIME", value_parser = duration::parse, help_heading = "Times")]
    pub(crate) max_hold: Option<Duration>,
    /// The time between SIGTERM and SIGKILL when the lock is lost
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "10s", help_heading = "Times")]
    pub(crate) grace: Duration,
    /// The exit code when the lock is busy
    #[arg(long, short = 'E', value_name = "CODE", default_value_t = failure::Exit::Busy as u8)]
    pub(crate) busy_exit: u8,
    /// The command, behind `--`; no shell is between
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// The locks that `ls` lists.
#[derive(Args, Debug)]
pub(crate) struct LsOptions {
    /// The pattern of the names, in quotes because of the shell
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
    /// Only locks of this kind, or of these with commas between
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kind: Vec<KindWord>,
    /// Only locks that have been held for longer than this, such as 30s or 5m; the holder must say so
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) held_longer_than: Option<Duration>,
    /// Also keys that are no locks
    #[arg(long)]
    pub(crate) foreign: bool,
}

impl LsOptions {
    /// The kinds that are wanted; all of them if there is none.
    pub(crate) fn kinds(&self) -> Vec<FoundKind> {
        self.kind.iter().map(|kind| kind.found()).collect()
    }
}

/// The locks that `watch` looks at.
#[derive(Args, Debug)]
pub(crate) struct WatchOptions {
    /// The name, or the pattern of the names in quotes
    pub(crate) pattern: String,
    /// The time between two looks, 10ms at the least
    #[arg(long, value_name = "TIME", value_parser = at_least_10ms, default_value = "500ms")]
    pub(crate) every: Duration,
}

/// The locks that `top` shows.
#[derive(Args, Debug)]
pub(crate) struct TopOptions {
    /// The pattern of the names, in quotes because of the shell
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
    /// Only locks of this kind, or of these with commas between
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kind: Vec<KindWord>,
    /// The time between two looks, 10ms at the least
    ///
    /// After a look it rests for at least as long as the look took, so that a server with many keys is not kept busy.
    #[arg(long, value_name = "TIME", value_parser = at_least_10ms, default_value = "1s")]
    pub(crate) every: Duration,
    /// The column by which the table is sorted at first
    #[arg(long, value_name = "COLUMN", default_value = "grants")]
    pub(crate) sort: Column,
}

impl TopOptions {
    /// The kinds that are wanted; all of them if there is none.
    pub(crate) fn kinds(&self) -> Vec<FoundKind> {
        self.kind.iter().map(|kind| kind.found()).collect()
    }
}

/// The page of `serve`, and the callers that it answers.
#[derive(Args, Debug)]
pub(crate) struct ServeOptions {
    /// The pattern of the names, in quotes because of the shell
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
    /// The address and port of the page; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8090")]
    pub(crate) listen: SocketAddr,
    /// Answer also requests for this name or address; may be given several times
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) host: Vec<String>,
    /// The time between two looks, 100ms at the least
    ///
    /// After a look it rests for at least as long as the look took, so that a server with many keys is not kept busy.
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

/// A time between two looks that leaves the server in peace.
fn at_least_10ms(text: &str) -> Result<Duration, String> {
    at_least(text, Duration::from_millis(10), "10ms")
}

/// The same for looks that many browsers may ask for.
fn at_least_100ms(text: &str) -> Result<Duration, String> {
    at_least(text, Duration::from_millis(100), "100ms")
}

fn at_least(text: &str, least: Duration, said: &str) -> Result<Duration, String> {
    let time = duration::parse(text)?;
    if time < least { Err(format!("the time is shorter than {said}")) } else { Ok(time) }
}

/// The lock that `inspect` looks at.
#[derive(Args, Debug)]
pub(crate) struct InspectOptions {
    /// The name of the lock
    pub(crate) name: String,
}

/// The lock that `unlock` frees.
#[derive(Args, Debug)]
pub(crate) struct UnlockOptions {
    /// The name of the lock
    pub(crate) name: String,
    /// Free it only from this holder, as `inspect` shows it
    #[arg(long, value_name = "ID")]
    pub(crate) holder: Option<String>,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// How `doctor` tries.
#[derive(Args, Debug)]
pub(crate) struct DoctorOptions {
    /// How the names of the tried locks begin, for a user who may not use every key; a number of their own follows [default: leasehold:doctor]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
}

/// How much `bench` measures.
#[derive(Args, Debug)]
pub(crate) struct BenchOptions {
    /// How many acquires and releases each figure is made of
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    pub(crate) pairs: u32,
    /// How many tasks take locks at the same time where several do
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) tasks: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
