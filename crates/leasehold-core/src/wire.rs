//! The Redis protocol of one connection, without I/O: bytes in, bytes out.
//!
//! A [`Wire`] encodes commands into a buffer, decodes the server's bytes, and matches replies to commands. It tracks
//! each command: queued, written, answered or refused. At the end of the connection it returns whether a command may
//! have reached the server. It opens no socket and reads no clock, so tests and simulations can feed it any bytes.

mod decode;
mod encode;
mod words;

use decode::excerpt;
pub use decode::{Decoder, Limits, Malformed, Received};
pub(crate) use encode::{DIGITS, bulk, decimal};
pub use encode::{batch, command, script};
pub use words::{Words, WordsIter};

use crate::reply::Reply;
use bytes::Bytes;
use std::collections::VecDeque;

/// The maximum capacity of a reused buffer, in bytes.
const KEPT: usize = 16 * 1024;

/// The commands and replies of one connection. `T` is the caller's token for each command until its reply arrives.
#[derive(Debug)]
pub struct Wire<T> {
    decoder: Decoder,
    /// Encoded bytes that are not yet taken for writing.
    out: Vec<u8>,
    /// An empty buffer for the next `out`.
    spare: Vec<u8>,
    /// Total number of bytes taken for writing.
    taken: u64,
    /// Commands without a reply, oldest first.
    in_flight: VecDeque<InFlight<T>>,
    /// Messages may arrive as arrays: a RESP2 connection with subscriptions.
    messages_as_arrays: bool,
    /// The server may send messages.
    subscribed: bool,
}

#[derive(Debug)]
struct InFlight<T> {
    /// Offset of the command's first byte among all bytes of the connection.
    begins: u64,
    answer: Answer,
    token: T,
}

/// The expected answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    /// A reply.
    Reply,
    /// A confirmation that names the command and its channel: a push in RESP3, an array in RESP2. An error is a reply.
    Confirmation(Subscription, Bytes),
}

/// A subscription command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "these are all that a client needs")]
pub enum Subscription {
    /// `SUBSCRIBE`.
    Subscribe,
    /// `UNSUBSCRIBE`.
    Unsubscribe,
    /// `SSUBSCRIBE`, for a sharded channel.
    SubscribeSharded,
    /// `SUNSUBSCRIBE`, for a sharded channel.
    UnsubscribeSharded,
}

impl Subscription {
    const ALL: [Self; 4] = [Self::Subscribe, Self::Unsubscribe, Self::SubscribeSharded, Self::UnsubscribeSharded];

    const fn command(self) -> &'static str {
        match self {
            Self::Subscribe => "SUBSCRIBE",
            Self::Unsubscribe => "UNSUBSCRIBE",
            Self::SubscribeSharded => "SSUBSCRIBE",
            Self::UnsubscribeSharded => "SUNSUBSCRIBE",
        }
    }
}

/// An action of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the caller must handle each")]
pub enum Event<T> {
    /// The server answered a command. The frame may be an error reply, and is [`Reply::Nil`] for a confirmed
    /// subscription.
    Answered(T, Reply),
    /// The server sent a message on a channel.
    Message {
        /// The channel.
        channel: Bytes,
        /// The message.
        payload: Bytes,
    },
    /// The server ended a subscription, because the channel's slot moved to another node.
    Unsubscribed {
        /// The channel.
        channel: Bytes,
    },
}

/// The fate of a command without a reply when its connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "there is no third fate")]
pub enum Fate {
    /// The caller took no byte of the command for writing.
    NotSent,
    /// The caller took at least one byte of the command for writing. The server may have applied the command, or may
    /// still apply it.
    Unknown,
}

impl<T> Default for Wire<T> {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl<T> Wire<T> {
    /// Creates the state of a new connection.
    pub fn new(limits: Limits) -> Self {
        Self {
            decoder: Decoder::new(limits),
            out: Vec::new(),
            spare: Vec::new(),
            taken: 0,
            in_flight: VecDeque::new(),
            messages_as_arrays: false,
            subscribed: false,
        }
    }

    /// Queues a command. Its reply comes as [`Event::Answered`] with `token`.
    pub fn send(&mut self, name: &str, args: &[impl AsRef<[u8]>], token: T) {
        self.in_flight.push_back(InFlight { begins: self.queued(), answer: Answer::Reply, token });
        command(&mut self.out, name, args);
    }

