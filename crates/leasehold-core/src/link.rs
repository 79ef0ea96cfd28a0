//! The interface between the protocol and a server.
//!
//! A [`Link`] sends calls and receives notices. The workspace implements links to Redis and Valkey, and to the embedded
//! engine. The layers above cannot distinguish the implementations, and every behaviour test runs on each.

mod in_script;

use crate::call::{Call, CallId};
use crate::reply::Reply;
use crate::scan::{ScanPage, Scanned, ServerId};
use bytes::Bytes;
use std::future::Future;
use std::sync::Weak;
use std::time::Duration;
use thiserror::Error;

/// The result of [`Link::settle`]: whether the server can still apply an earlier call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no third answer")]
pub enum Settled {
    /// The server can no longer apply an earlier call. The server answered a later command on the same connection, or
    /// confirmed the connection's death.
    Proven,
    /// No proof is available, for example because `CLIENT KILL` is forbidden. A copy may still arrive for a while.
    Unproven,
}

/// The error for a server that is not connected, with the reason. The address appears once, although the reason may
/// begin with the address.
pub fn not_connected(server: &str, why: &str) -> LinkError {
    let reason = why.strip_prefix(server).map(|rest| rest.trim_start_matches(" cannot be reached: "));
    LinkError::NotSent(match reason {
        Some(reason) => format!("{server}: {reason}"),
        None if why.contains(server) => why.to_owned(),
        None => format!("{server}: {why}"),
    })
}

/// The error of a call without a valid reply.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(clippy::exhaustive_enums, reason = "every caller must tell these three apart")]
pub enum LinkError {
    /// The call never left this process.
    #[error("{0}")]
    NotSent(String),
    /// The server returned an error, and can apply no copy of the call. Earlier writes of a script remain: see
    /// [`ServerError::proves_nothing_done`].
    #[error("refused by the server: {0}")]
    Refused(#[source] ServerError),
    /// The call may have been sent, and no reply arrived. The server may have applied it, or may still apply it.
    #[error("outcome unknown: {0}")]
    Unknown(String),
}

impl LinkError {
    /// Returns whether the failure is transient, so an immediate retry makes sense.
    pub fn is_worth_going_again(&self) -> bool {
        match self {
            Self::NotSent(_) => true,
            Self::Refused(refusal) => refusal.is_detour(),
            Self::Unknown(_) => false,
        }
    }

    /// Returns whether the server's refusal is permanent, so an operator must act.
    pub fn is_lasting(&self) -> bool {
        matches!(self, Self::Refused(refusal) if !refusal.is_transient() || refusal.is_of_a_failed_snapshot())
    }

    /// The error of a call whose resend failed after a refusal with `NOSCRIPT` or a redirection. The first copy left
    /// this process, the second did not.
    #[must_use]
    pub fn of_a_call_refused(self, before: &ServerError) -> Self {
        match self {
            Self::NotSent(_) => Self::Refused(before.clone()),
            other => other,
        }
    }
}

/// An error reply of a server. Its first word is a code, such as `WRONGTYPE`, `OOM` or `READONLY`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Error)]
#[error("{text}")]
pub struct ServerError {
    text: String,
    /// The server refused a command of the script before the grant.
    ungranted: bool,
}

impl ServerError {
    /// Creates an error reply from the server's text, without the leading `-`.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ungranted: false }
    }

    /// The first word of the text.
    pub fn code(&self) -> &str {
        self.text.split(' ').next().unwrap_or_default()
    }

    /// The whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Appends text to the server's error message.
    pub(crate) fn adding(mut self, words: &str, why: &str) -> Self {
        self.text.extend([words, why]);
        self
    }

    /// Returns whether the server lacks the memory for the call's writes.
    pub fn is_out_of_memory(&self) -> bool {
        self.code() == "OOM" || self.text.contains("-OOM ")
    }

