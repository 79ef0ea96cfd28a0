//! Names: of locks, with everything that is derived from them, of holds, and of permits.

use crate::source::Source;
use leasehold_core::command::permits::PermitId;
use leasehold_core::command::{
    AcquireArgs, HoldKey, Kind, ReleaseArgs, Renewal, latch, permits, record, semaphore, store,
};
use leasehold_core::name::{LockName, MAX_NAME_BYTES, NameError};
use leasehold_core::owner::ClientId;
use leasehold_core::settings::Settings;
use std::time::Duration;
use uuid::Uuid;

pub(crate) const CORPUS: [&[u8]; 12] = [
    b"\x01\x06astock:1001",
    b"\x00\x06{shop}:stock",
    b"\x04\x05app:a{b}c{d}",
    b"\x00\x05a{}b}",
    b"\x02\x2c\x006f0c0000-0000-4000-8000-000000000001:7",
    b"\x00\x2c\x006F0C0000-0000-4000-8000-000000000001:+07",
    b"\x00\x200123456789abcdeffedcba9876543210",
    "\x00\x08é{ü}\u{1f512}".as_bytes(),
    b"\x00\x15leasehold:1:fence:{v}",
    b"\x00\x0f{stock}:timeout",
    b"\x00\x19redisson_lock_queue:{job}",
    b"\x00\x1c{job}:6f:7:rwlock_timeout:12",
];

/// The reader and the operation, as far as they are part of the name of a key.
const HOLD: &str = "6f0c0000-0000-4000-8000-000000000001:7";

pub(crate) fn check(data: &[u8]) {
    let mut source = Source::new(data);
    let (prefix, name) = (source.text(8), source.text(255));
    check_name(&prefix, &name);
    // Long names are made of short ones.
    check_name(&prefix, &name.repeat(source.below(12)));
    check_field(name.as_bytes());
    check_permit(&name);
}

fn check_name(prefix: &str, given: &str) {
    let client = ClientId::new(Uuid::from_u128(7));
    let long = prefix.len() + given.len() > MAX_NAME_BYTES;
    let name = match LockName::new(prefix, given) {
        Ok(name) => name,
        Err(error) => {
            match error {
                NameError::Empty => assert!(given.is_empty()),
                NameError::TooLong { bytes } => assert!(long && bytes == prefix.len() + given.len()),
                NameError::Reserved { ref name, .. } => {
                    assert_eq!(name, given);
                    let raw = [prefix, given].concat();
                    let known = ["redisson_", "leasehold:", ":timeout", ":rwlock_timeout:"];
                    assert!(known.iter().any(|part| raw.contains(part)), "{raw:?} is nobody's");
                }
                other => panic!("{other}"),
            }
            return;
        }
    };
    assert!(!given.is_empty() && !long, "{given:?} cannot be a name");
    assert_eq!(name.as_str(), given);
    assert_eq!(name.to_string(), given);
    assert_eq!(name.key(), [prefix, given].concat().as_bytes());
    check_reserved(&name, &client);
    for kind in Kind::ALL {
        let keys = kind.protocol().keys(&name, &client);
        for derived in keys.keys.iter().chain(&keys.channel) {
            assert!(contains(derived, name.key()), "{derived:?} does not tell that it belongs to {given:?}");
        }
        let together = keys.keys.iter().chain(&keys.channel).all(|key| slot(key) == slot(name.key()));
        match keys.check_cluster(&name) {
            Ok(()) => assert!(together, "{kind:?} {given:?}"),
            Err(error) => {
                assert!(!together, "{kind:?} {given:?}");
                assert!(error.to_string().contains(&format!("{given:?}")), "{error} does not name {given:?}");
            }
        }
    }
}

/// Nothing that any kind keeps beside a name is a name that can be used, whatever part of it is a prefix.
fn check_reserved(name: &LockName, client: &ClientId) {
    let settings = Settings::default();
    let hold = HoldKey::new(HOLD.into(), 1);
    let mut all = vec![name.channel(), record::key(client), store::fence_key(name)];
    for kind in Kind::ALL {
        let protocol = kind.protocol();
        let keys = protocol.keys(name, client);
        all.extend(keys.keys.iter().chain(&keys.channel).cloned());
        let mut renewal = Renewal::default();
        protocol.renew(&mut renewal, name, &keys, &hold, Duration::from_secs(30));
        all.extend(renewal.keys);
        let ask = AcquireArgs {
            settings: &settings,
            name,
            lease: Duration::from_secs(30),
            keys: &keys,
            hold: &hold,
            prefer_writers: None,
            beside: None,
            waits: true,
            placed: false,
            count: 1,
            not_after: None,
        };
        all.extend(protocol.acquire(&ask).keys().to_vec());
        let give = ReleaseArgs {
            name,
            keys: &keys,
            hold: &hold,
            count: 0,
            granted: true,
            keep: Duration::ZERO,
            settings: &settings,
        };
        all.extend(protocol.release(&give).keys().to_vec());
    }
    let (operation, publish) = (HOLD.as_bytes(), &settings.publish);
    all.extend(permits::resize(name, 1, operation, publish).keys().to_vec());
    all.extend(latch::set(name, 1, operation, publish).keys().to_vec());
    all.extend(semaphore::add(name, 1, operation, publish).keys().to_vec());
    for key in all.iter().filter(|key| *key != name.key()) {
        let text = std::str::from_utf8(key).expect("names are texts");
        let Err(error) = LockName::new("", text) else { panic!("{text:?} of {name:?} can be the name of a lock") };
        assert!(matches!(error, NameError::Reserved { .. } | NameError::TooLong { .. }), "{text:?}: {error}");
    }
}

/// A field is one of a client if the client writes it so, and in no other case.
fn check_field(field: &[u8]) {
    let written = std::str::from_utf8(field).ok().and_then(|text| Uuid::try_parse(text.rsplit_once(':')?.0).ok());
    let client = ClientId::new(written.unwrap_or_default());
    if let Some(number) = client.number_in(field) {
        assert_eq!(client.field(number), field, "a client that did not write it takes it for its own");
    }
}

fn check_permit(text: &str) {
    let read = text.parse::<PermitId>();
    let is_one = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert_eq!(read.is_ok(), is_one, "{text:?}");
    if let Ok(id) = read {
        assert_eq!(id.to_string(), text.to_ascii_lowercase());
        assert_eq!(PermitId::from_bytes(id.as_bytes()), Some(id));
    }
}

fn contains(whole: &[u8], part: &[u8]) -> bool {
    whole.windows(part.len()).any(|window| window == part)
}

/// The slot of a key, reckoned once more: by the words of the specification, and by a table for half bytes.
fn slot(key: &[u8]) -> u16 {
    const TABLE: [u16; 16] = [
        0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7, 0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad,
        0xe1ce, 0xf1ef,
    ];
    let open = key.iter().position(|byte| *byte == b'{');
    let close = open.and_then(|open| Some(open + 1 + key[open + 1..].iter().position(|byte| *byte == b'}')?));
    let hashed = match (open, close) {
        (Some(open), Some(close)) if close > open + 1 => &key[open + 1..close],
        _ => key,
    };
    let step = |crc: u16, half: u8| (crc << 4) ^ TABLE[usize::from((crc >> 12) as u8 ^ half)];
    hashed.iter().fold(0, |crc, byte| step(step(crc, byte >> 4), byte & 15)) % 16_384
}
