//! The one seam between the protocol and a server.
//!
//! A [`Link`] sends calls and receives notices. One implementation connects to Redis and Valkey, one to the embedded
//! engine.
//! The layers above this trait cannot tell them apart, and every behaviour test runs on each.

mod in_script;

use crate::call::{Call, CallId};
use crate::reply::Reply;
use crate::scan::{ScanPage, Scanned, ServerId};
use bytes::Bytes;
use std::future::Future;
use std::sync::Weak;
use std::time::Duration;
use thiserror::Error;

/// How sure it is, after [`Link::settle`], that nothing sent earlier can still be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no third answer")]
pub enum Settled {
    /// It is certain: a later command on the same connection was answered, or the server says that the connection is dead.
    Proven,
    /// It cannot be had here, for instance because `CLIENT KILL` is forbidden. A copy may still come, for a while.
    Unproven,
}

/// The message for a server that is not connected, with the reason. It has the address only once, because the text of
/// an attempt begins with it.
pub fn not_connected(server: &str, why: &str) -> LinkError {
    let reason = why.strip_prefix(server).map(|rest| rest.trim_start_matches(" cannot be reached: "));
    LinkError::NotSent(match reason {
        Some(reason) => format!("{server}: {reason}"),
        None if why.contains(server) => why.to_owned(),
        None => format!("{server}: {why}"),
    })
}

/// Why a call has no reply that counts.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(clippy::exhaustive_enums, reason = "every caller must tell these three apart")]
pub enum LinkError {
    /// The call certainly never left this process.
    #[error("{0}")]
    NotSent(String),
    /// The server answered with an error, and no copy of the call can be applied any more. A script that met the error in its middle has done
    /// what comes before: see [`ServerError::proves_nothing_done`].
    #[error("refused by the server: {0}")]
    Refused(#[source] ServerError),
    /// The call was sent, or may have been, and no reply came: it may have been applied, or may yet be.
    #[error("outcome unknown: {0}")]
    Unknown(String),
}

impl LinkError {
    /// Whether nothing but chance has kept the call from being carried out, so that it may be sent again at once.
    pub fn is_worth_going_again(&self) -> bool {
        match self {
            Self::NotSent(_) => true,
            Self::Refused(refusal) => refusal.is_detour(),
            Self::Unknown(_) => false,
        }
    }

    /// Whether an operator has to act: the server's refusal is not temporary.
    pub fn is_lasting(&self) -> bool {
        matches!(self, Self::Refused(refusal) if !refusal.is_transient() || refusal.is_of_a_failed_snapshot())
    }

    /// The fate of a call that a server has refused before, with `NOSCRIPT` or a redirection: it has left this process, and the call that
    /// was to be sent in its place has not.
    #[must_use]
    pub fn of_a_call_refused(self, before: &ServerError) -> Self {
        match self {
            Self::NotSent(_) => Self::Refused(before.clone()),
            other => other,
        }
    }
}

/// An error reply of a server. Its first word is a code, such as `WRONGTYPE`, `OOM` or `READONLY`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text}")]
pub struct ServerError {
    text: String,
    /// The server refused a command of the script before the grant.
    ungranted: bool,
}

impl ServerError {
    /// The error reply with this text, as the server sent it, without the leading `-`.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ungranted: false }
    }

    /// The first word.
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

    /// Whether the server has no memory for what the call writes.
    pub fn is_out_of_memory(&self) -> bool {
        self.code() == "OOM" || self.text.contains("-OOM ")
    }

    /// Whether the server takes no writes, because it is a replica. It may have been a primary before.
    #[doc(hidden)]
    pub fn is_of_a_replica(&self) -> bool {
        // Servers before 7.0 wrap an error that a script met into a sentence of their own.
        self.code() == "READONLY" || self.text.contains("-READONLY ")
    }

    /// Whether the server refuses writes, because it could not save a snapshot. It accepts writes again after a
    /// successful snapshot.
    fn is_of_a_failed_snapshot(&self) -> bool {
        self.code() == "MISCONF" || self.text.contains("-MISCONF ")
    }

    /// Whether the server lacks or has disabled a command, or refuses it to this user.
    #[doc(hidden)]
    pub fn is_of_a_missing_command(&self) -> bool {
        self.code() == "NOPERM" || self.lacks_the_command()
    }

    /// Whether the server lacks the sent command. This does not cover commands of a script.
    fn lacks_the_command(&self) -> bool {
        let is_of_a_script = [", script:", " script: ", "user_script"].iter().any(|part| self.text.contains(part));
        let is_disabled = self.text.starts_with("ERR This instance has ") && self.text.contains("disabled");
        let is_unknown = ["ERR unknown command", "ERR unknown subcommand", "ERR Unknown subcommand"];
        !is_of_a_script && (is_disabled || is_unknown.iter().any(|beginning| self.text.starts_with(beginning)))
    }