    /// Returns whether the server refuses writes because it is a replica. It may be a demoted primary.
    #[doc(hidden)]
    pub fn is_of_a_replica(&self) -> bool {
        // Servers before 7.0 wrap an error of a script in a sentence.
        self.code() == "READONLY" || self.text.contains("-READONLY ")
    }

    /// Returns whether the server refuses writes because its last snapshot failed. It accepts writes after a successful snapshot.
    fn is_of_a_failed_snapshot(&self) -> bool {
        self.code() == "MISCONF" || self.text.contains("-MISCONF ")
    }

    /// Returns whether the server lacks or has disabled a command, or denies it to this user.
    #[doc(hidden)]
    pub fn is_of_a_missing_command(&self) -> bool {
        self.code() == "NOPERM" || self.lacks_the_command()
    }

    /// Returns whether the server lacks the sent command. Does not cover commands of a script.
    fn lacks_the_command(&self) -> bool {
        let is_of_a_script = [", script:", " script: ", "user_script"].iter().any(|part| self.text.contains(part));
        let is_disabled = self.text.starts_with("ERR This instance has ") && self.text.contains("disabled");
        let is_unknown = ["ERR unknown command", "ERR unknown subcommand", "ERR Unknown subcommand"];
        !is_of_a_script && (is_disabled || is_unknown.iter().any(|beginning| self.text.starts_with(beginning)))
    }

    /// Returns whether the call did nothing.
    ///
    /// A script can fail halfway, and its earlier writes stay. Servers before 7.0 wrap the error in a sentence, and
    /// newer servers add the script line. If the script returns the error as its reply, the reply contains neither. The
    /// method therefore accepts only errors that precede the first write of a script. An unlisted error proves nothing.
    #[doc(hidden)]
    pub fn proves_nothing_done(&self) -> bool {
        // The server checks memory, role and replicas at each command, but never refuses a script that has started to
        // write.
        const BEFORE_A_WRITE: [&str; 4] = ["OOM", "READONLY", "MISCONF", "NOREPLICAS"];
        // The server does not start the script.
        const BEFORE_THE_SCRIPT: [&str; 11] = [
            "NOSCRIPT",
            "MOVED",
            "ASK",
            "TRYAGAIN",
            "CROSSSLOT",
            "CLUSTERDOWN",
            "LOADING",
            "BUSY",
            "MASTERDOWN",
            "NOAUTH",
            "UNBLOCKED",
        ];
        let refuses_a_write = |code: &&str| self.code() == *code || self.text.contains(&format!("-{code} "));
        BEFORE_A_WRITE.iter().any(refuses_a_write)
            || BEFORE_THE_SCRIPT.contains(&self.code())
            // The user lacks the permission for `EVALSHA` or for a key of the call. The server reports a missing
            // permission within a script differently.
            || self.code() == "NOPERM" && !self.text.contains("script")
            || self.lacks_the_command()
    }

    /// Returns whether the call granted nothing and raised no count. The script may already have added state, such as a
    /// place in a queue.
    #[doc(hidden)]
    pub const fn proves_no_grant(&self) -> bool {
        self.ungranted
    }

    /// Returns whether the server only asks for another form of the call, or another node, and did nothing.
    #[doc(hidden)]
    pub fn is_detour(&self) -> bool {
        ["NOSCRIPT", "MOVED", "ASK"].contains(&self.code())
    }

    /// Returns whether the server or its proxy refused the call because its keys are in several hash slots.
    #[doc(hidden)]
    pub fn is_of_several_slots(&self) -> bool {
        self.code() == "CROSSSLOT"
    }

    /// Returns whether a slot is moving and its keys are split. No node can run the call until all keys have moved.
    #[doc(hidden)]
    pub fn is_of_a_moving_slot(&self) -> bool {
        self.code() == "TRYAGAIN"
    }

