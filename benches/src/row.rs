//! The rows of the table: what each measures, and which metrics it shows.

/// A sort of work that every library does that can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub(crate) enum Row {
    /// 1, 64 and 256 tasks, each with a lock of its own
    Pairs,
    /// One task with a lock of its own, while 256 others are busy with theirs
    Beside,
    /// From the release in one client to the grant in another
    Wake,
    /// 64 tasks of one process want one name
    Hot,
    /// 16 tasks of each of four processes want one name
    Contended,
    /// A grant where up to 10 000 wait in the queue of a fair lock
    Queue,
    /// Up to 100 000 held locks that are renewed
    Held,
    /// The memory of up to 100 000 waiters
    Waiters,
}

/// A kind of figure.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) shown: Shown,
}

/// The form in which a figure is claimed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// As a ratio to that of the row's base, round by round.
    ToBase,
    /// As it is, because it is a ratio or a size that does not depend on the load.
    AsItIs,
}

const fn to_base(name: &'static str) -> Metric {
    Metric { name, shown: Shown::ToBase }
}

const fn as_it_is(name: &'static str) -> Metric {
    Metric { name, shown: Shown::AsItIs }
}

pub(crate) const THROUGHPUT: Metric = to_base("throughput");
pub(crate) const P50: Metric = to_base("p50");
pub(crate) const P99: Metric = to_base("p99");
pub(crate) const CLIENT: Metric = to_base("client's processor time");
pub(crate) const SCRIPTS: Metric = to_base("server's time in commands");
pub(crate) const SERVER: Metric = to_base("server's processor time");
pub(crate) const GRANTS: Metric = to_base("grants");
pub(crate) const SHARES: Metric = as_it_is("greatest share : least");
pub(crate) const GAP: Metric = to_base("longest wait of a process");
pub(crate) const COMMANDS: Metric = as_it_is("commands a grant");
pub(crate) const GROWTH: Metric = as_it_is("server's time, to that of the shortest line");
pub(crate) const SHARE: Metric = as_it_is("server's time in renewals, %");
pub(crate) const STALL: Metric = as_it_is("p99 of others' PING, to an idle server");
pub(crate) const BYTES: Metric = as_it_is("bytes each");
pub(crate) const KEPT: Metric = as_it_is("still held, %");

impl Row {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Pairs => "A lock that no other task wants",
            Self::Beside => "One task beside 256 busy ones",
            Self::Wake => "Wake-up between two clients",
            Self::Hot => "One hot name, 64 tasks of one process",
            Self::Contended => "One hot name, 16 tasks of each of four processes",
            Self::Queue => "The queue of a fair lock",
            Self::Held => "Held locks that are renewed",
            Self::Waiters => "Many waiters for one name",
        }
    }

    /// The sentences above the tables.
    pub(crate) fn about(self) -> &'static str {
        match self {
            Self::Pairs => {
                "Each task repeatedly acquires and releases its own lock. The server's time in commands comes from `INFO commandstats`. Its \
                 processor time comes from `INFO cpu` and includes I/O."
            }
            Self::Beside => {
                "One task of a client acquires and releases its own lock, while 256 other tasks of the client acquire and release theirs. The \
                 figures are for the one task."
            }
            Self::Wake => {
                "The time from the release in one client to the grant in another client of the process. rslock, rlock, redsync and \
                 bsm/redislock poll. The floor is one release script, its message, and one acquire script."
            }
            Self::Hot => {
                "Each granted task releases the lock at once and requests it again. tokio's mutex excludes only tasks of one process."
            }
            Self::Contended => {
                "The same work in four concurrent processes. The longest wait is the longest time without a grant in one process."
            }
            Self::Queue => "Each granted task releases the lock and rejoins the queue, so the queue keeps its length.",
            Self::Held => {
                "One client holds the locks for longer than a renewal period. Bytes are the client's memory: from the system in Rust, and in \
                 use after a garbage collection in Go and Java."
            }
            Self::Waiters => {
                "Tasks of one client wait for a name that another client holds. Redisson's waiters are calls of `lockAsync`, not threads."
            }
        }
    }

    /// The peer to whose figures those of the others are ratios.
    pub(crate) fn base(self) -> &'static str {
        match self {
            Self::Pairs | Self::Beside | Self::Wake => "bare fred",
            Self::Queue => "leasehold, fair lock",
            Self::Hot | Self::Contended | Self::Held | Self::Waiters => "leasehold",
        }
    }

    pub(crate) fn metrics(self) -> &'static [&'static Metric] {
        match self {
            Self::Pairs => &[&THROUGHPUT, &P50, &P99, &CLIENT, &SCRIPTS, &SERVER],
            Self::Beside | Self::Wake => &[&P50, &P99],
            Self::Hot => &[&GRANTS, &SHARES, &COMMANDS, &CLIENT],
            Self::Contended => &[&GRANTS, &SHARES, &GAP, &COMMANDS, &CLIENT],
            Self::Queue => &[&GRANTS, &SCRIPTS, &GROWTH, &CLIENT],
            Self::Held => &[&SHARE, &STALL, &BYTES, &KEPT],
            Self::Waiters => &[&BYTES],
        }
    }
}