    /// Whether the call has certainly done nothing.
    ///
    /// A server lets a script fail in its middle, and what the script had written by then stays. Servers before 7.0 say so in a sentence of
    /// their own, newer ones add the line of the script, and neither does where the script itself answers with the error that it met. So
    /// this is a list of the errors that come before the first write of a script, or instead of it; whatever is not on it proves nothing.
    #[doc(hidden)]
    pub fn proves_nothing_done(&self) -> bool {
        // The server is asked at each command for whether it has room, may write, or has its replicas. It never refuses that to a script
        // that has begun to write.
        const BEFORE_A_WRITE: [&str; 4] = ["OOM", "READONLY", "MISCONF", "NOREPLICAS"];
        // The server does not begin to run the script.
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
            // A user may lack the right to `EVALSHA` itself, or to a key of the call. A right that it lacks within the script is told as
            // that.
            || self.code() == "NOPERM" && !self.text.contains("script")
            || self.lacks_the_command()
    }

    /// Whether the call certainly granted nothing and raised no count. The script may have made preparations, such as a
    /// place in a queue.
    #[doc(hidden)]
    pub const fn proves_no_grant(&self) -> bool {
        self.ungranted
    }

    /// Whether the server only wants the call to be sent in another way, or to another one, and that was not done.
    #[doc(hidden)]
    pub fn is_detour(&self) -> bool {
        ["NOSCRIPT", "MOVED", "ASK"].contains(&self.code())
    }

    /// Whether the server, or a proxy in front of it, refused the call because its keys lie in several hash slots.
    #[doc(hidden)]
    pub fn is_of_several_slots(&self) -> bool {
        self.code() == "CROSSSLOT"
    }

    /// Whether some keys of the call are at a new node of a cluster already, and others are not: no node can carry it out until all are.
    #[doc(hidden)]
    pub fn is_of_a_moving_slot(&self) -> bool {
        self.code() == "TRYAGAIN"
    }

    /// Whether the same call may succeed a little later by itself: the server is loading, is failing over, is moving slots, does not know
    /// the script yet, cannot save a snapshot at the moment, or is busy.
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
        // Servers before 7.0 wrap an error that a script met into a sentence of their own.
        CODES.iter().any(|code| self.code() == *code || self.text.contains(&format!("-{code} ")))
    }
}

/// The events that a link tells without being asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the driver must handle each")]
pub enum LinkEvent {
    /// A message came on a channel. It is a hint that the lock may be free.
    Notice {
        /// The channel on which it came.
        channel: Bytes,
    },
    /// A message came on a channel that offers the free lock to an entry of its queue, and names it.
    Offered {
        /// The channel on which it came.
        channel: Bytes,
        /// The field of the hold that waits: `uuid:number`.
        entry: Bytes,
    },
    /// A message came on a channel by which another client says that it wants the lock. A holder whose hold may linger listens to it.
    ///
    /// Other kinds of locks publish the same text in another sense, so that the session reads it by what listens.
    Wanted {
        /// The channel on which it came.
        channel: Bytes,
    },
    /// The notice connection was lost and is back: it has no subscriptions, and messages were missed.
    NoticesReset,
    /// A connection for calls was lost and is back: what the server held may be gone.
    CallsReset,
    /// Connected to a server.
    Connected {
        /// The server's address.
        server: String,
        /// Whether there was one before.
        again: bool,
    },
    /// The connection to a server was lost, and a reconnect failed. Reported once per kind of error until the next success.
    OutOfReach {
        /// The server's address.
        server: String,
        /// Why the attempt failed.
        why: String,
        /// How long ago the connection was lost.
        lost_for: Duration,
        /// The slots that the server owns, in order; `None` where there are no others.
        slots: Option<Vec<u16>>,
    },
    /// No connection to the server is kept any more: it owns nothing.
    Retired {
        /// The server's address.
        server: String,
    },
}

impl LinkEvent {
    /// The event of a message with this text on a channel.
    pub fn of_message(channel: Bytes, text: &[u8]) -> Self {
        match text {
            b"2" => Self::Wanted { channel },
            entry if entry.contains(&b':') => Self::Offered { channel, entry: Bytes::copy_from_slice(entry) },
            _ => Self::Notice { channel },
        }
    }
}

/// The facts about a server that a client learns when it connects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ServerInfo {
    /// `redis`, `valkey` or `embedded`.
    pub flavor: String,
    /// Its version, such as `7.0.15`.
    pub version: String,
    /// Which process it is: no two servers have the same. Empty where it is not known.
    pub instance: String,
    /// `maxmemory-policy`, where it can be read.
    pub eviction_policy: Option<String>,
    /// Whether it is a Redis Cluster, where all keys of a call must lie in one slot.
    pub cluster: bool,
    /// Whether release notices go by `SPUBLISH`.
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

