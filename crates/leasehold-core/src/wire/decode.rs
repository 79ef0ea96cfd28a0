//! Replies of RESP2 and RESP3, decoded as their bytes arrive.

use crate::link::ServerError;
use crate::reply::Reply;
use bytes::Bytes;
use thiserror::Error;

/// A message from the server: the reply to a command, or a RESP3 push, which is not a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "these are all that the protocol has")]
pub enum Received {
    /// The reply to the oldest command without a reply.
    Reply(Reply),
    /// A push, such as a message on a channel.
    Push(Vec<Reply>),
}

/// The limits of one reply.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum nesting depth.
    pub depth: usize,
    /// Maximum bytes of a line: a simple string, an error in either form, a number or a length.
    pub line: usize,
    /// Maximum memory of one reply: the bytes of its lines and strings, and a constant for each element.
    pub reply: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { depth: 32, line: 64 * 1024, reply: 64 * 1024 * 1024 }
    }
}

/// The server sent unusable bytes. The connection must be closed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Malformed {
    /// The bytes are not RESP.
    #[error("its answer begins with {0}")]
    NotResp(String),
    /// A reply exceeds one of the [`Limits`].
    #[error("its reply is too large: more than {limit} {unit}")]
    TooLarge {
        /// The limit.
        limit: usize,
        /// The unit of the limit.
        unit: &'static str,
    },
    /// The server refused the connection before the first command, for example because it has too many clients.
    #[error("it refused the connection: {0}")]
    Refused(ServerError),
    /// A reply arrived without a command.
    #[error("it sent a reply without a command: {0}")]
    Unasked(String),
}

/// The first bytes from the server, for an error message.
pub(super) fn excerpt(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes[..bytes.len().min(80)].escape_ascii())
}

/// Decodes a stream of replies. It resumes where the bytes ended, and reads each byte once.
#[derive(Debug, Default)]
pub struct Decoder {
    limits: Limits,
    /// Received bytes. Bytes before `start` are decoded.
    buffer: Vec<u8>,
    start: usize,
    /// Number of bytes after `start` without a line feed.
    searched: usize,
    /// The length and kind of the string whose bytes are arriving.
    string: Option<(u8, usize)>,
    /// Aggregates whose elements are arriving, outermost first.
    open: Vec<Open>,
    /// Memory of the reply that is arriving.
    used: usize,
}

/// An aggregate whose elements are arriving.
#[derive(Debug)]
struct Open {
    kind: u8,
    missing: usize,
    elements: Vec<Reply>,
}

impl Decoder {
    /// A decoder with limits other than the default.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Adds received bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.start == self.buffer.len() {
            self.buffer.clear();
            self.buffer.shrink_to(IDLE);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Decodes the next reply or push; `None` until its last byte has arrived.
    ///
    /// # Errors
    ///
    /// The server does not use RESP, or exceeds a limit. Do not use the decoder afterwards.
    pub fn decode(&mut self) -> Result<Option<Received>, Malformed> {
        loop {
            let step = match self.string {
                Some((kind, len)) => self.take_string(kind, len)?,
                None => self.take_line()?,
            };
            let received = match step {
                Step::Incomplete => return Ok(None),
                Step::Header => None,
                Step::Reply(frame) => self.place(frame),
            };
            if let Some(received) = received {
                self.used = 0;
                self.drop_decoded();
                return Ok(Some(received));
            }
        }
    }

    /// Adds a frame to its aggregate, and closes each aggregate that it completes.
    fn place(&mut self, mut frame: Reply) -> Option<Received> {
        loop {
            let Some(parent) = self.open.last_mut() else { return Some(Received::Reply(frame)) };
            parent.elements.push(frame);
            parent.missing -= 1;
            if parent.missing > 0 {
                return None;
            }
            let Open { kind, elements, .. } = self.open.pop()?;
            frame = match kind {
                b'>' => return Some(Received::Push(elements)),
                // An attribute only describes the value after it.
                b'|' => return None,
                _ => Reply::Array(elements),
            };
        }
    }

