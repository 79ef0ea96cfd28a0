//! The ids of clients, owners and holds.

use crate::wire;
use bytes::Bytes;
use std::fmt;
use std::num::NonZeroU64;
use uuid::Uuid;

/// The id of a client: a random UUID for every new client, as in Redisson.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientId(Uuid);

impl ClientId {
    /// The id with these bits, which must be a version 4 UUID.
    pub const fn new(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// The field of the hold with `number`: `uuid:number`, like a JVM's `uuid:thread id`.
    pub fn field(&self, number: HoldNumber) -> Bytes {
        self.field_with(number, b"")
    }

    /// The field of a hold that may linger: `uuid:number~`. The mark shows other clients that a request for the lock
    /// makes sense.
    pub fn marked_field(&self, number: HoldNumber) -> Bytes {
        self.field_with(number, b"~")
    }

    fn field_with(&self, number: HoldNumber, mark: &[u8]) -> Bytes {
        Bytes::copy_from_slice(self.write_field(number, mark, &mut [0; FIELD_BYTES]))
    }

    fn write_field<'a>(&self, number: HoldNumber, mark: &[u8], text: &'a mut [u8; FIELD_BYTES]) -> &'a [u8] {
        // Every acquire runs this, so it avoids `format!`.
        self.0.hyphenated().encode_lower(text);
        let mut end = 36;
        for part in [b":", wire::decimal(&mut [0; wire::DIGITS], number.0.get()), mark] {
            text[end..end + part.len()].copy_from_slice(part);
            end += part.len();
        }
        &text[..end]
    }

    /// The hold number in `field`, if the hold is this client's.
    pub fn number_in(&self, field: &[u8]) -> Option<HoldNumber> {
        let text = std::str::from_utf8(field).ok()?;
        let (client, number) = text.rsplit_once(':')?;
        let own = Uuid::try_parse(client).is_ok_and(|uuid| uuid == self.0);
        // Accepts only the canonical form of a number.
        let number = number.parse().ok().filter(|_| own).map(HoldNumber)?;
        (self.field(number) == field).then_some(number)
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

/// The number of a hold within its client. Numbers are unique, so a late command of an old hold cannot change a new
/// hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldNumber(NonZeroU64);

impl HoldNumber {
    /// The first number. No number is 0, so an `Option` needs no extra space.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// The next number.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// Maximum length of a hold's name: a UUID, a colon, a number and a mark.
pub(crate) const FIELD_BYTES: usize = 36 + 1 + wire::DIGITS + 1;

/// A hold's name in the client. Encoding a call builds the text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HoldName {
    /// `uuid:number`.
    Numbered(ClientId, HoldNumber),
    /// A name that the caller chose, or a name with a mark, which is rare.
    Chosen(Box<Bytes>),
}

impl HoldName {
    /// The name of a client's hold with this number, unless the caller chose a name.
    pub(crate) fn new(client: ClientId, number: HoldNumber, chosen: Option<&Bytes>) -> Self {
        chosen.map_or(Self::Numbered(client, number), |chosen| Self::Chosen(Box::new(chosen.clone())))
    }

    /// The name as text.
    pub(crate) fn field(&self) -> Bytes {
        match self {
            Self::Numbered(client, number) => client.field(*number),
            Self::Chosen(chosen) => Bytes::clone(chosen),
        }
    }

    /// The name as text, written to `buffer` unless the caller chose it.
    pub(crate) fn text<'a>(&'a self, buffer: &'a mut [u8; FIELD_BYTES]) -> &'a [u8] {
        match self {
            Self::Numbered(client, number) => client.write_field(*number, b"", buffer),
            Self::Chosen(chosen) => chosen,
        }
    }
}

/// The id by which a client's owner re-enters a hold. Redis never sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(NonZeroU64);

impl OwnerId {
    /// The owner with this number, which must be unique within the client and not 0.
    pub(crate) fn new(number: u64) -> Self {
        debug_assert!(number > 0, "numbers begin at 1");
        Self(NonZeroU64::new(number).unwrap_or(NonZeroU64::MIN))
    }

    /// The number, which distinguishes the owners of a client in its record.
    pub const fn number(self) -> u64 {
        self.0.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(number: u64) -> HoldNumber {
        HoldNumber(NonZeroU64::new(number).expect("no number is 0"))
    }

    #[test]
    fn a_hold_is_written_as_uuid_and_number() {
        let client = ClientId::new(Uuid::from_u128(0x6f0c_0000_0000_4000_8000_0000_0000_0001));
        assert_eq!(client.field(HoldNumber::FIRST.next()), "6f0c0000-0000-4000-8000-000000000001:2");
        assert_eq!(client.field(number(1_234_567_890)), "6f0c0000-0000-4000-8000-000000000001:1234567890");
        assert_eq!(client.marked_field(number(2)), "6f0c0000-0000-4000-8000-000000000001:2~");
        let last = client.marked_field(number(u64::MAX));
        assert_eq!(last, "6f0c0000-0000-4000-8000-000000000001:18446744073709551615~");
        let last = client.field(number(u64::MAX));
        assert_eq!(last, "6f0c0000-0000-4000-8000-000000000001:18446744073709551615");
    }

    #[test]
    fn only_what_a_client_writes_is_read_as_its_own() {
        let client = ClientId::new(Uuid::from_u128(0x6f0c_0000_0000_4000_8000_0000_0000_0001));
        for number in [HoldNumber::FIRST, number(7), number(u64::MAX)] {
            assert_eq!(client.number_in(&client.field(number)), Some(number));
        }
        for field in [
            "6f0c0000-0000-4000-8000-000000000001:+7",
            "6f0c0000-0000-4000-8000-000000000001:07",
            "6f0c0000-0000-4000-8000-000000000001:0",
            "6F0C0000-0000-4000-8000-000000000001:7",
            "{6f0c0000-0000-4000-8000-000000000001}:7",
            "6f0c0000-0000-4000-8000-000000000002:7",
            "7",
        ] {
            assert_eq!(client.number_in(field.as_bytes()), None, "{field}");
        }
    }
}
