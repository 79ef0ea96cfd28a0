//! Invalid values.

use leasehold_core::name::NameError;
use std::time::Duration;
use thiserror::Error;

/// A value that the client refused before it sent anything.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidInput {
    /// The name of a lock.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A duration outside its limits. A lease must be long enough for renewals and the safety margin, and short enough for the server.
    #[error("the {what} of {given:?} is invalid: it must be between {least:?} and {most:?}")]
    Duration {
        /// The duration's name.
        what: &'static str,
        /// The given value.
        given: Duration,
        /// The minimum.
        least: Duration,
        /// The maximum.
        most: Duration,
    },
    /// A group lock without members.
    #[error("a lock over several members needs at least one member, but has none")]
    NoMembers,
    /// A striped lock without stripes.
    #[error("the striped lock {name:?} has no stripes: set at least one, and the same number in all processes")]
    NoStripes {
        /// The lock.
        name: String,
    },
    /// A group lock with a repeated member.
    #[error("a lock over several members has the member {name:?} twice: add each member once")]
    SameMember {
        /// The member.
        name: String,
    },
    /// A quorum lock with two clients of one server. The servers of a quorum lock must fail independently.
    #[error(
        "two clients of the quorum lock {name:?} are connected to the same server: use clients of independent servers"
    )]
    SameServer {
        /// The lock.
        name: String,
    },
    /// A quorum lock with more clients than servers, or with fewer clients than a majority, which could never be acquired.
    #[error(
        "the quorum lock {name:?} has {servers} servers and {clients} clients: pass one client for each server (Client::connect_lazy \
         if a server is down), or clients for at least {} servers", servers / 2 + 1
    )]
    NoMajority {
        /// The lock.
        name: String,
        /// The number of servers.
        servers: usize,
        /// The number of clients.
        clients: usize,
    },
    /// An acquire of zero permits.
    #[error("an acquire of a semaphore needs at least one permit")]
    NoPermits,
    /// An acquire of more permits of a semaphore than one command may process.
    #[error(
        "{given} permits were requested at once, but the maximum is {most}: each permit of a semaphore has its own id and lease, \
         and a longer command would block the server; acquire several guards, let one permit stand for several units, or use \
         a bare semaphore, which only counts"
    )]
    TooManyPermits {
        /// The number of requested permits.
        given: u32,
        /// The maximum.
        most: u32,
    },
    /// A number outside the range of a counter on the server.
    #[error("the {what} of {given} is invalid: it must be between {least} and {most}")]
    Number {
        /// The number's name.
        what: &'static str,
        /// The given value.
        given: i64,
        /// The minimum.
        least: i64,
        /// The maximum.
        most: i64,
    },
    /// The process is a fork of the process that built the client, and lacks its threads and connections.
    #[error(
        "this process was forked from the process {built_by}, which built the client: build a client after the fork"
    )]
    Forked {
        /// The id of the process that built the client.
        built_by: u32,
    },
    /// An owner of another client.
    #[error("the owner belongs to another client: an owner can only re-enter locks of the client that created it")]
    ForeignOwner,
    /// A ticket of a client with another prefix.
    #[error(
        "the ticket is for the key {key:?}, which does not begin with the prefix {prefix:?} of this client: adopt it by a client with \
         the prefix of the client that created it"
    )]
    ForeignTicket {
        /// The key of the lock.
        key: String,
        /// The prefix of this client.
        prefix: String,
    },
    /// A [`Period`](crate::once::Period) that processes would name differently.
    #[error("the period of the job {job:?} is invalid: {message}")]
    Period {
        /// The name of the job.
        job: String,
        /// The problem and the remedy.
        message: String,
    },
    /// Two settings that contradict each other.
    #[error("the settings contradict each other: {0}")]
    Contradiction(String),
}

/// The error of parsing a [`Ticket`](crate::Ticket) of the expected kind. It omits the parsed text, which may be secret.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidTicket {
    /// The text is not a ticket.
    #[error("the text is no ticket of a lock: pass the text that Guard::into_ticket returned")]
    NoTicket,
    /// A ticket with another version of the format.
    #[error(
        "the ticket has the format {version:?}, but this version of leasehold reads the format 1: update the older process"
    )]
    OtherVersion {
        /// The version of the format.
        version: String,
    },
    /// A ticket for another kind of lock.
    #[error("the ticket is for a lock of the kind {kind}, not {expected}: parse it as the ticket of that kind")]
    OtherKind {
        /// The kind of the ticket.
        kind: String,
        /// The expected kind.
        expected: &'static str,
    },
    /// The ticket is truncated or altered.
    #[error("the ticket is damaged: a part of its text is missing or was changed on its way")]
    Damaged,
}