    /// Returns whether a retry may soon succeed. The server is loading, failing over, moving slots, or busy; it cannot
    /// save a snapshot, or lacks the script.
    pub fn is_transient(&self) -> bool {
        const CODES: [&str; 12] = [
            "MISCONF",
            "LOADING",
            "NOSCRIPT",
            "BUSY",
            "TRYAGAIN",
            "CLUSTERDOWN",
            "MASTERDOWN",
            "READONLY",
            "MOVED",
            "ASK",
            "NOREPLICAS",
            "UNBLOCKED",
        ];
        // Servers before 7.0 wrap an error of a script in a sentence.
        CODES.iter().any(|code| self.code() == *code || self.text.contains(&format!("-{code} ")))
    }
}

/// An event that a link reports.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the driver must handle each")]
pub enum LinkEvent {
    /// A message on a channel: the lock may be free.
    Notice {
        /// The channel of the message.
        channel: Bytes,
    },
    /// A message that offers the free lock to an entry of its queue.
    Offered {
        /// The channel of the message.
        channel: Bytes,
        /// The field of the waiting hold: `uuid:number`.
        entry: Bytes,
    },
    /// Another client's request for the lock. Holders that may linger subscribe to it.
    ///
    /// Other kinds of locks publish this text with another meaning, so the session interprets it by the subscription.
    Wanted {
        /// The channel of the message.
        channel: Bytes,
    },
    /// The notice connection was lost and is back, without subscriptions. Messages were missed.
    NoticesReset,
    /// A connection for calls was lost and is back. The server's data may be gone.
    CallsReset,
    /// Connected to a server.
    Connected {
        /// The server's address.
        server: String,
        /// Whether the link was connected to this server before.
        again: bool,
    },
    /// The connection to a server was lost, and a reconnect failed. Reported once per kind of error until the next
    /// success.
    OutOfReach {
        /// The server's address.
        server: String,
        /// Why the attempt failed.
        why: String,
        /// The time since the connection was lost.
        lost_for: Duration,
        /// The server's slots, in order; `None` without other servers.
        slots: Option<Vec<u16>>,
    },
    /// The link dropped its connections to a server that owns no slots.
    Retired {
        /// The server's address.
        server: String,
    },
}

impl LinkEvent {
    /// Converts a message on a channel into its event.
    pub fn of_message(channel: Bytes, text: &[u8]) -> Self {
        match text {
            b"2" => Self::Wanted { channel },
            entry if entry.contains(&b':') => Self::Offered { channel, entry: Bytes::copy_from_slice(entry) },
            _ => Self::Notice { channel },
        }
    }
}

/// Facts about a server, read when the client connects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ServerInfo {
    /// `redis`, `valkey` or `embedded`.
    pub flavor: String,
    /// The version, such as `7.0.15`.
    pub version: String,
    /// The unique id of the server process. Empty if unknown.
    pub instance: String,
    /// `maxmemory-policy`, if readable.
    pub eviction_policy: Option<String>,
    /// Whether the server is a Redis Cluster, where all keys of a call must be in one slot.
    pub cluster: bool,
    /// Whether release notices use `SPUBLISH`.
    pub sharded_notices: bool,
}

/// The outcome of a call: the reply, or the error.
pub type Outcome = Result<Reply, LinkError>;

/// A reply or a message from the server.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "a receiver must handle each")]
pub enum Arrival {
    /// The outcome of a call sent by [`Link::start`].
    Outcome(CallId, Outcome),
    /// A message on a channel.
    Event(LinkEvent),
}

/// Receives the arrivals of a link.
pub trait Receiver: Send + Sync {
    /// Drains `arrivals`, in order of arrival. Threads may call the method concurrently, in any order.
    fn receive(&self, arrivals: &mut Vec<Arrival>);
}

