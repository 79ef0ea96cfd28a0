//! The values that are put into the slots of `ARGV`: mostly those of a client, at times ones that none of ours sends.

use crate::names::{Subject, folder};
use bytes::Bytes;
use fastrand::Rng;
use leasehold_core::script::Script;

/// Wall time at the beginning of every history, in milliseconds: that of an embedded server on a clock that is moved by hand.
pub(crate) const BEGINNING: i64 = 1_800_000_000_000;

/// Window, beat, skew, cap, claim, grace, walk and idle of the fair lock, small enough that all of them pass within a history.
const SETTINGS: [&str; 2] = ["2000,500,1000,300000,2000,2000,250,600000", "50,10,0,1000,20,30,5,100"];

/// Values that no client of ours sends.
const ODD: [&str; 11] = ["", "-1", "x", "1.5", "1e3", "0x10", " 7", "0", "00", "9007199254740993", "1e400"];

pub(crate) fn one_of<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.usize(..choices.len())]
}

/// Milliseconds that something lasts.
pub(crate) fn lasting(rng: &mut Rng) -> i64 {
    one_of(rng, &[1, 2, 50, 999, 1_000, 30_000, 600_000, 40_000_000_000_000_000])
}

/// A moment near to where the histories are, in milliseconds since the epoch.
pub(crate) fn moment(rng: &mut Rng) -> i64 {
    BEGINNING + one_of(rng, &[-1, 0, 1, 50, 1_000, 30_000, 60_000, 10_000_000])
}

fn small(rng: &mut Rng) -> i64 {
    rng.i64(0..4)
}

/// The folder of the kind whose channel an argument is.
fn channel_of(folder: &str, word: &str) -> Option<&'static str> {
    match word {
        _ if folder != "any" => None,
        "exclusive" => Some("lock"),
        "shared" => Some("read_write"),
        "counter" => Some("semaphore"),
        "latch" => Some("latch"),
        _ => None,
    }
}

/// The value of a slot. `sharded` says whether the server knows `SPUBLISH`.
pub(crate) fn value(rng: &mut Rng, script: &Script, word: &str, subject: &Subject, sharded: bool) -> Bytes {
    let folder = folder(script);
    let odd = rng.u8(..40) == 0;
    // No client counts by nothing. Lua makes -0 of it, which some versions of the server take for a number.
    let is_amount = matches!((script.name(), word), ("latch/count_down", "count") | ("semaphore/acquire", "permits"));
    if odd && !matches!(word, "publish" | "settings") {
        return Bytes::from(one_of(rng, if is_amount { &ODD[..7] } else { &ODD }));
    }
    if word == "channel" {
        return subject.key(folder, word);
    }
    // The channels of all kinds, for a look at a name whose kind is not known.
    if let Some(kind) = channel_of(folder, word) {
        return subject.key(kind, "channel");
    }
    Bytes::from(match word {
        "hold" | "holder" if folder == "write" => format!("{}:write", subject.hold()),
        "hold" | "holder" if folder == "lock" => subject.marked_hold(),
        "hold" | "holder" | "offered" | "front" | "owner" => subject.hold(),
        "kept" => format!("{}!", subject.marked_hold()),
        "writer" => format!("{}:write", subject.hold()),
        "reader" if rng.bool() => subject.hold(),
        "reader" => String::new(),
        "client" => subject.client.to_owned(),
        "ids" => (1..=rng.u32(1..4)).map(|index| subject.permit(index)).collect(),
        "id" => subject.permit(1),
        "count" | "permits" if is_amount => (1 + small(rng)).to_string(),
        "count" | "number" | "permits" => small(rng).to_string(),
        "capacity" => one_of(rng, &[0_i64, 1, 3, 5, 2_147_483_647, 2_147_483_648]).to_string(),
        "token" => (if rng.bool() { rng.i64(1..6) } else { moment(rng) }).to_string(),
        "lease" | "memory" | "mark" => lasting(rng).to_string(),
        "keep" | "lifetime" => (if rng.bool() { 0 } else { lasting(rng) }).to_string(),
        "not_after" if rng.u8(..3) > 0 => one_of(rng, &[-1, 0]).to_string(),
        "not_after" | "since" => moment(rng).to_string(),
        "waits" | "placed" | "granted" | "prefer" => rng.u8(..2).to_string(),
        // The secret of an offer, which an adoption has with the time of the offer.
        "secret" if script.name() == "ticket/offer" => "c0ffee".to_owned(),
        "secret" => format!("c0ffee:{}", moment(rng) * 1_000),
        "settings" => SETTINGS[usize::from(rng.u8(..4) == 0)].to_owned(),
        "publish" if folder == "lock" && rng.u8(..8) == 0 => "SILENT".to_owned(),
        "publish" if sharded && rng.u8(..8) == 0 => "SPUBLISH".to_owned(),
        "publish" => "PUBLISH".to_owned(),
        "host" | "application" | "note" | "value" => one_of(rng, &["web-3", "", "é\r\n"]).to_owned(),
        "pid" | "up" => "4711".to_owned(),
        "within" => one_of(rng, &["", "6f0d:3 6f0e:4"]).to_owned(),
        "locks" => one_of(rng, &["", "lw1500;7;0:5:stock"]).to_owned(),
        "most" => rng.u8(1..4).to_string(),
        "window" | "skew" => lasting(rng).to_string(),
        "question" if sharded && rng.u8(..8) == 0 => "SHARDNUMSUB".to_owned(),
        "question" => "NUMSUB".to_owned(),
        other => panic!("values.rs knows nothing for the argument {other:?} of {}: say what it can be", script.name()),
    })
}

/// A member, field or element, as some key of a history may have it.
pub(crate) fn member(rng: &mut Rng) -> String {
    let subject = Subject::random(rng);
    match rng.u8(..12) {
        0..6 => subject.hold(),
        6 => format!("{}:write", subject.hold()),
        7 => subject.permit(1),
        8 => "mode".to_owned(),
        9 => one_of(rng, &["token", "owner", "write", "host", "pid"]).to_owned(),
        10 => one_of(rng, &["o", "ot", "f", "k", "g", "h", "s"]).to_owned(),
        _ => format!("{}:{}", one_of(rng, &["p", "a", "w", "c"]), subject.hold()),
    }
}

/// The values that a field or a string may hold. Numbers are small: the count of a reader says how many hold keys a script looks for.
pub(crate) fn content(rng: &mut Rng) -> String {
    match rng.u8(..8) {
        0..4 => small(rng).to_string(),
        4 => one_of(rng, &["read", "write"]).to_owned(),
        5 => one_of(rng, &["", "x", "1.5", "-3", "é", "007"]).to_owned(),
        _ => member(rng),
    }
}

/// A score of a sorted set.
pub(crate) fn score(rng: &mut Rng) -> String {
    match rng.u8(..8) {
        0..5 => moment(rng).to_string(),
        5 => one_of(rng, &["inf", "-inf", "1e3", "x", "", "1.5", "-0", "nan"]).to_owned(),
        6 => "922337203685477".to_owned(),
        _ => small(rng).to_string(),
    }
}
