//! The id of a permit.

use bytes::Bytes;
use sha1_smol::Sha1;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The length of an id on the server, in bytes.
pub const ID_BYTES: usize = 16;

/// The offset of the permit's number in an id.
const NUMBER_AT: usize = ID_BYTES - 4;

/// The id of a permit: sixteen bytes on the server, 32 hexadecimal digits for people and JVMs.
///
/// The ids derive from the hold's field, so every copy of an acquire requests identical ids. The first twelve bytes are
/// from the SHA-1 of the field, which is unique. The last four bytes are the number of the permit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PermitId([u8; ID_BYTES]);

/// The text is not the id of a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the id of a permit has 32 hexadecimal digits")]
#[expect(clippy::exhaustive_structs, reason = "there is one way to be no id")]
pub struct InvalidPermitId;

impl PermitId {
    /// The ids of the `permits` permits of a hold, in order. `hold` is the holder's id, `uuid:number`, as in
    /// `Guard::holder_id` and in the losses of a guard. A logged holder id therefore identifies its permits.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold_core::command::permits::PermitId;
    ///
    /// let ids: Vec<_> = PermitId::of_hold("6f0c0000-0000-4000-8000-000000000001:7", 2).collect();
    /// assert_eq!(ids[0].to_string(), "89b4c104a41ea4211536804100000001");
    /// assert_eq!(ids.len(), 2);
    /// ```
    #[doc(hidden)]
    pub fn of_hold(hold: impl AsRef<[u8]>, permits: u32) -> impl Iterator<Item = Self> {
        // The caller holds the client's mutex, so compute one digest per hold, not one per permit.
        let digest = Sha1::from(hold).digest().bytes();
        let mut id = [0; ID_BYTES];
        id.copy_from_slice(&digest[..ID_BYTES]);
        (1..=permits).map(move |number| {
            id[NUMBER_AT..].copy_from_slice(&number.to_be_bytes());
            Self(id)
        })
    }

    /// Returns `true` if the permit belongs to the hold with this field.
    #[doc(hidden)]
    pub fn is_of(&self, field: &[u8]) -> bool {
        self.0[..NUMBER_AT] == Sha1::from(field).digest().bytes()[..NUMBER_AT]
    }

    /// The id with these sixteen bytes; `None` for another length.
    #[doc(hidden)]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The bytes on the server.
    #[doc(hidden)]
    pub const fn as_bytes(&self) -> &[u8; ID_BYTES] {
        &self.0
    }

    /// Concatenates ids, as scripts expect them.
    #[doc(hidden)]
    pub fn blob(ids: impl IntoIterator<Item = Self>) -> Bytes {
        let ids = ids.into_iter();
        let mut blob = Vec::with_capacity(ids.size_hint().0 * ID_BYTES);
        ids.for_each(|id| blob.extend_from_slice(&id.0));
        Bytes::from(blob)
    }
}

impl fmt::Display for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PermitId {
    type Err = InvalidPermitId;

    fn from_str(text: &str) -> Result<Self, InvalidPermitId> {
        // `from_str_radix` accepts a sign.
        let is_hexadecimal = text.len() == 2 * ID_BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let id = u128::from_str_radix(text, 16).ok().filter(|_| is_hexadecimal).ok_or(InvalidPermitId)?;
        Ok(Self(id.to_be_bytes()))
    }
}

/// Serializes as hexadecimal digits.
#[cfg(feature = "serde")]
impl serde::Serialize for PermitId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for PermitId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_from_the_hold_and_are_read_back() {
        let hold = "6f0c0000-0000-4000-8000-000000000001:7";
        let ids: Vec<_> = PermitId::of_hold(hold, 3).collect();
        assert_eq!(ids[..2], PermitId::of_hold(hold, 2).collect::<Vec<_>>());
        assert!(ids[0] != ids[1] && ids[1] != ids[2]);
        // The beginning of `printf 6f0c0000-0000-4000-8000-000000000001:7 | sha1sum`, and the number.
        assert_eq!(ids[0].to_string(), "89b4c104a41ea4211536804100000001");
        assert_eq!(ids[0].to_string().parse(), Ok(ids[0]));
        assert_eq!(ids[0].to_string().to_uppercase().parse(), Ok(ids[0]));
        assert_eq!(PermitId::blob(ids.iter().copied()).len(), 48);
        assert!(ids.iter().all(|id| id.is_of(hold.as_bytes())));
        assert!(!ids[0].is_of(b"6f0c0000-0000-4000-8000-000000000001:8"));
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for text in ["", "0123", &"0".repeat(31), &"g".repeat(32), &"é".repeat(16), &"+1".repeat(16)] {
            assert_eq!(text.parse::<PermitId>(), Err(InvalidPermitId), "{text}");
        }
        assert_eq!(PermitId::from_bytes(b"short"), None);
    }
}