/// Receives what arrives at a link.
pub trait Receiver: Send + Sync {
    /// Drains `arrivals`, which are in order of arrival. May be called from any thread, also from two threads at the same time: then the
    /// order between the two is open.
    fn receive(&self, arrivals: &mut Vec<Arrival>);
}

/// Sends calls to a server and carries its notices. Cheap to clone; the clones share their connections.
///
/// No method waits longer than the link's command timeout, except that [`Link::event`] waits for an event, and that the time which
/// replicas are given comes on top. All futures may be polled from any thread.
pub trait Link: Clone + Send + Sync + 'static {
    /// The server's description of itself when the client connected; before, only whether it is a cluster.
    fn server(&self) -> &ServerInfo;

    /// The number of settlings so far, of calls that wait for replicas (`durable`) or of all other calls. Read it *before* deciding to send a
    /// call: see [`Link::call_decided`]. It never calls the [`Receiver`], so it may be called while the session is locked.
    fn settlings(&self, durable: bool) -> u64;

    /// Sends `call` and waits for its reply. The link resends it only after a reply that proves that the server did not apply it: the server
    /// does not know the script, or another node owns the slot.
    ///
    /// The call is queued at the first poll.
    ///
    /// A call [with replicas](Call::with_replicas) has exclusive use of a connection, because `WAIT` blocks it. Script and
    /// `WAIT` are one pipeline, which is never sent again. The reply is an array of two: the script's reply, and how many replicas
    /// acknowledged it, which may be fewer than were asked for. If the latter is not known, the outcome is not.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the outcome unknown, and the call may still be sent: settle it.
    fn call(&self, call: Call) -> impl Future<Output = Result<Reply, LinkError>> + Send {
        self.call_decided(self.settlings(call.replicas().is_some()), call)
    }

    /// As [`Link::call`], for a call that was decided on after `decided`. It sends nothing if a settling has begun since: the
    /// settling may have ruled out this call. A thread may be suspended between the decision and the call.
    fn call_decided(&self, decided: u64, call: Call) -> impl Future<Output = Result<Reply, LinkError>> + Send;

    /// Sends `call` as [`Link::call_decided`] does, without waiting. Returns the outcome if it is already known. Otherwise delivers it to the
    /// link's [`Receiver`].
    ///
    /// # Errors
    ///
    /// Returns the call if it cannot leave at once: it must wait for a connection, or for its turn on one.
    fn start(&self, decided: u64, id: CallId, call: Call) -> Result<Option<Outcome>, Call>;

    /// Sets the receiver. Called once, before the first call and the first subscription.
    fn deliver_to(&self, receiver: Weak<dyn Receiver>);

    /// Makes sure that the server can no longer apply an earlier call for the slot of `key`: of those that wait for replicas (`durable`), or
    /// of all other calls.
    ///
    /// A later command on the same connection is answered, or the server has killed the old connection. Outside of a cluster all keys are
    /// of one slot.
    ///
    /// # Errors
    ///
    /// The server could not be reached: nothing is known; try again.
    fn settle(&self, key: Bytes, durable: bool) -> impl Future<Output = Result<Settled, LinkError>> + Send;

    /// The servers that have the keys at this moment: one, or each primary of a cluster.
    fn servers(&self) -> Vec<ServerId>;

    /// Asks one of [`Link::servers`] for a page of the names of its keys.
    ///
    /// # Errors
    ///
    /// As of a call. The server keeps nothing of a scan, so that the same page may be asked for again.
    fn scan(&self, server: ServerId, page: ScanPage) -> impl Future<Output = Result<Scanned, LinkError>> + Send;

    /// Subscribes to a channel. When this returns, the server has confirmed it: no message sent from then on is missed while
    /// the connection stands. A second subscription to the same channel is harmless.
    ///
    /// # Errors
    ///
    /// The subscription is not confirmed, and may or may not exist: subscribe again, or unsubscribe.
    fn subscribe(&self, channel: Bytes) -> impl Future<Output = Result<(), LinkError>> + Send;

    /// Ends a subscription. After a [`LinkEvent::NoticesReset`] there is none to end.
    ///
    /// # Errors
    ///
    /// The server could not be reached; a connection that is lost has no subscriptions.
    fn unsubscribe(&self, channel: Bytes) -> impl Future<Output = Result<(), LinkError>> + Send;

    /// The next event that does not go to the [`Receiver`]; `None` once the link has been closed. Only the background calls this.
    ///
    /// # Cancel safety
    ///
    /// No event is lost.
    fn event(&self) -> impl Future<Output = Option<LinkEvent>> + Send;

    /// Closes all connections, without waiting for calls under way.
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
            // A script that has begun to write is not refused these.
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
