//! Decoders: a reply that is accepted is one that the script's header shows, and means what it says there.

use crate::source::Source;
use leasehold_core::command::permits::PermitId;
use leasehold_core::command::{
    Acquired, Kind, Listeners, Released, Renewed, any, durable, fair, latch, lock, permits, read_write, record,
    semaphore, store, ticket,
};
use leasehold_core::reply::{DecodeError, Reply};
use leasehold_core::script::{ALL, Script};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Debug;
use std::sync::LazyLock;
use std::time::Duration;

/// The codes that the headers of scripts name. Those that acquire share their codes, and so do those that release: the same decoder
/// reads them for every kind.
static CODES: LazyLock<HashMap<&str, BTreeSet<i64>>> = LazyLock::new(|| {
    let mut all: HashMap<_, BTreeSet<i64>> = HashMap::new();
    for script in ALL {
        all.entry(reader(script)).or_default().extend(codes(script.source()));
    }
    all
});

/// Whose decoder reads what a script answers.
fn reader(script: &Script) -> &'static str {
    match script.name().rsplit_once('/') {
        Some((_, shared @ ("acquire" | "release"))) => shared,
        _ => script.name(),
    }
}

pub(crate) fn check(data: &[u8]) {
    let mut source = Source::new(data);
    let script = ALL[source.below(ALL.len())];
    let reply = source.reply();
    let decoded = decode(script, &reply);
    if let Err(error) = &decoded {
        assert!(error.to_string().len() < 400, "an error is a sentence: {error}");
        return;
    }
    if script.is_renewal() {
        return;
    }
    let code = code(&reply).unwrap_or_else(|| panic!("{}: {reply:?} has no code, and is {decoded:?}", script.name()));
    assert!(CODES[reader(script)].contains(&code), "{}: {reply:?} is {decoded:?}", script.name());
}

/// The meaning of a reply of a script for a client, as text.
pub(crate) fn decode(script: &Script, reply: &Reply) -> Result<String, DecodeError> {
    fn told<T: Debug>(result: Result<T, DecodeError>) -> Result<String, DecodeError> {
        match result {
            Err(DecodeError::OtherKind(kind)) => Ok(kind),
            result => result.map(|value| format!("{value:?}")),
        }
    }
    let acquired =
        |kind: Kind| told(kind.protocol().acquired(reply).inspect(|acquired| check_acquired(reply, acquired)));
    let released =
        |kind: Kind| told(kind.protocol().released(reply).inspect(|released| check_released(reply, *released)));
    match script.name() {
        "lock/acquire" => acquired(Kind::Lock),
        "fenced/acquire" => acquired(Kind::Fenced),
        "simple/acquire" => acquired(Kind::Simple),
        "read/acquire" => acquired(Kind::Read),
        "write/acquire" => acquired(Kind::Write),
        "fair/acquire" => acquired(Kind::Fair),
        "fenced_fair/acquire" => acquired(Kind::FencedFair),
        "semaphore/acquire" => acquired(Kind::Semaphore),
        "permits/acquire" => acquired(Kind::Permits),
        "latch/acquire" => acquired(Kind::Latch),
        "lock/release" => released(Kind::Lock),
        "simple/release" => released(Kind::Simple),
        "read/release" => released(Kind::Read),
        "write/release" => released(Kind::Write),
        "fair/release" => released(Kind::Fair),
        "semaphore/release" => released(Kind::Semaphore),
        "permits/release" => released(Kind::Permits),
        "lock/renew" | "simple/renew" | "read/renew" | "permits/renew" => {
            let holds = reply.array().map_or(0, |parts| parts.len() / 2);
            told(Renewed::decode(reply, holds).inspect(|renewed| check_renewed(reply, renewed)))
        }
        "lock/force_release" => told(lock::forced(reply)),
        "lock/inspect" | "simple/inspect" => told(lock::inspected(reply)),
        "read_write/inspect" => told(read_write::inspected(reply)),
        "fair/beat" => told(fair::beaten(reply)),
        "fair/force_release" => told(lock::forced(reply)),
        "fair/inspect" => told(fair::inspected(reply)),
        "semaphore/set" => told(semaphore::set_done(reply)),
        "semaphore/add" => told(semaphore::added(reply)),
        "semaphore/drain" => told(semaphore::drained(reply)),
        "semaphore/inspect" => told(semaphore::inspected(reply)),
        "permits/give" => told(permits::given(reply)),
        "permits/set" => told(permits::set_done(reply)),
        "permits/resize" => told(permits::resized(reply)),
        "permits/inspect" => told(permits::inspected(reply)),
        "permits/lease" => told(permits::leased(reply, PermitId::of_hold("a:1", 1).next().expect("an id"))),
        "latch/set" => told(latch::set_done(reply)),
        "latch/count_down" => told(latch::counted_down(reply)),
        "latch/inspect" => told(latch::inspected(reply)),
        "latch/delete" => told(latch::deleted(reply)),
        "any/inspect" => told(any::inspected(reply)),
        "record/put" => told(record::put_done(reply)),
        "record/get" => told(record::found(reply)),
        "record/remove" => told(record::removed(reply)),
        "durable/mark" => told(durable::marked(reply)),
        "store/read" => told(store::read_done(reply)),
        "store/write" => told(store::written(reply)),
        "store/check" => told(store::checked(reply)),
        "ticket/offer" => told(ticket::offered(reply)),
        "ticket/adopt" => told(ticket::adopted(Kind::Fenced, reply)),
        other => panic!("{other} has no decoder here: add it"),
    }
}

