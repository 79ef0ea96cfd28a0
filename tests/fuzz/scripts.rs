//! Script results: whatever scripts are called in whatever order with arguments of the right sort, the client understands the answers,
//! or the server refuses.

use crate::replies::decode;
use crate::source::Source;
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::script::ALL;
use leasehold_embedded::{EmbeddedServer, ManualClock};
use std::time::Duration;

const NAMES: [&str; 2] = ["a", "b"];
const TEXTS: [&str; 8] =
    ["6f0c:1", "6f0c:2", "77aa:1", "6f0c:1:write", "6f0c", "0123456789abcdef", "0123456789abcdeffedcba9876543210", ""];
const NUMBERS: [i64; 11] = [-1, 0, 1, 2, 50, 1_000, 30_000, 1_799_999_999_999, 1_800_000_000_500, 1 << 31, 1 << 53];
const SETTINGS: &str = "2000,500,1000,300000,2000,2000,250,600000";

pub(crate) fn check(data: &[u8]) {
    let mut source = Source::new(data);
    let clock = ManualClock::new();
    let server = EmbeddedServer::with_clock(clock.clone());
    for _ in 0..40 {
        if source.is_empty() {
            break;
        }
        let script = ALL[source.below(ALL.len())];
        let groups = if script.is_renewal() { 1 + source.below(3) } else { 1 };
        let (mut keys, mut args) = (Vec::new(), Vec::new());
        for _ in 0..groups {
            let name = source.one_of(&NAMES);
            // The lock itself has one key, whatever its kind; other keys have a word of their own in their names.
            let key = |word: &&str| match *word {
                "lock" | "semaphore" | "permits" | "latch" | "data" => Bytes::from(name),
                other => Bytes::from(format!("{other}:{name}")),
            };
            keys.extend(script.keys().iter().map(key));
            for word in script.args() {
                args.push(match *word {
                    "settings" => Bytes::from(SETTINGS),
                    "channel" => key(word),
                    "publish" => Bytes::from(source.one_of(&["PUBLISH", "SPUBLISH"])),
                    // These are kept on the server as they are.
                    "count" | "number" | "pid" => Bytes::from(source.below(5).to_string()),
                    "since" => Bytes::from("1800000000000"),
                    "hold" | "holder" | "client" | "front" | "writer" | "reader" | "ids" | "id" | "owner" | "host"
                    | "application" | "value" => match source.byte() {
                        0..=3 => Bytes::from(source.text(20)),
                        choice => Bytes::from(TEXTS[usize::from(choice) % TEXTS.len()]),
                    },
                    _ => Bytes::from(source.one_of(&NUMBERS).to_string()),
                });
            }
        }
        let call = Call::new(script, keys, args);
        match server.execute(&call) {
            Ok(reply) => {
                if let Err(error) = decode(script, &reply) {
                    let (name, keys, args) = (script.name(), call.keys(), call.args());
                    panic!("{name} of {keys:?} and {args:?} answers what nobody understands: {error}");
                }
            }
            Err(refusal) => assert!(!refusal.text().contains("embedded engine"), "{}: {refusal}", script.name()),
        }
        if source.below(8) == 0 {
            clock.advance(Duration::from_millis(source.one_of(&[1, 50, 1_001, 30_000])));
        }
    }
}
