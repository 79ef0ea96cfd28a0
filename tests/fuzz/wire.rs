//! The decoder of replies: however bytes are split it decodes alike, and as another decoder does.

use leasehold_core::link::ServerError;
use leasehold_core::reply::Reply;
use leasehold_core::wire::{Decoder, Limits, Received};
use redis_protocol::resp3::decode::complete::decode;
use redis_protocol::resp3::types::OwnedFrame;

/// Replies of servers, and bytes that are almost replies.
pub(crate) const CORPUS: &[&[u8]] = &[
    b"+OK\r\n",
    b"-MOVED 3999 127.0.0.1:6381\r\n",
    b":-9223372036854775808\r\n",
    b"$11\r\nhello\r\nworl\r\n",
    b"$-1\r\n*-1\r\n_\r\n",
    b"#t\r\n#f\r\n,1.5\r\n,-inf\r\n(3492890328409238509324850943850943825024385\r\n",
    b"!21\r\nSYNTAX invalid syntax\r\n=15\r\ntxt:Some string\r\n",
    b"*3\r\n:1\r\n*2\r\n$1\r\na\r\n_\r\n*0\r\n",
    b"%2\r\n+first\r\n:1\r\n+second\r\n~2\r\n+a\r\n+b\r\n",
    b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n",
    b"|1\r\n+ttl\r\n:3600\r\n*1\r\n:1\r\n",
    b"|0\r\n|0\r\n",
    b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n",
    b"HTTP/1.1 400 Bad Request\r\n\r\n",
    b"*1000000000\r\n$536870912\r\n",
    b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
];

pub(crate) fn check(data: &[u8]) {
    let whole = decoded(std::iter::once(data));
    assert_eq!(decoded(data.chunks(1)), whole, "byte by byte");
    let split = data.len() * usize::from(data.first().copied().unwrap_or_default()) / 256;
    assert_eq!(decoded([&data[..split], &data[split..]].into_iter()), whole, "split at {split}");
    compare(&whole.0, data);
    check_memory(data);
}

/// Bytes that come again and again are a reply, or too much for one: the decoder does not keep them all.
fn check_memory(data: &[u8]) {
    let mut limits = Limits::default();
    (limits.line, limits.reply) = (256, 4_096);
    // What is not counted is less than what is: the ends of lines and strings.
    let most = 2 * limits.reply + limits.line + 2 * data.len();
    let mut decoder = Decoder::new(limits);
    let mut kept = 0;
    for _ in 0..20_000_usize.checked_div(data.len()).unwrap_or_default() {
        decoder.feed(data);
        kept += data.len();
        loop {
            match decoder.decode() {
                Ok(Some(_)) => kept = 0,
                Ok(None) => break,
                Err(_) => return,
            }
        }
        assert!(kept <= most, "{kept} bytes are kept for a reply");
    }
}

/// What was received, and whether the end was an error.
fn decoded<'a>(parts: impl Iterator<Item = &'a [u8]>) -> (Vec<Received>, bool) {
    let mut decoder = Decoder::default();
    let mut all = Vec::new();
    for part in parts {
        decoder.feed(part);
        loop {
            match decoder.decode() {
                Ok(Some(received)) => all.push(received),
                Ok(None) => break,
                Err(error) => {
                    assert!(error.to_string().len() < 400, "an error is a sentence: {error}");
                    return (all, true);
                }
            }
        }
    }
    (all, false)
}

/// Each reply is the one that the other decoder finds at the same place, as far as that one can decode it: its maps have no order, and no arrays for
/// keys.
fn compare(ours: &[Received], mut data: &[u8]) {
    for received in ours {
        let Ok(Some((theirs, used))) = decode(data) else { return };
        data = &data[used..];
        let frame = match received {
            Received::Reply(frame) => frame.clone(),
            Received::Push(parts) => Reply::Array(parts.clone()),
        };
        if let Some(theirs) = same(theirs) {
            assert_eq!(frame, theirs);
        }
    }
}

/// The frame of the other decoder, in ours.
fn same(frame: OwnedFrame) -> Option<Reply> {
    Some(match frame {
        OwnedFrame::BlobString { data, .. }
        | OwnedFrame::SimpleString { data, .. }
        | OwnedFrame::BigNumber { data, .. }
        | OwnedFrame::VerbatimString { data, .. } => Reply::Bulk(data.into()),
        OwnedFrame::BlobError { data, .. } => Reply::Error(ServerError::new(String::from_utf8_lossy(&data))),
        OwnedFrame::SimpleError { data, .. } => Reply::Error(ServerError::new(data)),
        OwnedFrame::Boolean { data, .. } => Reply::Int(data.into()),
        OwnedFrame::Null => Reply::Nil,
        OwnedFrame::Number { data, .. } => Reply::Int(data),
        OwnedFrame::Array { data, .. } | OwnedFrame::Push { data, .. } => {
            Reply::Array(data.into_iter().map(same).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}