/// A grant is never made of anything but a grant, and has no longer lease than the server said.
fn check_acquired(reply: &Reply, acquired: &Acquired) {
    let part = |at: usize| reply.array().ok().and_then(|parts| parts.get(at)).and_then(|part| part.int().ok());
    let longest =
        |at: usize| Duration::from_millis(part(at).and_then(|left| u64::try_from(left).ok()).unwrap_or_default());
    let code = part(0);
    match acquired {
        Acquired::Held { left, token, .. } => {
            // An open latch is held for ever.
            assert!(matches!(code, Some(1..=3)), "{reply:?} is no grant");
            assert!(*left == longest(1) || code.is_none(), "{reply:?} has no lease of {left:?}");
            assert!(token.is_none_or(|token| i64::try_from(token).ok() == part(3)), "{reply:?} has no token {token:?}");
        }
        Acquired::Busy { left, .. } => {
            assert!(left.is_none_or(|left| left == longest(1)), "{reply:?} names no time to wait of {left:?}");
            assert!(!matches!(code, Some(1..=3)), "{reply:?} is a grant");
        }
        Acquired::Unset { .. } => assert_eq!((code, part(1)), (Some(0), Some(-2)), "{reply:?}"),
        Acquired::Placed { .. } => assert_eq!(code, Some(4), "{reply:?}"),
        Acquired::Kind(kind) => {
            assert_eq!(reply.array().expect("it is an array")[1].text(), Ok(kind.as_str()), "{reply:?}");
        }
        Acquired::Mismatch => assert_eq!(code, Some(-1), "{reply:?}"),
        Acquired::Lost => assert_eq!(code, Some(-2), "{reply:?}"),
        Acquired::TooLate { .. } => assert_eq!(code, Some(-3), "{reply:?}"),
        Acquired::ExceedsCapacity { capacity } => assert_eq!((code, Some(*capacity)), (Some(-6), part(1)), "{reply:?}"),
        Acquired::Withdrawn => assert_eq!(code, Some(-7), "{reply:?}"),
        Acquired::UpgradeNotSupported => assert_eq!(code, Some(-8), "{reply:?}"),
    }
}

fn check_released(reply: &Reply, released: Released) {
    let Ok(code) = reply.int() else { panic!("{reply:?} is no integer, and is {released:?}") };
    let ended = matches!(released, Released::Ended | Released::EndedBefore(_));
    assert_eq!(ended, matches!(code, 1 | 5..=7), "{reply:?} is {released:?}");
    if let Released::EndedBefore(listeners) = released {
        let told = match listeners {
            Listeners::None => 1,
            Listeners::One => 6,
            Listeners::Several => 7,
        };
        assert_eq!(code, told, "{reply:?} is {released:?}");
    }
    assert_eq!(released == Released::Lowered, (2..=4).contains(&code), "{reply:?} is {released:?}");
}

fn check_renewed(reply: &Reply, renewed: &[Renewed]) {
    let parts = reply.array().expect("a renewal is an array");
    for (pair, renewed) in parts.chunks(2).zip(renewed) {
        if let Renewed::Held { count, left } = renewed {
            let [stored, lease] = pair else { panic!("{reply:?} is no pairs") };
            assert!(*count > 0 && stored.int() == Ok(i64::from(*count)), "{reply:?} has no count {count}");
            let told = u64::try_from(lease.int().expect("it is a number")).unwrap_or_default();
            assert_eq!(*left, Duration::from_millis(told), "{reply:?}");
        }
    }
}

fn code(reply: &Reply) -> Option<i64> {
    match reply {
        Reply::Array(parts) => parts.first()?.int().ok(),
        other => other.int().ok(),
    }
}

/// The codes in the part `returns` of the header that stands last in a text.
fn codes(source: &str) -> BTreeSet<i64> {
    let returns = source.rfind("\n-- returns ").expect("a script says what it returns");
    let lines = source[returns + 1..].lines().take_while(|line| line.starts_with("-- "));
    let lines = lines.take_while(|line| !line.starts_with("-- where") && !line.starts_with("-- example"));
    lines
        .filter_map(|line| {
            let row =
                line.split_once(']').filter(|(front, _)| front.contains("returns")).map_or(&line[2..], |(_, row)| row);
            let row = row.trim_start();
            match row.strip_prefix('{') {
                Some(inside) => inside.split([',', '}']).next()?.trim().parse().ok(),
                None => row.split_once("  ").and_then(|(code, _)| code.parse().ok()),
            }
        })
        .collect()
}
