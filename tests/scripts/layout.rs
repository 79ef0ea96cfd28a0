//! The keys that each kind leaves on a server: their names with the number of the layout, their types, the fields of hashes, and whether they
//! end.
//!
//! A script that leaves another key, field or type fails here. `lua/README.md`, "Changing the layout", says what to
//! decide before the table follows.

use crate::support::{Bench, CLIENT, Desk, LEASE, hold, ms, once, publish};
use bytes::Bytes;
use leasehold_core::command::record::{self, ClientRecord};
use leasehold_core::command::store::{self, Claim};
use leasehold_core::command::{Kind, fair, latch, permits, semaphore};
use leasehold_core::owner::ClientId;
use leasehold_core::reply::Reply;
use std::collections::BTreeSet;
use uuid::Uuid;

const LOCK: &str = "stock hash ends: own";
const QUEUE: &str = "redisson_lock_queue:{stock} list ends";
const DEADLINES: &str = "redisson_lock_timeout:{stock} zset ends";
const MARKS: &str = "leasehold:1:fair:{stock} hash ends: a:own e h p:client s";
const MARKS_WITH_AN_OFFER: &str = "leasehold:1:fair:{stock} hash ends: a:own e h o ot p:client s";
const TOKEN: &str = "redisson_lock_token:{stock} string stays";
const COUNTER: &str = "stock string stays";
const RECORD: &str = "leasehold:1:op:{stock}:own string ends";

const fn keys_of(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Lock | Kind::Spin => &[LOCK],
        Kind::Fenced => &[LOCK, TOKEN],
        Kind::Fair => &[LOCK, QUEUE, DEADLINES, MARKS, MARKS_WITH_AN_OFFER],
        Kind::FencedFair => &[LOCK, QUEUE, DEADLINES, MARKS, MARKS_WITH_AN_OFFER, TOKEN],
        Kind::Simple => &["stock string ends"],
        Kind::Read => &[
            "stock hash ends: mode own",
            "{stock}:own:rwlock_timeout:1 string ends",
            "leasehold:1:rw_readers:{stock} zset ends",
        ],
        Kind::Write => &["stock hash ends: mode own:write", "leasehold:1:rw_writers:{stock} zset ends"],
        Kind::Semaphore | Kind::Latch => &[COUNTER, RECORD],
        Kind::Permits => &[COUNTER, RECORD, "{stock}:timeout zset stays"],
    }
}

/// The keys on the server, each with its type, the fields of a hash, and whether it ends. `stock` stands for the name of the lock, `own` for
/// the name of a hold or an operation, and `client` for that of a client.
fn left(desk: &Desk<'_>) -> BTreeSet<String> {
    let line = |key: Bytes| {
        let kind = desk.bench.on("TYPE", &key, &[]);
        let ends = if desk.bench.on("PTTL", &key, &[]) == Reply::Int(-1) { "stays" } else { "ends" };
        let mut line = format!("{} {} {ends}", general(desk, &key), kind.text().expect("a type is a word"));
        if kind.text() == Ok("hash") {
            let fields = desk.bench.on("HKEYS", &key, &[]);
            let fields = fields
                .array()
                .expect("fields")
                .iter()
                .map(|field| general(desk, field.text().expect("a field").as_bytes()));
            line.push(':');
            line.extend(fields.collect::<BTreeSet<_>>().into_iter().map(|field| format!(" {field}")));
        }
        line
    };
    desk.bench.server().keys().into_iter().map(line).collect()
}

/// A key or a field without the names of this very test.
fn general(desk: &Desk<'_>, text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text).replace(desk.name.as_str(), "stock");
    let text = text.replace(&Uuid::nil().to_string(), CLIENT);
    match text.split_once(&format!("{CLIENT}:")) {
        Some((head, rest)) => format!("{head}own{}", rest.trim_start_matches(|letter: char| letter.is_ascii_digit())),
        None => text.replace(CLIENT, "client"),
    }
}

/// The keys that are there while one hold has the lock and another waits, and after the release.
fn contend(desk: &Desk<'_>) -> BTreeSet<String> {
    let set = match desk.kind {
        Kind::Semaphore => Some(semaphore::set(&desk.name, 1, None, &once(), &publish())),
        Kind::Permits => Some(permits::set(&desk.name, 1, &once(), &publish())),
        Kind::Latch => Some(latch::set(&desk.name, 2, &once(), &publish())),
        _ => None,
    };
    set.iter().for_each(|call| _ = desk.bench.run(call));
    if desk.kind == Kind::Latch {
        desk.bench.run(&latch::count_down(&desk.name, 1, &once(), &publish()));
        return left(desk);
    }
    let (first, second) = (hold(1), hold(1));
    assert!(desk.gets(&first));
    desk.bench.advance(100);
    desk.acquired(&desk.lock().ask(&second, |ask| ask.prefer_writers = Some(LEASE)));
    if matches!(desk.kind, Kind::Fair | Kind::FencedFair) {
        let client = ClientId::new(Uuid::nil());
        desk.bench.run(&fair::heartbeat(&desk.name, &desk.keys, &client, Some(&second.field()), &desk.settings));
    }
    if desk.kind.protocol().renewal().is_some() {
        desk.renew(&first, LEASE);
    }
    let held = left(desk);
    desk.release(&first);
    held.into_iter().chain(left(desk)).collect()
}

#[test]
fn every_kind_leaves_the_keys_that_are_written_down() {
    for kind in Kind::ALL {
        let bench = Bench::embedded();
        let desk = bench.desk(kind);
        let expected: BTreeSet<_> = keys_of(kind).iter().map(|line| (*line).to_owned()).collect();
        assert_eq!(contend(&desk), expected, "{kind:?}");
    }
}

#[test]
fn records_and_stores_leave_the_keys_that_are_written_down() {
    let bench = Bench::embedded();
    let desk = bench.desk(Kind::Fenced);
    let client = ClientId::new(Uuid::from_u128(7));
    let (host, application, within) = ("web-3".into(), "orders".into(), Vec::new());
    let record = ClientRecord { host, pid: 4711, application, since: 0, within, note: String::new() };
    bench.run(&record::put(&client, &record, ms(7), &[], LEASE));
    let claim = Claim { token: 34, owner: &once(), keep: Some(ms(900)) };
    bench.run(&store::write(&desk.name, &claim, 1, "90".into(), None));
    let expected = [
        format!("leasehold:1:client:{client} hash ends: application host locks note pid since up within written"),
        "leasehold:1:fence:{stock} hash ends: owner token write".to_owned(),
        "stock string stays".to_owned(),
    ];
    assert_eq!(left(&desk), BTreeSet::from(expected));
}