    /// Queues the command that `encode` appends. Its reply comes as [`Event::Answered`] with `token`.
    pub fn send_encoded(&mut self, token: T, encode: impl FnOnce(&T, &mut Vec<u8>)) {
        let begins = self.queued();
        encode(&token, &mut self.out);
        self.in_flight.push_back(InFlight { begins, answer: Answer::Reply, token });
    }

    /// Queues a subscription command. [`Event::Answered`] comes when the server has confirmed or refused it.
    ///
    /// In RESP2 (`resp3` is false), a connection with subscriptions treats arrays that begin with `message` as
    /// messages. `PING` is then its only other command.
    pub fn subscription(&mut self, what: Subscription, channel: Bytes, resp3: bool, token: T) {
        let begins = self.queued();
        command(&mut self.out, what.command(), &[&channel]);
        self.in_flight.push_back(InFlight { begins, answer: Answer::Confirmation(what, channel), token });
        self.messages_as_arrays |= !resp3;
    }

    /// Takes the queued bytes for writing. The caller writes them in this order.
    pub fn take_out(&mut self) -> Vec<u8> {
        self.taken = self.queued();
        std::mem::replace(&mut self.out, std::mem::take(&mut self.spare))
    }

    /// Keeps a written buffer for later commands.
    pub fn give_back(&mut self, mut written: Vec<u8>) {
        if written.capacity() <= KEPT {
            written.clear();
            self.spare = written;
        }
    }

    /// Number of queued bytes that are not yet taken for writing.
    pub const fn unwritten(&self) -> usize {
        self.out.len()
    }

    /// Number of commands without a reply.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns whether the server owes a reply, or sends messages of a subscription.
    pub fn is_awaited(&self) -> bool {
        self.subscribed || !self.in_flight.is_empty()
    }

    /// Returns whether the connection has subscriptions.
    pub const fn is_subscribed(&self) -> bool {
        self.subscribed
    }

    /// Adds bytes from the server.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.decoder.feed(bytes);
    }

    /// Returns the next action of the server whose bytes have arrived completely.
    ///
    /// # Errors
    ///
    /// The server sent invalid bytes. Close the connection: no further reply can be trusted.
    pub fn poll(&mut self) -> Result<Option<Event<T>>, Malformed> {
        while let Some(received) = self.decoder.decode()? {
            let event = match received {
                Received::Push(parts) => self.pushed(parts)?,
                Received::Reply(Reply::Array(parts)) if self.messages_as_arrays && is_of_a_channel(&parts) => {
                    self.pushed(parts)?
                }
                Received::Reply(frame) => Some(self.replied(frame)?),
            };
            if event.is_some() {
                return Ok(event);
            }
        }
        Ok(None)
    }

    /// Ends the connection. Returns each command without a reply, oldest first, and its fate.
    pub fn close(&mut self) -> impl Iterator<Item = (T, Fate)> + use<T> {
        self.out = Vec::new();
        let taken = self.taken;
        std::mem::take(&mut self.in_flight).into_iter().map(move |call| {
            let fate = if call.begins >= taken { Fate::NotSent } else { Fate::Unknown };
            (call.token, fate)
        })
    }

    /// Total number of queued bytes.
    fn queued(&self) -> u64 {
        self.taken + u64::try_from(self.out.len()).unwrap_or_default()
    }

    /// Assigns a reply to the oldest command without a reply.
    fn replied(&mut self, frame: Reply) -> Result<Event<T>, Malformed> {
        match self.in_flight.pop_front() {
            // The only reply to a subscription command is an error.
            Some(call) if call.answer == Answer::Reply || frame.error().is_some() => {
                Ok(Event::Answered(call.token, frame))
            }
            Some(_) | None => Err(match frame {
                Reply::Error(refusal) => Malformed::Refused(refusal),
                frame => Malformed::Unasked(excerpt(format!("{frame:?}").as_bytes())),
            }),
        }
    }

