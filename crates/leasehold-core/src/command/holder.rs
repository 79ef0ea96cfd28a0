//! The holders and waiters of a lock, as inspections read them. Any client may have written them.

use crate::reply::{DecodeError, Reply};
use std::time::Duration;

/// A holder of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "it is all that the server tells")]
pub struct Holder {
    /// The field of the hold: `uuid:number`, or a JVM's `uuid:thread`.
    pub holder: String,
    /// The hold count.
    pub count: u32,
    /// The remaining lease; `None` if the key has no time to live.
    pub left: Option<Duration>,
}

/// A waiter for a fair lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "it is all that the server tells")]
pub struct Waiter {
    /// The field of its hold: `uuid:number`, or a JVM's `uuid:thread`.
    pub waiter: String,
    /// The waiting time; `None` if unknown, as for a JVM.
    pub age: Option<Duration>,
    /// Its process sent a heartbeat within the window, or a JVM's deadline has not passed.
    pub alive: bool,
}

impl Holder {
    /// Reads the field, the count and the remaining lease of a hold. A field that no lock writes means another kind.
    pub(super) fn read(field: &Reply, count: &Reply, left: &Reply) -> Result<Self, DecodeError> {
        let (Reply::Bulk(name), Reply::Bulk(_) | Reply::Int(_)) = (field, count) else {
            return Err(DecodeError::new("a field and a hold count", count));
        };
        // A JVM counts in 32 bits with a sign.
        let number = count.int().ok().and_then(|count| i32::try_from(count).ok());
        let (Ok(holder), Some(number)) = (field.text(), number.and_then(|count| u32::try_from(count).ok())) else {
            return Err(match count {
                Reply::Bulk(text) => unlike(name, text),
                _ => unlike(name, count.int()?.to_string().as_bytes()),
            });
        };
        Ok(Self { holder: holder.to_owned(), count: number, left: left.left()? })
    }
}

impl Waiter {
    /// Reads the name, the waiting time and the state of a waiter.
    pub(super) fn read([name, age, alive]: &[Reply; 3]) -> Result<Self, DecodeError> {
        let Reply::Bulk(name) = name else { return Err(DecodeError::new("the name of a waiter", name)) };
        let waiter = String::from_utf8_lossy(name).into_owned();
        Ok(Self { waiter, age: age.left()?, alive: alive.int()? == 1 })
    }
}

/// The error of a hash whose field `name` has a value that no lock writes.
pub(super) fn unlike(name: &[u8], value: &[u8]) -> DecodeError {
    /// Maximum length of a quoted foreign value.
    const MOST: usize = 80;
    let shown = |text: &[u8]| String::from_utf8_lossy(&text[..text.len().min(MOST)]).into_owned();
    let (name, value) = (shown(name), shown(value));
    DecodeError::OtherKind(format!("hash whose field {name:?} has the value {value:?}, which no lock writes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_a_number_that_can_be_one() {
        let read = |value: &'static str| {
            Holder::read(&Reply::Bulk("6f0c:7".into()), &Reply::Bulk(value.into()), &Reply::Int(70)).is_ok()
        };
        assert!(["1", "2", "2147483647"].into_iter().all(read));
        assert!(
            !["", "x", "-1", "2147483648", "99999999999999999999", "nan", "inf", "0x10", "1e3", " 1"]
                .into_iter()
                .any(read)
        );
        let field = Reply::Bulk(vec![0xff].into());
        let read = Holder::read(&field, &Reply::Bulk("1".into()), &Reply::Int(70));
        let Err(DecodeError::OtherKind(what)) = read else { panic!("that is no text") };
        assert!(what.contains('\u{fffd}'), "{what}");
        assert!(Holder::read(&Reply::Nil, &Reply::Int(1), &Reply::Int(70)).is_err());
    }
}
