//! The identities of a client, of an owner within it, and of each hold.

use bytes::Bytes;
use std::fmt;
use std::num::NonZeroU64;
use uuid::Uuid;

/// The identity of a client: a random UUID, new for every client that is built, as Redisson's is for every instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientId(Uuid);

impl ClientId {
    /// The identity with these bits, which must come from a version 4 UUID.
    pub const fn new(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// The field in Redis of the hold with `number`: `uuid:number`, as a JVM's is `uuid:thread id`.
    pub fn field(&self, number: HoldNumber) -> Bytes {
        self.field_with(number, b"")
    }

    /// The same of a hold that may linger: `uuid:number~`. The mark tells others that asking for the lock is worth it.
    pub fn marked_field(&self, number: HoldNumber) -> Bytes {
        self.field_with(number, b"~")
    }

    fn field_with(&self, number: HoldNumber, mark: &[u8]) -> Bytes {
        Bytes::copy_from_slice(self.write_field(number, mark, &mut FieldBuffer::default()))
    }

    fn write_field<'a>(&self, number: HoldNumber, mark: &[u8], FieldBuffer(text): &'a mut FieldBuffer) -> &'a [u8] {
        // Every hold begins with this, so it does without the machinery of `format!`.
        self.0.hyphenated().encode_lower(text);
        text[36] = b':';
        let mut start = text.len() - mark.len();
        text[start..].copy_from_slice(mark);
        let mut rest = number.0.get();
        loop {
            start -= 1;
            text[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        let end = 37 + text.len() - start;
        text.copy_within(start.., 37);
        &text[..end]
    }

    /// The number of the hold that `field` names, where it is one of this client.
    pub fn number_in(&self, field: &[u8]) -> Option<HoldNumber> {
        let text = std::str::from_utf8(field).ok()?;
        let (client, number) = text.rsplit_once(':')?;
        let own = Uuid::try_parse(client).is_ok_and(|uuid| uuid == self.0);
        // A number can be written in several ways, and this client writes it in one.
        let number = number.parse().ok().filter(|_| own).map(HoldNumber)?;
        (self.field(number) == field).then_some(number)
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

/// The number of a hold within its client, used once and never again, so that a late copy of an old hold's command
/// cannot touch a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldNumber(NonZeroU64);

impl HoldNumber {
    /// The first number. None is 0, so that an optional number is no larger than a number.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// The number after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// Room for the text of a hold's name: a UUID, a colon, a number and a mark.
pub(crate) struct FieldBuffer([u8; 36 + 1 + 20 + 1]);

impl Default for FieldBuffer {
    fn default() -> Self {
        Self([0; 58])
    }
}

/// The name of a hold on the server, as the client keeps it for as long as the hold is there: the text is made when it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HoldName {
    /// `uuid:number`.
    Numbered(ClientId, HoldNumber),
    /// The name that the caller has chosen, or that has a mark, which is rare.
    Chosen(Box<Bytes>),
}

impl HoldName {
    /// The name of the hold of a client with this number, unless the caller has chosen one.
    pub(crate) fn new(client: ClientId, number: HoldNumber, chosen: Option<&Bytes>) -> Self {
        chosen.map_or(Self::Numbered(client, number), |chosen| Self::Chosen(Box::new(chosen.clone())))
    }

    /// Its text.
    pub(crate) fn field(&self) -> Bytes {
        match self {
            Self::Numbered(client, number) => client.field(*number),
            Self::Chosen(chosen) => Bytes::clone(chosen),
        }
    }

    /// Its text, written into `buffer` unless the caller has chosen it.
    pub(crate) fn text<'a>(&'a self, buffer: &'a mut FieldBuffer) -> &'a [u8] {
        match self {
            Self::Numbered(client, number) => client.write_field(*number, b"", buffer),
            Self::Chosen(chosen) => chosen,
        }
    }
}

/// The identity by which a hold may be re-entered, within one client. It has no text form: Redis sees only the holds of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(NonZeroU64);

impl OwnerId {
    /// The owner with this number, which is not 0, and which the client must not have given out before.
    pub(crate) fn new(number: u64) -> Self {
        debug_assert!(number > 0, "numbers begin at 1");
        Self(NonZeroU64::new(number).unwrap_or(NonZeroU64::MIN))
    }

    /// Its number, which tells it from the other owners of its client in what the client says of itself.
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
