//! A server's key names, page by page.

use crate::reply::{DecodeError, Reply};
use bytes::Bytes;

/// A server of a link. The id stays valid while the server keeps its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a link makes these")]
pub struct ServerId(pub u16);

/// The request for a page.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "callers write it as a literal, and there is nothing else to say")]
pub struct ScanPage {
    /// The `SCAN` cursor. Start with 0.
    pub cursor: u64,
    /// The pattern of names, as [`glob`](crate::glob) defines it.
    pub pattern: Bytes,
    /// The approximate number of keys that the server inspects.
    pub count: u32,
}

impl ScanPage {
    /// The arguments of `SCAN`.
    pub fn words(&self) -> [Bytes; 5] {
        let decimal = |number: u64| Bytes::from(number.to_string());
        let (matching, count) = (Bytes::from_static(b"MATCH"), Bytes::from_static(b"COUNT"));
        [decimal(self.cursor), matching, self.pattern.clone(), count, decimal(self.count.into())]
    }
}

/// A page of key names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a link makes these")]
pub struct Scanned {
    /// The next cursor; `None` at the end.
    pub next: Option<u64>,
    /// The names, in no order. A scan may return a name twice, and may miss keys that were created or deleted during the scan.
    pub names: Vec<Bytes>,
    /// The server process that replied. Its cursors are invalid in another process. Empty if unknown.
    pub process: String,
}

impl Scanned {
    /// Decodes the reply to `SCAN`.
    ///
    /// # Errors
    ///
    /// The reply does not have the form of a `SCAN` reply.
    pub fn decode(reply: &Reply, process: String) -> Result<Self, DecodeError> {
        let [cursor, names] = reply.array()? else { return Err(DecodeError::new("a reply to SCAN", reply)) };
        let place = match cursor {
            Reply::Bulk(text) => std::str::from_utf8(text).ok().and_then(|text| text.parse::<u64>().ok()),
            _ => None,
        };
        let place = place.ok_or_else(|| DecodeError::new("a cursor", cursor))?;
        let name = |name: &Reply| match name {
            Reply::Bulk(name) => Ok(name.clone()),
            other => Err(DecodeError::new("the name of a key", other)),
        };
        let names = names.array()?.iter().map(name).collect::<Result<_, _>>()?;
        Ok(Self { next: Some(place).filter(|place| *place != 0), names, process })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_the_scan_where_its_place_is_zero() {
        let reply = |place: &'static str| {
            Reply::Array(vec![Reply::Bulk(place.into()), Reply::Array(vec![Reply::Bulk("a".into())])])
        };
        let decode = |place| Scanned::decode(&reply(place), String::new()).map(|page| page.next);
        assert_eq!(decode("0"), Ok(None));
        assert_eq!(decode("18446744073709551615"), Ok(Some(u64::MAX)));
        assert!(decode("-1").is_err());
        assert!(Scanned::decode(&Reply::Array(vec![Reply::Nil]), String::new()).is_err());
    }
}
