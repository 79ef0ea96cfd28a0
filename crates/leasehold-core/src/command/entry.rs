//! An entry of a lock's hash, as an inspection reads it. Any client may have written it.

use crate::reply::{DecodeError, Reply};

/// The kind of an entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry<'a> {
    /// A hold: its field and its count.
    Hold(&'a str, u32),
    /// Not a hold: a description that follows "its name holds a".
    Other(String),
}

impl<'a> Entry<'a> {
    /// Reads an entry: a field and its count.
    ///
    /// # Errors
    ///
    /// The reply contains neither text nor a number.
    pub(super) fn read(field: &'a Reply, value: &Reply) -> Result<Self, DecodeError> {
        let (Reply::Bulk(name), Reply::Bulk(_) | Reply::Int(_)) = (field, value) else {
            return Err(DecodeError::new("a field and a hold count", value));
        };
        let count = value.int().ok().and_then(|count| u32::try_from(count).ok());
        Ok(match (field.text(), count) {
            // A JVM counts in 32 bits with a sign.
            (Ok(holder), Some(count)) if i32::try_from(count).is_ok() => Self::Hold(holder, count),
            _ => Self::Other(match value {
                Reply::Bulk(text) => unlike(name, text),
                other => unlike(name, other.int().unwrap_or_default().to_string().as_bytes()),
            }),
        })
    }
}

/// Describes a hash whose field `name` has a value that no lock writes.
pub(super) fn unlike(name: &[u8], value: &[u8]) -> String {
    /// Maximum length of a quoted foreign value.
    const MOST: usize = 80;
    let shown = |text: &[u8]| String::from_utf8_lossy(&text[..text.len().min(MOST)]).into_owned();
    format!("hash whose field {:?} has the value {:?}, which no lock writes", shown(name), shown(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_a_number_that_can_be_one() {
        let read = |value: &'static str| {
            Entry::read(&Reply::Bulk("6f0c:7".into()), &Reply::Bulk(value.into()))
                .is_ok_and(|entry| matches!(entry, Entry::Hold(..)))
        };
        assert!(["1", "2", "2147483647"].into_iter().all(read));
        assert!(
            !["", "x", "-1", "2147483648", "99999999999999999999", "nan", "inf", "0x10", "1e3", " 1"]
                .into_iter()
                .any(read)
        );
        let field = Reply::Bulk(vec![0xff].into());
        let Ok(Entry::Other(what)) = Entry::read(&field, &Reply::Bulk("1".into())) else { panic!("that is no text") };
        assert!(what.contains('\u{fffd}'), "{what}");
        assert!(Entry::read(&Reply::Nil, &Reply::Int(1)).is_err());
    }
}