    /// Handles a push. Ignores unknown pushes, which later server versions may send.
    fn pushed(&mut self, parts: Vec<Reply>) -> Result<Option<Event<T>>, Malformed> {
        let mut parts = parts.into_iter();
        let mut text = || match parts.next() {
            Some(Reply::Bulk(text)) => Some(text),
            _ => None,
        };
        let Some(kind) = text() else { return Ok(None) };
        if kind.eq_ignore_ascii_case(b"message") || kind.eq_ignore_ascii_case(b"smessage") {
            let (Some(channel), Some(payload)) = (text(), text()) else { return Ok(None) };
            return Ok(Some(Event::Message { channel, payload }));
        }
        let Some(what) =
            Subscription::ALL.into_iter().find(|what| kind.eq_ignore_ascii_case(what.command().as_bytes()))
        else {
            return Ok(None);
        };
        let Some(channel) = text() else { return Ok(None) };
        let is_end = matches!(what, Subscription::Unsubscribe | Subscription::UnsubscribeSharded);
        // The last part of a confirmation is the number of remaining subscriptions.
        self.subscribed = !(is_end && parts.next().is_some_and(|left| left.int() == Ok(0)));
        let is_asked = |call: &InFlight<T>| matches!(&call.answer, Answer::Confirmation(asked, of) if *asked == what && *of == channel);
        if self.in_flight.front().is_some_and(is_asked)
            && let Some(call) = self.in_flight.pop_front()
        {
            return Ok(Some(Event::Answered(call.token, Reply::Nil)));
        }
        match what {
            Subscription::Unsubscribe | Subscription::UnsubscribeSharded => Ok(Some(Event::Unsubscribed { channel })),
            Subscription::Subscribe | Subscription::SubscribeSharded => Err(Malformed::Unasked(excerpt(&channel))),
        }
    }
}

