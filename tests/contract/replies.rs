//! The decoder of each script, and replies made up in the forms that its header shows.

use crate::header::{Header, Row};
use leasehold_core::command::permits::PermitId;
use leasehold_core::command::{
    Acquired, Kind, Renewed, any, durable, fair, latch, lock, permits, read_write, record, semaphore, store, ticket,
};
use leasehold_core::reply::{DecodeError, Reply};
use leasehold_core::script::Script;

/// Whether the client understands `reply` as an answer of `script`.
pub(crate) fn is_understood(script: &Script, reply: &Reply) -> bool {
    fn shown<T: std::fmt::Debug>(result: Result<T, DecodeError>) -> bool {
        matches!(result, Ok(_) | Err(DecodeError::OtherKind(_)))
    }
    match script.name() {
        "fenced/acquire" => shown(Kind::Fenced.protocol().acquired(reply)),
        "simple/acquire" => shown(Kind::Simple.protocol().acquired(reply)),
        "simple/release" => shown(Kind::Simple.protocol().released(reply)),
        "simple/renew" => shown(Renewed::decode(reply, 1)),
        "simple/inspect" => shown(lock::inspected(reply)),
        "read/acquire" => shown(Kind::Read.protocol().acquired(reply)),
        "read/release" => shown(Kind::Read.protocol().released(reply)),
        "read/renew" => shown(Renewed::decode(reply, 1)),
        "write/acquire" => shown(Kind::Write.protocol().acquired(reply)),
        "write/release" => shown(Kind::Write.protocol().released(reply)),
        "read_write/inspect" => shown(read_write::inspected(reply)),
        "lock/acquire" => shown(Acquired::decode(reply)),
        "lock/release" => shown(Kind::Lock.protocol().released(reply)),
        "lock/renew" => shown(Renewed::decode(reply, 1)),
        "lock/force_release" => shown(lock::forced(reply)),
        "lock/inspect" => shown(lock::inspected(reply)),
        "fair/acquire" => shown(Kind::Fair.protocol().acquired(reply)),
        "fair/release" => shown(Kind::Fair.protocol().released(reply)),
        "fair/beat" => shown(fair::beaten(reply)),
        "fair/force_release" => shown(lock::forced(reply)),
        "fair/inspect" => shown(fair::inspected(reply)),
        "fenced_fair/acquire" => shown(Kind::FencedFair.protocol().acquired(reply)),
        "semaphore/acquire" => shown(Kind::Semaphore.protocol().acquired(reply)),
        "semaphore/release" => shown(Kind::Semaphore.protocol().released(reply)),
        "semaphore/set" => shown(semaphore::set_done(reply)),
        "semaphore/add" => shown(semaphore::added(reply)),
        "semaphore/drain" => shown(semaphore::drained(reply)),
        "semaphore/inspect" => shown(semaphore::inspected(reply)),
        "permits/acquire" => shown(Kind::Permits.protocol().acquired(reply)),
        "permits/release" => shown(Kind::Permits.protocol().released(reply)),
        "permits/give" => shown(permits::given(reply)),
        "permits/renew" => shown(Renewed::decode(reply, 1)),
        "permits/set" => shown(permits::set_done(reply)),
        "permits/resize" => shown(permits::resized(reply)),
        "permits/inspect" => shown(permits::inspected(reply)),
        "permits/lease" => shown(permits::leased(reply, PermitId::of_hold("a:1", 1).next().expect("an id"))),
        "latch/acquire" => shown(Kind::Latch.protocol().acquired(reply)),
        "latch/set" => shown(latch::set_done(reply)),
        "latch/count_down" => shown(latch::counted_down(reply)),
        "latch/inspect" => shown(latch::inspected(reply)),
        "latch/delete" => shown(latch::deleted(reply)),
        "any/inspect" => shown(any::inspected(reply)),
        "record/put" => shown(record::put_done(reply)),
        "record/get" => shown(record::found(reply)),
        "record/remove" => shown(record::removed(reply)),
        "durable/mark" => shown(durable::marked(reply)),
        "store/read" => shown(store::read_done(reply)),
        "store/write" => shown(store::written(reply)),
        "store/check" => shown(store::checked(reply)),
        "ticket/offer" => shown(ticket::offered(reply)),
        "ticket/adopt" => shown(ticket::adopted(Kind::Fenced, reply)),
        other => panic!("{other} has no decoder in tests/contract/replies.rs: add it"),
    }
}

/// The codes that the header of a script names. A renewal tells its codes in words: `0 where the hold is gone`.
pub(crate) fn is_named(script: &Script, header: &Header, code: i64) -> bool {
    if !(script.is_renewal() && header.codes().is_empty()) {
        return header.codes().contains(&code);
    }
    let told = header.returns.iter().map(|row| row.meaning.as_str()).collect::<Vec<_>>().join(" ");
    let told = told.split("; left").next().unwrap_or_default();
    code > 0 || told.contains(&format!(" {code} where"))
}

/// A reply that begins with `code`, in the form of `row`.
pub(crate) fn reply(header: &Header, row: &Row, code: i64) -> Reply {
    if header.shape == "integer" {
        return Reply::Int(code);
    }
    if header.keys[0].index.contains('i') {
        // The reply for one lock.
        return Reply::Array(vec![Reply::Int(code), Reply::Int(70)]);
    }
    let mut parts = vec![Reply::Int(code)];
    // Dots say that the reply goes on in this way.
    parts.extend(row.words()[1..].iter().filter(|word| **word != "...").map(|word| match *word {
        "kind" => Reply::Bulk("zset".into()),
        "sort" => Reply::Bulk("fair lock".into()),
        "hold" | "waiter" => Reply::Bulk("6f0c:7".into()),
        "count" | "token" => Reply::Bulk("2".into()),
        "id" => Reply::Bulk("0123456789abcdef".into()),
        "host" | "application" | "note" | "value" => Reply::Bulk("orders".into()),
        "pid" | "since" => Reply::Bulk("4711".into()),
        "left" | "stored" | "time" | "in_all" | "age" | "up" | "0" | "available" | "capacity" | "drained" | "given"
        | "held" | "registered" => Reply::Int(70),
        "within" => Reply::Bulk("6f0c:7 6f0c:8".into()),
        "moved" | "head" | "foreign" | "alive" | "queued" | "listeners" | "listed" => Reply::Int(1),
        "locks" => Reply::Bulk("lw1500;0;7;0:5:stock".into()),
        "mode" => Reply::Bulk("read".into()),
        other => panic!("{other:?} in a reply is no word that tests/contract/replies.rs knows: add it"),
    }));
    Reply::Array(parts)
}

/// A reply as a header writes it: `{1, 29640, "6f0c…:7", "2"}`.
pub(crate) fn show(reply: &Reply) -> String {
    match reply {
        Reply::Int(number) => number.to_string(),
        Reply::Bulk(text) => format!("\"{}\"", String::from_utf8_lossy(text)),
        Reply::Array(parts) => format!("{{{}}}", parts.iter().map(show).collect::<Vec<_>>().join(", ")),
        other => format!("{other:?}"),
    }
}