/// Sends calls to a server and receives its notices. Clones are cheap and share their connections.
///
/// No method waits longer than the link's command timeout, with two exceptions: [`Link::event`] waits for an event, and
/// a durable call adds the time for its replicas. Any thread may poll the futures.
pub trait Link: Clone + Send + Sync + 'static {
    /// The facts about the server, as of the connection. Before that, only whether it is a cluster.
    fn server(&self) -> &ServerInfo;

    /// Number of settlings so far, of durable calls (`durable`) or of all other calls. Read it *before* deciding to
    /// send a call: see [`Link::call_decided`]. The method never calls the [`Receiver`], so the caller may hold the
    /// session's lock.
    fn settlings(&self, durable: bool) -> u64;

    /// Sends `call` and waits for its reply. The link resends the call only after proof that it was not applied: an
    /// unknown script or a redirection.
    ///
    /// The call is queued at the first poll.
    ///
    /// A call [with replicas](Call::with_replicas) has exclusive use of a connection, because `WAIT` blocks it. Script
    /// and `WAIT` are one pipeline, which is never resent. The reply is an array of the script's reply and the number
    /// of replicas that acknowledged it, possibly too few. If that number is unknown, so is the outcome.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the outcome unknown, and the call may still be sent. Settle it.
    fn call(&self, call: Call) -> impl Future<Output = Result<Reply, LinkError>> + Send {
        self.call_decided(self.settlings(call.replicas().is_some()), call)
    }

    /// Like [`Link::call`], for a call decided at `decided`. Sends nothing after a newer settling, which may have ruled
    /// out this call. The scheduler may suspend a thread between decision and call.
    fn call_decided(&self, decided: u64, call: Call) -> impl Future<Output = Result<Reply, LinkError>> + Send;

    /// Sends `call` as [`Link::call_decided`] does, without waiting. Returns an outcome that is already known. Any
    /// other outcome goes to the link's [`Receiver`].
    ///
    /// # Errors
    ///
    /// Returns the call if it cannot leave at once, because it must wait for a connection or its turn.
    fn start(&self, decided: u64, id: CallId, call: Call) -> Result<Option<Outcome>, Call>;

    /// Sets the receiver. Called once, before the first call and the first subscription.
    fn deliver_to(&self, receiver: Weak<dyn Receiver>);

    /// Ensures that the server can no longer apply an earlier call for the slot of `key`. With `durable` this covers
    /// the durable calls, else all other calls.
    ///
    /// The proof is a reply to a later command on the same connection, or a kill of the old connection. Outside of a
    /// cluster all keys are in one slot.
    ///
    /// # Errors
    ///
    /// The server is unreachable, so the proof is missing. Try again.
    fn settle(&self, key: Bytes, durable: bool) -> impl Future<Output = Result<Settled, LinkError>> + Send;

    /// The servers that currently own the keys: a single server, or each primary of a cluster.
    fn servers(&self) -> Vec<ServerId>;

    /// Reads a page of key names from one of [`Link::servers`].
    ///
    /// # Errors
    ///
    /// As for a call. The server keeps no state of a scan, so a page can be requested again.
    fn scan(&self, server: ServerId, page: ScanPage) -> impl Future<Output = Result<Scanned, LinkError>> + Send;

    /// Waits for a reply of one of [`Link::servers`] to an empty command.
    ///
    /// # Errors
    ///
    /// As for a call. A refusal that only concerns the empty command counts as a reply.
    fn ping(&self, server: ServerId) -> impl Future<Output = Result<(), LinkError>> + Send;

    /// Subscribes to a channel, and returns after the server's confirmation. From then on no message is missed while
    /// the connection lasts. A second subscription to the same channel is harmless.
    ///
    /// # Errors
    ///
    /// The subscription is unconfirmed and may exist. Subscribe again, or unsubscribe.
    fn subscribe(&self, channel: Bytes) -> impl Future<Output = Result<(), LinkError>> + Send;

    /// Ends a subscription. After a [`LinkEvent::NoticesReset`] no subscription exists.
    ///
    /// # Errors
    ///
    /// The server is unreachable. A lost connection has no subscriptions.
    fn unsubscribe(&self, channel: Bytes) -> impl Future<Output = Result<(), LinkError>> + Send;

    /// The next event that does not go to the [`Receiver`]; `None` after the link was closed. Only the background task
    /// calls this.
    ///
    /// # Cancel safety
    ///
    /// No event is lost.
    fn event(&self) -> impl Future<Output = Option<LinkEvent>> + Send;

    /// Closes all connections, without waiting for pending calls.
    fn close(&self) -> impl Future<Output = ()> + Send;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_once() {
        let told = |why: &str| not_connected("db:1", why).to_string();
        assert_eq!(told("db:1 cannot be reached: the connection was refused"), "db:1: the connection was refused");
        assert_eq!(told("the host name of db:1 cannot be resolved"), "the host name of db:1 cannot be resolved");
        assert_eq!(told("the connection was lost"), "db:1: the connection was lost");
    }

    #[test]
    fn a_snapshot_that_fails_is_waited_out_and_told() {
        let text = "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.";
        let refusal = ServerError::new(text);
        assert!(refusal.is_transient() && refusal.proves_nothing_done());
        assert!(LinkError::Refused(refusal).is_lasting());
        assert!(!LinkError::Refused(ServerError::new("LOADING the data")).is_lasting());
    }

    #[test]
    fn a_demoted_primary_is_recognised_inside_a_script_error() {
        let of_a_replica = |text: &str| ServerError::new(text).is_of_a_replica();
        assert!(of_a_replica("ERR Error running script (call to f_1): @user_script:1: -READONLY You can't write"));
        assert!(of_a_replica("READONLY You can't write against a read only replica."));
        assert!(!of_a_replica("OOM command not allowed"));
    }

    #[test]
    fn a_refusal_out_of_a_script_is_no_proof_and_one_before_it_is() {
        let proves = |text: &str| ServerError::new(text).proves_nothing_done();
        for text in [
            "NOSCRIPT No matching script. Please use EVAL.",
            "MOVED 3999 127.0.0.1:6381",
            "LOADING Redis is loading the dataset in memory",
            "NOPERM User app has no permissions to run the 'evalsha' command",
            "NOPERM this user has no permissions to access one of the keys used as arguments",
            "ERR unknown command 'EVALSHA', with args beginning with: '9f' '1' 'stock' ",
            "ERR unknown command `EVALSHA`, with args beginning with: `9f`, `1`, ",
            "ERR This instance has EVALSHA disabled",
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
            // A script that has started to write never gets these errors.
            "OOM command not allowed when used memory > 'maxmemory'. script: 9f, on @user_script:1.",
            "ERR Error running script (call to f_21): @user_script:1: @user_script: 1: -OOM command not allowed",
            "@user_script: 1: -OOM command not allowed when used memory > 'maxmemory'.",
            "READONLY You can't write against a read only replica. script: 9f, on @user_script:1.",
        ] {
            assert!(proves(text), "{text}");
        }
        for text in [
            "ERR ACL failure in script: User app has no permissions to run the 'pexpire' command script: 9f, on @user_script:1.",
            "ERR ACL failure in script: User app has no permissions to run the 'pexpire' command",
            "NOPERM ACL failure in script: User app has no permissions to run the 'pexpire' command",
            "ERR Error running script (call to f_e4): @user_script:1: @user_script: 1: The user executing the script can't run this command or subcommand",
            "@user_script: 1: The user executing the script can't run this command or subcommand",
            "ERR unknown command 'PEXPIRE', script: 9f, on @user_script:18.",
            "ERR Unknown Redis command called from script script: 9f, on @user_script:18.",
            "ERR WAIT was refused after the script: ERR unknown command 'WAIT'",
            "WRONGTYPE Operation against a key holding the wrong kind of value",
            "ERR user_script:1: x script: 9f, on @user_script:1.",
            "ERR whatever a proxy says",
        ] {
            assert!(!proves(text), "{text}");
        }
    }
}