/// Returns whether a RESP2 array is a message or a confirmation, not the reply to a `PING`.
fn is_of_a_channel(parts: &[Reply]) -> bool {
    let Some(Reply::Bulk(kind)) = parts.first() else { return false };
    let confirms = |what: &Subscription| kind.eq_ignore_ascii_case(what.command().as_bytes());
    kind.eq_ignore_ascii_case(b"message")
        || kind.eq_ignore_ascii_case(b"smessage")
        || Subscription::ALL.iter().any(confirms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::ServerError;

    type Events = Vec<Event<u32>>;

    fn events(wire: &mut Wire<u32>, bytes: &[u8]) -> Result<Events, Malformed> {
        wire.feed(bytes);
        let mut all = Vec::new();
        while let Some(event) = wire.poll()? {
            all.push(event);
        }
        Ok(all)
    }

    fn sent(tokens: std::ops::Range<u32>) -> Wire<u32> {
        let mut wire = Wire::default();
        tokens.for_each(|token| wire.send("PING", &[""; 0], token));
        wire
    }

    fn channel() -> Bytes {
        Bytes::from_static(b"c")
    }

    #[test]
    fn replies_belong_to_commands_in_their_order() {
        let mut wire = sent(0..3);
        assert_eq!(wire.take_out(), b"*1\r\n$4\r\nPING\r\n".repeat(3));
        let error = Reply::Error(ServerError::new("ERR no"));
        let answered = [Event::Answered(0, Reply::Int(1)), Event::Answered(1, error), Event::Answered(2, Reply::Nil)];
        assert_eq!(events(&mut wire, b":1\r\n-ERR no\r\n_\r\n").expect("RESP"), answered);
        assert_eq!(wire.in_flight(), 0);
    }

    #[test]
    fn reply_without_a_command_is_an_error() {
        let error = events(&mut Wire::default(), b"+OK\r\n").expect_err("nothing was asked");
        assert!(matches!(error, Malformed::Unasked(_)), "{error}");
    }

    #[test]
    fn error_without_a_command_keeps_its_words() {
        let error = events(&mut Wire::default(), b"-ERR max number of clients reached\r\n").expect_err("a refusal");
        assert_eq!(error, Malformed::Refused(ServerError::new("ERR max number of clients reached")));
    }

    #[test]
    fn command_is_unsent_only_if_none_of_its_bytes_was_taken() {
        let mut wire = sent(0..2);
        let taken = wire.take_out();
        wire.send("PING", &[""; 0], 2);
        assert_eq!(wire.unwritten(), 14);
        let fates: Vec<_> = wire.close().collect();
        assert_eq!(fates, [(0, Fate::Unknown), (1, Fate::Unknown), (2, Fate::NotSent)]);
        assert_eq!(taken.len(), 28);
    }

    #[test]
    fn messages_of_resp3_come_between_replies() {
        let mut wire = sent(0..1);
        let bytes = b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n+PONG\r\n>3\r\n+smessage\r\n+c\r\n+1\r\n>2\r\n+invalidate\r\n_\r\n";
        let message =
            |text: &'static str| Event::Message { channel: channel(), payload: Bytes::from_static(text.as_bytes()) };
        let pong = Event::Answered(0, Reply::Bulk(Bytes::from_static(b"PONG")));
        assert_eq!(events(&mut wire, bytes).expect("RESP"), [message("0"), pong, message("1")]);
    }

    #[test]
    fn subscription_is_answered_by_its_confirmation_or_an_error() {
        for (resp3, kind) in [(true, ">"), (false, "*")] {
            let mut wire = Wire::default();
            wire.subscription(Subscription::Subscribe, channel(), resp3, 1);
            wire.send("PING", &[""; 0], 2);
            wire.subscription(Subscription::SubscribeSharded, channel(), resp3, 3);
            assert!(wire.take_out().starts_with(b"*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nc\r\n"));
            let bytes = format!(
                "{kind}3\r\n+subscribe\r\n+c\r\n:1\r\n{kind}3\r\n+message\r\n+c\r\n+0\r\n+PONG\r\n-MOVED 1 h:1\r\n"
            );
            let expected = [
                Event::Answered(1, Reply::Nil),
                Event::Message { channel: channel(), payload: Bytes::from_static(b"0") },
                Event::Answered(2, Reply::Bulk(Bytes::from_static(b"PONG"))),
                Event::Answered(3, Reply::Error(ServerError::new("MOVED 1 h:1"))),
            ];
            assert_eq!(events(&mut wire, bytes.as_bytes()).expect("RESP"), expected);
        }
    }

    #[test]
    fn pong_of_a_subscribed_connection_of_resp2_is_a_reply() {
        let mut wire = Wire::default();
        wire.subscription(Subscription::Subscribe, channel(), false, 1);
        wire.send("PING", &["x"], 2);
        let all = events(&mut wire, b"*3\r\n+subscribe\r\n+c\r\n:1\r\n*2\r\n+pong\r\n+x\r\n").expect("RESP");
        assert!(matches!(all.as_slice(), [Event::Answered(1, _), Event::Answered(2, Reply::Array(_))]), "{all:?}");
    }

    #[test]
    fn subscription_that_the_server_ends_answers_no_command() {
        let mut wire = sent(0..1);
        wire.subscription(Subscription::UnsubscribeSharded, channel(), true, 1);
        let push = b">3\r\n+sunsubscribe\r\n+c\r\n:0\r\n";
        let bytes = [push.as_slice(), b"+PONG\r\n", push].concat();
        let all = events(&mut wire, &bytes).expect("RESP");
        assert!(
            matches!(
                all.as_slice(),
                [Event::Unsubscribed { .. }, Event::Answered(0, _), Event::Answered(1, Reply::Nil)]
            ),
            "{all:?}"
        );
        let error = events(&mut wire, b">3\r\n+subscribe\r\n+c\r\n:1\r\n").expect_err("nothing subscribed");
        assert!(matches!(error, Malformed::Unasked(_)), "{error}");
    }

    #[test]
    fn server_is_awaited_until_the_last_reply_and_the_end_of_the_last_subscription() {
        for (resp3, kind) in [(true, ">"), (false, "*")] {
            let mut wire = Wire::default();
            assert!(!wire.is_awaited());
            for (token, channel) in (0..).zip(["a", "b"]) {
                wire.subscription(Subscription::Subscribe, Bytes::from_static(channel.as_bytes()), resp3, token);
            }
            let mut hears = |parts: &str| {
                events(&mut wire, format!("{kind}3\r\n{parts}\r\n").as_bytes()).expect("RESP");
                wire.is_awaited()
            };
            assert!(hears("+subscribe\r\n+a\r\n:1") && hears("+subscribe\r\n+b\r\n:2"));
            assert!(hears("+message\r\n+a\r\n+0") && hears("+unsubscribe\r\n+a\r\n:1"));
            assert!(!hears("+unsubscribe\r\n+b\r\n:0"));
            wire.send("PING", &[""; 0], 2);
            assert!(wire.is_awaited());
            events(&mut wire, b"+PONG\r\n").expect("RESP");
            assert!(!wire.is_awaited());
        }
    }

    #[test]
    fn reply_to_a_subscription_other_than_an_error_is_malformed() {
        let mut wire = Wire::default();
        wire.subscription(Subscription::Subscribe, channel(), true, 1);
        assert!(events(&mut wire, b"+OK\r\n").is_err());
    }
}
