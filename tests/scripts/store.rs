//! The fenced store: who is admitted, and what a late copy can do.

use crate::support::{Bench, conflict, ms, once};
use bytes::Bytes;
use leasehold_core::command::store::{self, Claim, Fenced, Written};
use leasehold_core::name::LockName;
use leasehold_core::reply::Reply;
use std::time::Duration;

/// A guarded value, and what one holder does with it.
struct Holder<'a> {
    bench: &'a Bench,
    data: &'a LockName,
    token: u64,
    owner: Bytes,
    keep: Option<Duration>,
}

impl<'a> Holder<'a> {
    fn new(bench: &'a Bench, data: &'a LockName, token: u64) -> Self {
        Self { bench, data, token, owner: once(), keep: None }
    }

    fn claim(&self) -> Claim<'_> {
        Claim { token: self.token, owner: &self.owner, keep: self.keep }
    }

    #[track_caller]
    fn read(&self) -> Fenced<Option<Bytes>> {
        store::read_done(&self.bench.run(&store::read(self.data, &self.claim()))).expect("the reply is understood")
    }

    #[track_caller]
    fn write(&self, number: u64, value: &'static str) -> Fenced<Written> {
        let call = store::write(self.data, &self.claim(), number, Bytes::from_static(value.as_bytes()), None);
        store::written(&self.bench.run(&call)).expect("the reply is understood")
    }

    #[track_caller]
    fn check(&self) -> Fenced<()> {
        store::checked(&self.bench.run(&store::check(self.data, &self.claim()))).expect("the reply is understood")
    }
}

#[test]
fn a_stale_token_neither_reads_nor_writes() {
    Bench::everywhere(|bench| {
        let data = bench.name("balance");
        let (old, new) = (Holder::new(bench, &data, 33), Holder::new(bench, &data, 34));
        assert_eq!(old.read(), Fenced::Admitted(None));
        assert_eq!(old.write(1, "100"), Fenced::Admitted(Written::Now));
        assert_eq!(new.read(), Fenced::Admitted(Some("100".into())), "the first read registers the token");
        assert_eq!(old.write(2, "90"), Fenced::Stale { registered: 34 });
        assert_eq!(old.read(), Fenced::Stale { registered: 34 });
        assert_eq!(old.check(), Fenced::Stale { registered: 34 });
        assert_eq!(new.write(1, "80"), Fenced::Admitted(Written::Now));
        assert_eq!(bench.get(data.key()), "80");
        assert_eq!(new.read(), Fenced::Admitted(Some("80".into())));
    });
}

#[test]
fn a_write_or_a_check_registers_as_well() {
    Bench::everywhere(|bench| {
        for registers in [(|holder: &Holder<'_>| _ = holder.write(1, "1")) as fn(&Holder<'_>), |holder| {
            assert_eq!(holder.check(), Fenced::Admitted(()))
        }] {
            let data = bench.name("balance");
            registers(&Holder::new(bench, &data, 8));
            assert_eq!(Holder::new(bench, &data, 7).read(), Fenced::Stale { registered: 8 });
        }
    });
}

#[test]
fn a_token_that_was_granted_twice_is_refused_to_the_second() {
    Bench::everywhere(|bench| {
        let data = bench.name("balance");
        let token = 1 << 53;
        let (first, second) = (Holder::new(bench, &data, token), Holder::new(bench, &data, token));
        assert_eq!(first.check(), Fenced::Admitted(()));
        assert_eq!(second.read(), Fenced::Twice { registered: token });
        assert_eq!(second.write(1, "2"), Fenced::Twice { registered: token });
        assert_eq!(second.check(), Fenced::Twice { registered: token });
        assert_eq!(first.write(1, "1"), Fenced::Admitted(Written::Now));
        assert_eq!(bench.get(data.key()), "1");
    });
}

#[test]
fn a_late_copy_of_a_write_does_not_undo_a_later_one() {
    Bench::everywhere(|bench| {
        let data = bench.name("balance");
        let holder = Holder::new(bench, &data, 5);
        holder.write(1, "first");
        holder.write(2, "second");
        holder.read();
        assert_eq!(holder.write(1, "first"), Fenced::Admitted(Written::Before));
        assert_eq!(holder.write(2, "second"), Fenced::Admitted(Written::Before));
        assert_eq!(bench.get(data.key()), "second");
        assert_eq!(holder.write(4, "fourth"), Fenced::Admitted(Written::Now));
        let next = Holder::new(bench, &data, 6);
        assert_eq!(next.write(1, "next"), Fenced::Admitted(Written::Now), "each hold counts its own writes");
        assert_eq!(bench.get(data.key()), "next");
    });
}

#[test]
fn a_register_ends_only_where_it_was_asked_to() {
    let bench = Bench::embedded();
    let data = bench.name("balance");
    let fence = store::fence_key(&data);
    let mut holder = Holder::new(&bench, &data, 5);
    holder.check();
    assert_eq!(bench.on("PTTL", &fence, &[]), Reply::Int(-1));
    holder.keep = Some(ms(4_000));
    holder.read();
    assert_eq!(bench.on("PTTL", &fence, &[]), Reply::Int(4_000));
    let call = store::write(&data, &Claim { keep: None, ..holder.claim() }, 1, "1".into(), Some(ms(700)));
    bench.run(&call);
    assert_eq!(bench.on("PTTL", &fence, &[]), Reply::Int(-1));
    assert_eq!(bench.on("PTTL", data.key(), &[]), Reply::Int(700), "the value has an end of its own");
    bench.advance(701);
    assert_eq!(holder.read(), Fenced::Admitted(None));
    assert_eq!(Holder::new(&bench, &data, 4).read(), Fenced::Stale { registered: 5 });
}

#[test]
fn a_key_of_another_kind_is_named() {
    Bench::everywhere(|bench| {
        let data = bench.name("balance");
        let holder = Holder::new(bench, &data, 5);
        bench.on("HSET", data.key(), &["f", "1"]);
        let write = store::write(&data, &holder.claim(), 1, "1".into(), None);
        assert_eq!(conflict(store::read_done(&bench.run(&store::read(&data, &holder.claim())))), "hash");
        assert_eq!(conflict(store::written(&bench.run(&write))), "hash");
        bench.on("DEL", data.key(), &[]);
        bench.on("SET", &store::fence_key(&data), &["text"]);
        assert_eq!(conflict(store::read_done(&bench.run(&store::read(&data, &holder.claim())))), "string");
        assert_eq!(conflict(store::written(&bench.run(&write))), "string");
        assert_eq!(conflict(store::checked(&bench.run(&store::check(&data, &holder.claim())))), "string");
        assert!(!bench.exists(data.key()));
    });
}