    /// Decodes a line: a whole frame, or the header of a frame.
    fn take_line(&mut self) -> Result<Step, Malformed> {
        let rest = &self.buffer[self.start..];
        if rest.first().is_some_and(|kind| !KINDS.contains(kind)) {
            return Err(self.not_resp());
        }
        let Some(end) = rest[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = rest.len();
            return if rest.len() > self.limits.line { Err(self.long_line()) } else { Ok(Step::Incomplete) };
        };
        let end = self.searched + end;
        if end > self.limits.line {
            return Err(self.long_line());
        }
        let Some((kind, line)) = rest[..end].strip_suffix(b"\r").and_then(<[u8]>::split_first) else {
            return Err(self.not_resp());
        };
        let step = match (*kind, line) {
            (b'+', text) => Some(Step::Reply(Reply::Bulk(Bytes::copy_from_slice(text)))),
            (b'-', text) => Some(Step::Reply(Reply::Error(ServerError::new(String::from_utf8_lossy(text))))),
            (b':', digits) => integer(digits).map(|value| Step::Reply(Reply::Int(value))),
            (b',', digits) if is_double(digits) => Some(Step::Reply(Reply::Bulk(Bytes::copy_from_slice(digits)))),
            (b'(', digits) if is_big_number(digits) => Some(Step::Reply(Reply::Bulk(Bytes::copy_from_slice(digits)))),
            (b'_', b"") | (b'$' | b'*', b"-1") => Some(Step::Reply(Reply::Nil)),
            (b'#', b"t") => Some(Step::Reply(Reply::Int(1))),
            (b'#', b"f") => Some(Step::Reply(Reply::Int(0))),
            (kind @ (b'$' | b'=' | b'!'), digits) => match length(digits) {
                Some(len) => {
                    if kind == b'!' && len > self.limits.line {
                        return Err(self.long_line());
                    }
                    self.charge(len)?;
                    self.string = Some((kind, len));
                    Some(Step::Header)
                }
                None => None,
            },
            (kind @ (b'*' | b'~' | b'>' | b'%' | b'|'), digits) => match length(digits) {
                Some(len) => self.open(kind, len)?,
                None => None,
            },
            _ => None,
        };
        let Some(step) = step else { return Err(self.not_resp()) };
        self.start += end + 1;
        self.searched = 0;
        self.charge(end)?;
        Ok(step)
    }

    /// Begins an aggregate of `len` elements, or entries. An empty aggregate is complete.
    fn open(&mut self, kind: u8, len: usize) -> Result<Option<Step>, Malformed> {
        // A push comes between replies, and its first element names its type.
        if kind == b'>' && (!self.open.is_empty() || len == 0) {
            return Ok(None);
        }
        let missing = if matches!(kind, b'%' | b'|') { len.saturating_mul(2) } else { len };
        self.charge(missing.saturating_mul(size_of::<Reply>()))?;
        if self.open.len() >= self.limits.depth {
            return Err(Malformed::TooLarge { limit: self.limits.depth, unit: "arrays within arrays" });
        }
        if missing > 0 {
            // The announced length is untrusted, so memory grows with the received elements.
            self.open.push(Open { kind, missing, elements: Vec::with_capacity(missing.min(64)) });
            return Ok(Some(Step::Header));
        }
        Ok(Some(if kind == b'|' { Step::Header } else { Step::Reply(Reply::Array(Vec::new())) }))
    }

    /// Decodes the `len` bytes of a string, and the line end after them.
    fn take_string(&mut self, kind: u8, len: usize) -> Result<Step, Malformed> {
        let rest = &self.buffer[self.start..];
        let Some((text, end)) = rest.split_at_checked(len) else { return Ok(Step::Incomplete) };
        match end {
            [b'\r', b'\n', ..] => {}
            [] | [b'\r'] => return Ok(Step::Incomplete),
            _ => return Err(self.not_resp()),
        }
        let frame = match kind {
            b'!' => Reply::Error(ServerError::new(String::from_utf8_lossy(text))),
            // A verbatim string begins with its format, such as `txt:`.
            b'=' => match text {
                [_, _, _, b':', text @ ..] => Reply::Bulk(Bytes::copy_from_slice(text)),
                _ => return Err(self.not_resp()),
            },
            _ => Reply::Bulk(Bytes::copy_from_slice(text)),
        };
        self.start += len + 2;
        self.string = None;
        Ok(Step::Reply(frame))
    }

    /// Counts memory of the reply that is arriving.
    const fn charge(&mut self, bytes: usize) -> Result<(), Malformed> {
        self.used = self.used.saturating_add(bytes);
        if self.used > self.limits.reply {
            return Err(Malformed::TooLarge { limit: self.limits.reply, unit: "bytes" });
        }
        Ok(())
    }

