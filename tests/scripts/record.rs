//! The record of a client.

use crate::support::{Bench, ms};
use leasehold_core::command::record::{self, ClientRecord, Found};
use leasehold_core::owner::ClientId;
use uuid::Uuid;

fn somebody() -> ClientRecord {
    ClientRecord { host: "web-3".into(), pid: 4711, application: "orders €".into(), since: 1_800_000_000_000 }
}

#[test]
fn a_record_is_there_until_it_is_removed() {
    Bench::everywhere(|bench| {
        let client = ClientId::new(Uuid::new_v4());
        let find = || record::found(&bench.run(&record::get(&client))).expect("the reply is understood");
        assert_eq!(find(), Found::Absent);
        let put = record::put(&client, &somebody(), ms(600_000));
        assert_eq!(record::put_done(&bench.run(&put)), Ok(true));
        let Found::Record { record, left: Some(left) } = find() else { panic!("there is a record, with an end") };
        assert_eq!(record, somebody());
        assert!(left <= ms(600_000) && left > ms(500_000), "{left:?}");
        assert_eq!(record::removed(&bench.run(&record::remove(&client))), Ok(true));
        assert_eq!(record::removed(&bench.run(&record::remove(&client))), Ok(false));
        assert_eq!(find(), Found::Absent);
    });
}

#[test]
fn a_record_that_is_not_written_again_goes_away() {
    let bench = Bench::embedded();
    let client = ClientId::new(Uuid::from_u128(7));
    let put = |host: &str| bench.run(&record::put(&client, &ClientRecord { host: host.into(), ..somebody() }, ms(900)));
    let find = || record::found(&bench.run(&record::get(&client))).expect("the reply is understood");
    put("old");
    bench.advance(800);
    put("new");
    bench.advance(800);
    assert!(matches!(find(), Found::Record { record, left: Some(left) } if record.host == "new" && left == ms(100)));
    bench.advance(101);
    assert_eq!(find(), Found::Absent);
}

#[test]
fn a_key_of_another_kind_is_left_alone() {
    Bench::everywhere(|bench| {
        let client = ClientId::new(Uuid::new_v4());
        bench.on("SET", &record::key(&client), &["text"]);
        assert_eq!(record::put_done(&bench.run(&record::put(&client, &somebody(), ms(900)))), Ok(false));
        assert_eq!(record::found(&bench.run(&record::get(&client))), Ok(Found::Kind("string".into())));
        assert_eq!(record::removed(&bench.run(&record::remove(&client))), Ok(false));
        assert_eq!(bench.get(&record::key(&client)), "text");
    });
}
