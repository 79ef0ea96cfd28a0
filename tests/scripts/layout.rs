//! The keys that each kind leaves on a server: their names with the number of the layout, their types, and whether they end.
//!
//! A script that leaves another key, or a key of another type, fails here. `docs/wire-protocol.md`, "Layout versions", says what to
//! decide before the table follows.

use crate::support::{Bench, Desk, LEASE, hold, ms, once, publish};
use leasehold_core::command::record::{self, ClientRecord};
use leasehold_core::command::store::{self, Claim};
use leasehold_core::command::{Kind, fair, latch, permits, semaphore};
use leasehold_core::owner::ClientId;
use leasehold_core::reply::Reply;
use std::collections::BTreeSet;
use uuid::Uuid;

const LOCK: &[&str] = &["stock hash ends"];
const COUNTER: &[&str] = &["leasehold:1:op:{stock}:own string ends", "stock string stays"];

const fn keys_of(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Lock | Kind::Spin => LOCK,
        Kind::Fenced => &["redisson_lock_token:{stock} string stays", "stock hash ends"],
        Kind::Fair => &[
            "leasehold:1:fair:{stock} hash ends",
            "redisson_lock_queue:{stock} list ends",
            "redisson_lock_timeout:{stock} zset ends",
            "stock hash ends",
        ],
        Kind::FencedFair => &[
            "leasehold:1:fair:{stock} hash ends",
            "redisson_lock_queue:{stock} list ends",
            "redisson_lock_timeout:{stock} zset ends",
            "redisson_lock_token:{stock} string stays",
            "stock hash ends",
        ],
        Kind::Simple => &["stock string ends"],
        Kind::Read => {
            &["leasehold:1:rw_readers:{stock} zset ends", "stock hash ends", "{stock}:own:rwlock_timeout:1 string ends"]
        }
        Kind::Write => &["leasehold:1:rw_writers:{stock} zset ends", "stock hash ends"],
        Kind::Semaphore | Kind::Latch => COUNTER,
        Kind::Permits => {
            &["leasehold:1:op:{stock}:own string ends", "stock string stays", "{stock}:timeout zset stays"]
        }
    }
}

/// The keys on the server, with `stock` for the name of the lock and `own` for whatever names a client, a hold or an operation.
fn left(desk: &Desk<'_>) -> BTreeSet<String> {
    let own = format!("{}:", ClientId::new(Uuid::from_u128(0x6f0c_0000_0000_4000_8000_0000_0000_0001)));
    let line = |key: bytes::Bytes| {
        let name = String::from_utf8_lossy(&key).replace(desk.name.as_str(), "stock");
        let name = match name.split_once(&own) {
            Some((head, rest)) => {
                format!("{head}own{}", rest.trim_start_matches(|letter: char| letter.is_ascii_digit()))
            }
            None => name,
        };
        let kind = desk.bench.on("TYPE", &key, &[]);
        let ends = if desk.bench.on("PTTL", &key, &[]) == Reply::Int(-1) { "stays" } else { "ends" };
        format!("{name} {} {ends}", kind.text().expect("a type is a word"))
    };
    desk.bench.server().keys().into_iter().map(line).collect()
}

/// One hold has the lock and another waits, so that every key of the kind is there.
fn contend(desk: &Desk<'_>) {
    let set = match desk.kind {
        Kind::Semaphore => Some(semaphore::set(&desk.name, 1, None, &once(), &publish())),
        Kind::Permits => Some(permits::set(&desk.name, 1, &once(), &publish())),
        Kind::Latch => Some(latch::set(&desk.name, 2, &once(), &publish())),
        _ => None,
    };
    set.iter().for_each(|call| _ = desk.bench.run(call));
    if desk.kind == Kind::Latch {
        desk.bench.run(&latch::count_down(&desk.name, 1, &once(), &publish()));
        return;
    }
    let (first, second) = (hold(1), hold(1));
    assert!(desk.gets(&first));
    desk.bench.advance(100);
    desk.acquired(&desk.lock().ask(&second, |ask| ask.prefer_writers = Some(LEASE)));
    if matches!(desk.kind, Kind::Fair | Kind::FencedFair) {
        let client = ClientId::new(Uuid::nil());
        desk.bench.run(&fair::beat(&desk.name, &desk.keys, &client, Some(&second.field), &desk.settings));
    }
    if desk.kind.verbs().renewal().is_some() {
        desk.renew(&first, LEASE);
    }
}

#[test]
fn every_kind_leaves_the_keys_that_are_written_down() {
    for kind in Kind::ALL {
        let bench = Bench::embedded();
        let desk = bench.desk(kind);
        contend(&desk);
        let expected: BTreeSet<_> = keys_of(kind).iter().map(|line| (*line).to_owned()).collect();
        assert_eq!(left(&desk), expected, "{kind:?}");
    }
}

#[test]
fn records_and_stores_leave_the_keys_that_are_written_down() {
    let bench = Bench::embedded();
    let desk = bench.desk(Kind::Fenced);
    let client = ClientId::new(Uuid::from_u128(7));
    let record = ClientRecord { host: "web-3".into(), pid: 4711, application: "orders".into(), since: 0 };
    bench.run(&record::put(&client, &record, LEASE));
    let claim = Claim { token: 34, owner: &once(), keep: Some(ms(900)) };
    bench.run(&store::write(&desk.name, &claim, 1, "90".into(), None));
    let expected = [
        format!("leasehold:1:client:{client} hash ends"),
        "leasehold:1:fence:{stock} hash ends".to_owned(),
        "stock string stays".to_owned(),
    ];
    assert_eq!(left(&desk), BTreeSet::from(expected));
}