    /// Frees decoded bytes while the buffer holds parts of later replies.
    fn drop_decoded(&mut self) {
        if self.start > IDLE && self.start * 2 > self.buffer.len() {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
    }

    fn not_resp(&self) -> Malformed {
        Malformed::NotResp(excerpt(&self.buffer[self.start..]))
    }

    const fn long_line(&self) -> Malformed {
        Malformed::TooLarge { limit: self.limits.line, unit: "bytes in a line" }
    }
}

/// The next token of the stream.
enum Step {
    /// Incomplete.
    Incomplete,
    /// The beginning of a string or an aggregate.
    Header,
    Reply(Reply),
}

/// The possible first bytes of a frame.
const KINDS: &[u8] = b"+-:$*_#,(!=%~>|";

/// Capacity that an idle buffer keeps.
const IDLE: usize = 4096;

fn integer(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn length(digits: &[u8]) -> Option<usize> {
    // `parse` accepts a sign, which is invalid in a length.
    if !digits.first()?.is_ascii_digit() {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn is_double(digits: &[u8]) -> bool {
    std::str::from_utf8(digits).is_ok_and(|digits| digits.parse::<f64>().is_ok())
}

fn is_big_number(digits: &[u8]) -> bool {
    let digits = digits.strip_prefix(b"-").or_else(|| digits.strip_prefix(b"+")).unwrap_or(digits);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &'static str) -> Reply {
        Reply::Bulk(Bytes::from_static(text.as_bytes()))
    }

    fn decoded(wire: &[u8]) -> Result<Vec<Received>, Malformed> {
        let mut decoder = Decoder::default();
        decoder.feed(wire);
        let mut all = Vec::new();
        while let Some(received) = decoder.decode()? {
            all.push(received);
        }
        Ok(all)
    }

    fn reply(wire: &[u8]) -> Reply {
        match decoded(wire).expect("RESP").as_slice() {
            [Received::Reply(frame)] => frame.clone(),
            other => panic!("one reply, not {other:?}"),
        }
    }

    /// Every kind of frame, nested, with an attribute and a push between replies.
    const ALL: &[u8] =
        b"+OK\r\n-ERR no\r\n:-7\r\n$4\r\na\r\nb\r\n$0\r\n\r\n$-1\r\n*-1\r\n_\r\n#t\r\n#f\r\n,1.5\r\n,inf\r\n\
        (-123456789012345678901234567890\r\n!5\r\nERR x\r\n=6\r\ntxt:ab\r\n*0\r\n%0\r\n~0\r\n\
        *3\r\n:1\r\n*2\r\n+a\r\n*0\r\n%1\r\n+k\r\n~1\r\n-ERR in\r\n>3\r\n+message\r\n$1\r\nc\r\n$1\r\n0\r\n\
        |1\r\n+ttl\r\n:3\r\n$1\r\nv\r\n*2\r\n|0\r\n:1\r\n|1\r\n+a\r\n*1\r\n:9\r\n:2\r\n";

    #[test]
    fn every_kind_of_frame_is_decoded() {
        let error = |text: &str| Reply::Error(ServerError::new(text));
        assert_eq!(reply(b"+OK\r\n"), text("OK"));
        assert_eq!(reply(b"-ERR no\r\n"), error("ERR no"));
        assert_eq!(reply(b"!5\r\nERR x\r\n"), error("ERR x"));
        assert_eq!(reply(b":-7\r\n"), Reply::Int(-7));
        assert_eq!(reply(b"#t\r\n"), Reply::Int(1));
        assert_eq!(reply(b"$4\r\na\r\nb\r\n"), text("a\r\nb"));
        assert_eq!(reply(b"=6\r\ntxt:ab\r\n"), text("ab"));
        assert_eq!(reply(b",1.5\r\n"), text("1.5"));
        assert_eq!(reply(b"(-12345678901234567890123\r\n"), text("-12345678901234567890123"));
        for nil in [&b"$-1\r\n"[..], b"*-1\r\n", b"_\r\n"] {
            assert_eq!(reply(nil), Reply::Nil);
        }
        let set = Reply::Array(vec![error("ERR in")]);
        let map = Reply::Array(vec![text("k"), set]);
        let inner = Reply::Array(vec![text("a"), Reply::Array(Vec::new())]);
        let nested = b"*3\r\n:1\r\n*2\r\n+a\r\n*0\r\n%1\r\n+k\r\n~1\r\n-ERR in\r\n";
        assert_eq!(reply(nested), Reply::Array(vec![Reply::Int(1), inner, map]));
    }

    #[test]
    fn attribute_is_no_value() {
        assert_eq!(reply(b"|1\r\n+ttl\r\n:3\r\n$1\r\nv\r\n"), text("v"));
        let array = reply(b"*2\r\n|0\r\n:1\r\n|1\r\n+a\r\n*1\r\n:9\r\n:2\r\n");
        assert_eq!(array, Reply::Array(vec![Reply::Int(1), Reply::Int(2)]));
    }

    #[test]
    fn push_stands_between_replies() {
        let all = decoded(b":1\r\n>2\r\n+message\r\n+c\r\n:2\r\n").expect("RESP");
        let push = Received::Push(vec![text("message"), text("c")]);
        assert_eq!(all, [Received::Reply(Reply::Int(1)), push, Received::Reply(Reply::Int(2))]);
        assert!(decoded(b"*1\r\n>1\r\n+x\r\n").is_err(), "a push within a reply");
    }

    #[test]
    fn bytes_decode_alike_however_they_are_split() {
        let whole = decoded(ALL).expect("RESP");
        assert_eq!(whole.len(), 22);
        for size in 1..ALL.len() {
            let mut decoder = Decoder::default();
            let mut all = Vec::new();
            for part in ALL.chunks(size) {
                decoder.feed(part);
                while let Some(received) = decoder.decode().expect("RESP") {
                    all.push(received);
                }
            }
            assert_eq!(all, whole, "in parts of {size} bytes");
        }
    }

    #[test]
    fn other_protocols_are_refused_at_their_first_byte() {
        for wire in [&b"HTTP/1.1 400 Bad Request\r\n"[..], b"\x15\x03\x01\x00\x02", b"SSH-2.0", b"\x00"] {
            let error = decoded(wire).expect_err("not RESP");
            assert!(matches!(error, Malformed::NotResp(_)), "{error}");
        }
        let error = decoded(b"HTTP/1.1 400 Bad Request\r\n").expect_err("not RESP").to_string();
        assert!(error.ends_with(r#""HTTP/1.1 400 Bad Request\r\n""#), "{error}");
    }

    #[test]
    fn malformed_lines_are_refused() {
        for wire in [
            &b":x\r\n"[..],
            b":\r\n",
            b"$x\r\n",
            b"$-2\r\n",
            b"$+1\r\na\r\n",
            b"*-2\r\n",
            b"~-1\r\n",
            b"*?\r\n",
            b"#x\r\n",
            b"_x\r\n",
            b",x\r\n",
            b"(1x\r\n",
            b"(\r\n",
            b"=2\r\nab\r\n",
            b"$1\r\nabc",
            b"+OK\n",
            b"\r\n",
            b">0\r\n",
            b"%99999999999999999999\r\n",
        ] {
            assert!(decoded(wire).is_err(), "{}", wire.escape_ascii());
        }
    }

    #[test]
    fn reply_beyond_a_limit_is_refused_before_it_is_kept() {
        let limits = Limits { depth: 3, line: 10, reply: 1000 };
        let decode = |wire: &[u8]| {
            let mut decoder = Decoder::new(limits);
            decoder.feed(wire);
            decoder.decode()
        };
        assert!(decode(b"*1\r\n*1\r\n*1\r\n:1\r\n").expect("within the limits").is_some());
        assert!(decode(b"$900\r\n").expect("within the limits").is_none());
        for wire in [
            &b"*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"[..],
            b"$1001\r\n",
            b"$99999999\r\n",
            b"*1000000000\r\n",
            b"%600000000\r\n",
            b"+0123456789a",
            b"+0123456789a\r\n",
        ] {
            assert!(matches!(decode(wire), Err(Malformed::TooLarge { .. })), "{}", wire.escape_ascii());
        }
        for part in [&b"*1\r\n"[..], b"|0\r\n", b"|1\r\n+a\r\n+b\r\n"] {
            let mut endless = Decoder::new(limits);
            let error = (0..1000).find_map(|_| {
                endless.feed(part);
                endless.decode().err()
            });
            assert!(matches!(error, Some(Malformed::TooLarge { .. })), "{}", part.escape_ascii());
        }
    }

    #[test]
    fn error_that_is_longer_than_a_line_is_refused_in_either_form() {
        let limits = Limits { depth: 3, line: 10, reply: 1000 };
        for wire in [&b"-ERR 0123456789\r\n"[..], b"!11\r\n"] {
            let mut decoder = Decoder::new(limits);
            decoder.feed(wire);
            assert!(matches!(decoder.decode(), Err(Malformed::TooLarge { .. })), "{}", wire.escape_ascii());
        }
    }

    #[test]
    fn buffer_of_an_idle_decoder_is_small() {
        let mut decoder = Decoder::default();
        let long = [b"$100000\r\n".as_slice(), &vec![b'x'; 100_000], b"\r\n"].concat();
        decoder.feed(&long);
        assert!(decoder.decode().expect("RESP").is_some());
        decoder.feed(b":1\r\n");
        assert!(decoder.buffer.capacity() <= IDLE);
    }

    #[test]
    fn replies_become_values_and_errors() {
        assert_eq!(reply(b"-OOM no\r\n").into_result(), Err(ServerError::new("OOM no")));
        let array = reply(b"*3\r\n$1\r\nx\r\n:7\r\n*1\r\n_\r\n").into_result();
        let inner = Reply::Array(vec![Reply::Nil]);
        assert_eq!(array, Ok(Reply::Array(vec![Reply::Bulk(Bytes::from_static(b"x")), Reply::Int(7), inner])));
    }
}
