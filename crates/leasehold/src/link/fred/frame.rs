//! Frames of the protocol, and the replies and refusals that they are.

use fred::interfaces::Resp3Frame;
use leasehold_core::link::ServerError;
use leasehold_core::reply::Reply;

/// The reply in `frame`, or the error reply that it is.
///
/// The *kind of frame* tells one from the other, never the text of one of fred's errors: those are the same whether the
/// server said them or fred did, and fred gives one server error to every command that was under way.
pub(super) fn reply(frame: Resp3Frame) -> Result<Reply, ServerError> {
    match frame {
        Resp3Frame::SimpleError { data, .. } => Err(ServerError::new(&*data)),
        Resp3Frame::BlobError { data, .. } => Err(ServerError::new(String::from_utf8_lossy(&data))),
        other => Ok(value(other)),
    }
}

/// The error reply that `frame` is, if it is one.
pub(super) fn refusal(frame: &Resp3Frame) -> Option<ServerError> {
    match frame {
        Resp3Frame::SimpleError { data, .. } => Some(ServerError::new(&**data)),
        Resp3Frame::BlobError { data, .. } => Some(ServerError::new(String::from_utf8_lossy(data))),
        _ => None,
    }
}

/// The text of a string frame.
pub(super) fn text(frame: &Resp3Frame) -> Option<&str> {
    match frame {
        Resp3Frame::SimpleString { data, .. }
        | Resp3Frame::BlobString { data, .. }
        | Resp3Frame::VerbatimString { data, .. } => std::str::from_utf8(data).ok(),
        _ => None,
    }
}

/// The parts of an array frame.
pub(super) fn parts(frame: &Resp3Frame) -> Option<&[Resp3Frame]> {
    match frame {
        Resp3Frame::Array { data, .. } | Resp3Frame::Push { data, .. } => Some(data),
        _ => None,
    }
}

/// The parts of an array frame, for good.
pub(super) fn into_parts(frame: Resp3Frame) -> Option<Vec<Resp3Frame>> {
    match frame {
        Resp3Frame::Array { data, .. } => Some(data),
        _ => None,
    }
}

/// The integer of an integer frame.
pub(super) const fn int(frame: &Resp3Frame) -> Option<i64> {
    match frame {
        Resp3Frame::Number { data, .. } => Some(*data),
        _ => None,
    }
}

fn value(frame: Resp3Frame) -> Reply {
    match frame {
        Resp3Frame::Number { data, .. } => Reply::Int(data),
        Resp3Frame::SimpleString { data, .. }
        | Resp3Frame::BlobString { data, .. }
        | Resp3Frame::VerbatimString { data, .. }
        | Resp3Frame::BigNumber { data, .. }
        | Resp3Frame::BlobError { data, .. } => Reply::Bulk(data),
        Resp3Frame::SimpleError { data, .. } => Reply::Bulk(data.into_inner()),
        Resp3Frame::Boolean { data, .. } => Reply::Int(i64::from(data)),
        Resp3Frame::Double { data, .. } => Reply::Bulk(data.to_string().into()),
        Resp3Frame::Array { data, .. } | Resp3Frame::Push { data, .. } => {
            Reply::Array(data.into_iter().map(value).collect())
        }
        // Our scripts answer with none of the other kinds.
        _ => Reply::Nil,
    }
}

/// Whether `answer` is that of a `PING` with this payload: the payload, or in RESP2, while subscribed, `pong` and the payload.
pub(super) fn is_echo(answer: &Resp3Frame, payload: &str) -> bool {
    text(answer) == Some(payload) || matches!(parts(answer), Some([_, echo]) if text(echo) == Some(payload))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn an_error_frame_is_a_refusal_whatever_its_text() {
        let frame = Resp3Frame::SimpleError { data: "OOM command not allowed".into(), attributes: None };
        assert_eq!(refusal(&frame).map(|error| error.code().to_owned()), Some("OOM".to_owned()));
        assert!(reply(frame).is_err());
    }

    #[test]
    fn nested_arrays_keep_their_shape() {
        let bulk = Resp3Frame::BlobString { data: Bytes::from_static(b"x"), attributes: None };
        let inner = Resp3Frame::Array { data: vec![Resp3Frame::Null], attributes: None };
        let number = Resp3Frame::Number { data: 7, attributes: None };
        let frame = Resp3Frame::Array { data: vec![bulk, number, inner], attributes: None };
        let expected =
            Reply::Array(vec![Reply::Bulk(Bytes::from_static(b"x")), Reply::Int(7), Reply::Array(vec![Reply::Nil])]);
        assert_eq!(reply(frame), Ok(expected));
    }
}
