//! The record of a client.

use crate::support::{Bench, conflict, ms};
use leasehold_core::command::Kind;
use leasehold_core::command::record::uses::LockUse;
use leasehold_core::command::record::{self, ClientRecord, Found};
use leasehold_core::owner::ClientId;
use uuid::Uuid;

fn somebody() -> ClientRecord {
    let (host, application, within) = ("web-3".into(), "orders €".into(), vec!["a:1".into(), "b:2".into()]);
    ClientRecord { host, pid: 4711, application, since: 1_800_000_000_000, within, note: "dump €".into() }
}

fn waits() -> LockUse {
    let (key, hold, owners) = ("stock €".to_owned(), None, vec![7, 8]);
    LockUse { key, kind: Kind::Fair, hold, owners, lasted: ms(1_500), lease: None }
}

#[test]
fn a_wait_grows_older_while_its_record_stays() {
    let bench = Bench::embedded();
    let client = ClientId::new(Uuid::from_u128(7));
    bench.run(&record::put(&client, &somebody(), ms(7), &[waits()], ms(60_000)));
    bench.advance(700);
    let found = record::found(&bench.run(&record::get(&client))).expect("the reply is understood");
    let Found { up, age, uses, .. } = found.expect("there is a record");
    assert_eq!((up, age, uses[0].lasted), (Some(ms(7)), Some(ms(700)), ms(2_200)));
}

#[test]
fn records_of_older_clients_and_garbage_say_nothing_of_locks() {
    Bench::everywhere(|bench| {
        let client = ClientId::new(Uuid::new_v4());
        let key = record::key(&client);
        bench.on("HSET", &key, &["host", "web-3", "pid", "4711", "application", "orders", "since", "7"]);
        for garbage in [&[][..], &["locks", "none of these", "written", "yesterday"]] {
            if !garbage.is_empty() {
                bench.on("HSET", &key, garbage);
            }
            let found = record::found(&bench.run(&record::get(&client))).expect("the reply is understood");
            let Some(Found { record, up: None, age: None, uses, .. }) = &found else { panic!("{found:?}") };
            assert!(uses.is_empty() && record.within.is_empty() && record.note.is_empty(), "{found:?}");
        }
    });
}

#[test]
fn a_record_is_there_until_it_is_removed() {
    Bench::everywhere(|bench| {
        let client = ClientId::new(Uuid::new_v4());
        let find = || record::found(&bench.run(&record::get(&client))).expect("the reply is understood");
        assert_eq!(find(), None);
        let put = record::put(&client, &somebody(), ms(7), &[waits()], ms(600_000));
        assert_eq!(record::put_done(&bench.run(&put)), Ok(true));
        let Some(Found { record, left: Some(left), uses, .. }) = find() else {
            panic!("there is a record, with an end")
        };
        assert_eq!(record, somebody());
        assert!(uses.len() == 1 && uses[0].is_same(&waits()) && uses[0].lasted >= waits().lasted, "{uses:?}");
        assert!(left <= ms(600_000) && left > ms(500_000), "{left:?}");
        assert_eq!(record::removed(&bench.run(&record::remove(&client))), Ok(true));
        assert_eq!(record::removed(&bench.run(&record::remove(&client))), Ok(false));
        assert_eq!(find(), None);
    });
}

#[test]
fn a_record_that_is_not_written_again_goes_away() {
    let bench = Bench::embedded();
    let client = ClientId::new(Uuid::from_u128(7));
    let put = |host: &str| {
        bench.run(&record::put(&client, &ClientRecord { host: host.into(), ..somebody() }, ms(7), &[waits()], ms(900)))
    };
    let find = || record::found(&bench.run(&record::get(&client))).expect("the reply is understood");
    put("old");
    bench.advance(800);
    put("new");
    bench.advance(800);
    assert!(matches!(find(), Some(Found { record, left: Some(left), .. }) if record.host == "new" && left == ms(100)));
    bench.advance(101);
    assert_eq!(find(), None);
}

#[test]
fn a_key_of_another_kind_is_left_alone() {
    Bench::everywhere(|bench| {
        let client = ClientId::new(Uuid::new_v4());
        bench.on("SET", &record::key(&client), &["text"]);
        assert_eq!(record::put_done(&bench.run(&record::put(&client, &somebody(), ms(7), &[], ms(900)))), Ok(false));
        assert_eq!(conflict(record::found(&bench.run(&record::get(&client)))), "string");
        assert_eq!(record::removed(&bench.run(&record::remove(&client))), Ok(false));
        assert_eq!(bench.get(&record::key(&client)), "text");
    });
}
