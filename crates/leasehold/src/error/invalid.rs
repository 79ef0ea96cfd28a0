//! Values that cannot be used.

use leasehold_core::name::NameError;
use std::time::Duration;
use thiserror::Error;

/// A value that cannot be used, found before anything was sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidInput {
    /// The name of a lock.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A lease that is too short to be renewed and to be told apart from the safety margin, or too long for the server.
    #[error("the {what} of {given:?} cannot be used: it must lie between {least:?} and {most:?}")]
    Duration {
        /// Which duration.
        what: &'static str,
        /// The given value.
        given: Duration,
        /// The least that is allowed.
        least: Duration,
        /// The most that is allowed.
        most: Duration,
    },
    /// A lock over many has no members.
    #[error("a lock over several needs at least one member, and this one has none")]
    NoMembers,
    /// A striped lock has no stripes.
    #[error(
        "the striped lock {name:?} was given no stripes, and needs at least one: say the number that all who use it have"
    )]
    NoStripes {
        /// The lock.
        name: String,
    },
    /// A lock over many names one of them twice.
    #[error("a lock over several names {name:?} twice: name each member once")]
    SameMember {
        /// The member.
        name: String,
    },
    /// A quorum needs servers that fail independently.
    #[error(
        "two clients of the quorum lock {name:?} are connected to the same server: give it clients of independent servers"
    )]
    SameServer {
        /// The lock.
        name: String,
    },
    /// A quorum lock has fewer clients than a majority of its servers, and could never be held; or more clients than servers.
    #[error(
        "the quorum lock {name:?} is over {servers} servers, and was given {clients} clients: give it one for each server, which need \
         not be up (Client::connect_lazy), or at least {} of them", servers / 2 + 1
    )]
    NoMajority {
        /// The lock.
        name: String,
        /// Over how many servers it is.
        servers: usize,
        /// How many clients were given.
        clients: usize,
    },
    /// No permit was asked for.
    #[error("at least one permit must be asked for")]
    NoPermits,
    /// More permits of a semaphore were asked for at once than one command may work on.
    #[error(
        "{given} permits were asked for at once, and at most {most} can be: each permit of a semaphore has an id and a lease \
         of its own, and the server would serve nobody else while it works on them; take several guards, let one permit \
         stand for more, or use a semaphore without leases, which only counts"
    )]
    TooManyPermits {
        /// How many were asked for.
        given: u32,
        /// The most that is allowed.
        most: u32,
    },
    /// A number that no counter on the server can take.
    #[error("the {what} of {given} cannot be used: it must lie between {least} and {most}")]
    Number {
        /// Which number.
        what: &'static str,
        /// The given value.
        given: i64,
        /// The least that is allowed.
        least: i64,
        /// The most that is allowed.
        most: i64,
    },
    /// The process is a fork of the process that built the client, without its threads and connections.
    #[error(
        "this process was forked from the process {built_by}, which built the client: build a client after the fork"
    )]
    Forked {
        /// The id of the process that built the client.
        built_by: u32,
    },
    /// An owner of another client was named.
    #[error("the owner belongs to another client: an owner can only re-enter locks of the client that made it")]
    ForeignOwner,
    /// A job was given a [`Period`](crate::once::Period) that processes would name differently.
    #[error("the period of the job {job:?} cannot be used: {message}")]
    Period {
        /// The name of the job.
        job: String,
        /// The problem, and how to fix it.
        message: String,
    },
    /// Two settings that contradict each other.
    #[error("the settings contradict each other: {0}")]
    Contradiction(String),
}
