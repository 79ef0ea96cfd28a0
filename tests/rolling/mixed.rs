//! Random histories in which every call is made by a client of either version: the replies, the messages and the keys do not tell that not
//! all of them are of today.

use crate::clients::{Client, Version};
use crate::place::Place;
use fastrand::Rng;
use leasehold_core::reply::Reply;
use std::time::Duration;

const SEEDS: u64 = 60;
const STEPS: usize = 60;

const DUMP: &str = r"
local dump = {}
for i, key in ipairs(redis.call('KEYS', '*')) do
  dump[i] = {key, redis.call('TYPE', key).ok, redis.call('PTTL', key), redis.call('HGETALL', key)}
end
return dump";

#[test]
fn a_fleet_of_both_versions_does_what_one_of_today_does() {
    let mut grants = 0;
    for seed in 0..SEEDS {
        let (mixed, uniform) = (Place::embedded(), Place::embedded());
        let rng = &mut Rng::with_seed(seed);
        for place in [&mixed, &uniform] {
            for name in ["a", "b"] {
                place.listen(Client::new(place, Version::Present, 0, name).name.channel());
            }
        }
        for step in 0..STEPS {
            let name = if rng.bool() { "a" } else { "b" };
            let client = Client::new(&mixed, Version::Present, rng.u8(1..4), name);
            let lease = Duration::from_millis([1, 500, 2_000, 30_000][rng.usize(..4)]);
            let call = match rng.u8(..10) {
                0..5 => client.asking(rng.u32(1..4), lease),
                5..7 => client.giving(rng.u32(..3)),
                7 => client.renewing(lease),
                8 => client.forcing(Client::new(&mixed, Version::Present, rng.u8(1..4), name).field()),
                _ => {
                    let passed = Duration::from_millis([1, 400, 2_001][rng.usize(..3)]);
                    mixed.advance(passed);
                    uniform.advance(passed);
                    continue;
                }
            };
            let version = if rng.bool() { Version::First } else { Version::Present };
            let told = |place: &Place, version: Version| {
                let reply = place.eval(version.text(&call), call.keys(), call.args());
                (reply, place.heard(), place.eval(DUMP, &[], &[]))
            };
            let (one, other) = (told(&mixed, version), told(&uniform, Version::Present));
            assert_eq!(one, other, "seed {seed}, step {step}: {} of {version:?}", call.script().name());
            grants += usize::from(matches!(&one.0, Reply::Array(parts) if parts[0] == Reply::Int(1)));
        }
    }
    assert!(grants > 100, "there were {grants} grants");
}
