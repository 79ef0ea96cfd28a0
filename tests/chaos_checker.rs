//! The checker of `tests/chaos/` by itself: it finds what it is there to find. The run that it judges is `cargo xtask chaos`.

#[path = "chaos/check.rs"]
mod check;
#[path = "chaos/history.rs"]
#[expect(dead_code, reason = "its tests read histories, and write none")]
mod history;
#[path = "chaos/lineage.rs"]
#[expect(dead_code, reason = "its tests ask for pairs, and not for rounds")]
mod lineage;
#[path = "chaos/moment.rs"]
#[expect(dead_code, reason = "its tests have instants of their own")]
mod moment;
#[path = "chaos/succession.rs"]
mod succession;

use check::{
    BARE, Bounds, GENERATION, Overlap, confused, hangs, judge, overlaps, tokens, unreported, unwitnessed, within,
};
use history::Op;
use lineage::{Cause, Event, Shard};
use moment::MILLISECOND;
use std::time::{Duration, Instant};
use succession::{Succession, succession};

fn only(text: &str, died: Option<u64>) -> Op {
    let mut ops = history::read("c0", text, died).expect("a history").ops;
    assert_eq!(ops.len(), 1);
    ops.remove(0)
}

#[test]
fn a_belief_ends_with_its_release() {
    let text = "10 1 invoked alone bank:0 1 2000\n20 1 granted 120 7\n90 1 ending 30\n95 1 ended ok\n";
    assert_eq!(only(text, None).belief(), Some((20, 90)));
    // It was renewed since it was last looked at.
    let text = "10 1 invoked alone bank:0 1 -\n20 1 granted 120 7\n190 1 ending 30\n";
    assert_eq!(only(text, None).belief(), Some((20, 190)));
}

#[test]
fn a_belief_ends_with_its_deadline_its_loss_or_its_process() {
    let held = "10 1 invoked alone bank:0 1 -\n20 1 granted 120 7\n50 1 seen 150\n";
    assert_eq!(only(held, None).belief(), Some((20, 150)));
    assert_eq!(only(held, Some(70)).belief(), Some((20, 70)));
    assert_eq!(only(held, Some(700)).belief(), Some((20, 150)));
    assert_eq!(only(&format!("{held}60 1 lost removed\n"), None).belief(), Some((20, 60)));
    assert_eq!(only(&format!("{held}300 1 ending 0\n"), None).belief(), Some((20, 150)));
}

#[test]
fn a_line_that_was_cut_off_is_left_out_and_a_wrong_one_is_not() {
    let op = only("10 1 invoked read rw:0 1 -\n20 1 gran", Some(15));
    assert!(op.granted.is_none() && op.answered().is_none());
    assert!(history::read("c0", "10 1 invoked read rw:0 1 -\n20 1 gran\n", None).is_err());
    assert!(history::read("c0", "10 1 granted 5 5\n", None).is_err());
}

/// A history in which `who` asks, is granted, and begins and ends its release at these instants.
fn held(who: &str, rule: &str, lock: &str, [invoked, granted, ending, ended]: [u64; 4], token: u64) -> Vec<Op> {
    let until = ending + 1_000;
    let text = format!(
        "{invoked} 1 invoked {rule} {lock} 1 100\n{granted} 1 granted {until} {token}\n{ending} 1 ending 1000\n{ended} 1 ended ok\n"
    );
    history::read(who, &text, None).expect("a history").ops
}

fn all(parts: impl IntoIterator<Item = Vec<Op>>) -> Vec<Op> {
    parts.into_iter().flatten().collect()
}

#[test]
fn one_after_the_other_is_no_overlap() {
    let ops = all([held("a", "alone", "x", [0, 10, 20, 30], 0), held("b", "alone", "x", [5, 20, 40, 50], 0)]);
    assert_eq!(overlaps(&ops, 1), []);
}

#[test]
fn two_holders_are_found_whatever_the_order_of_their_histories() {
    let (a, b) = (held("a", "alone", "x", [0, 10, 30, 31], 0), held("b", "alone", "x", [5, 20, 40, 50], 0));
    for ops in [all([a.clone(), b.clone()]), all([b, a])] {
        let found = overlaps(&ops, 1);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].earlier.as_str(), found[0].later.as_str()), ("a#1", "b#1"));
        assert_eq!((found[0].from, found[0].to), (20, 30));
    }
}

#[test]
fn a_long_holder_is_remembered_behind_short_ones() {
    let ops = all([
        held("a", "read", "x", [0, 10, 100, 101], 0),
        held("b", "read", "x", [0, 11, 20, 21], 0),
        held("c", "write", "x", [0, 50, 60, 61], 0),
    ]);
    let found = overlaps(&ops, 1);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].earlier.as_str(), found[0].later.as_str()), ("a#1", "c#1"));
}

#[test]
fn readers_share_and_writers_do_not() {
    let two = |one: &str, other: &str| {
        overlaps(&all([held("a", one, "x", [0, 10, 30, 31], 0), held("b", other, "x", [5, 20, 40, 41], 0)]), 1).len()
    };
    assert_eq!((two("read", "read"), two("read", "write"), two("write", "read"), two("write", "write")), (0, 1, 1, 1));
}

#[test]
fn permits_are_counted() {
    let three = || ["a", "b", "c"].map(|who| held(who, "permits", "x", [0, 10, 30, 31], 0));
    assert_eq!(overlaps(&all(three()), 3), []);
    assert_eq!(overlaps(&all(three()), 2).len(), 2, "the third has come beside two");
}

#[test]
fn different_locks_do_not_exclude_each_other() {
    let ops = all([held("a", "alone", "x", [0, 10, 30, 31], 0), held("b", "alone", "y", [0, 10, 30, 31], 0)]);
    assert_eq!(overlaps(&ops, 1), []);
}

#[test]
fn who_holds_several_excludes_others_from_each() {
    let several = held("a", "alone", "x+y", [0, 10, 30, 31], 0);
    let beside = |lock: &str| overlaps(&all([several.clone(), held("b", "alone", lock, [5, 20, 40, 50], 0)]), 1);
    for lock in ["x", "y", "z+y"] {
        let found = beside(lock);
        assert_eq!(found.len(), 1, "{lock}");
        assert_eq!((found[0].earlier.as_str(), found[0].later.as_str()), ("a#1", "b#1"));
    }
    assert_eq!(beside("z"), []);
    assert_eq!(beside("x+y").len(), 2, "one for each");
}

/// One who asks at 0, and is granted by a server process between two instants.
fn granted_by(who: &str, lock: &str, server: &str, [asked, at]: [u64; 2], token: u64) -> Vec<Op> {
    let text = format!(
        "0 1 invoked alone {lock} 1 -\n{at} 0 executed {asked} {server} h{who} {lock}\n{at} 1 granted 900 {token} h{who}\n\
         700 1 ending 9\n800 1 ended ok\n"
    );
    history::read(who, &text, None).expect("a history").ops
}

/// Two holders at once, by the server processes that granted their locks at 10 to 12 and at 30 to 32.
fn pair(first: &str, second: &str) -> Overlap {
    let ops = all([granted_by("a", "x", first, [10, 12], 0), granted_by("b", "x", second, [30, 32], 0)]);
    assert_eq!(unwitnessed(&ops), [""; 0]);
    overlaps(&ops, 1).remove(0)
}

fn shard(primary: &str, replica: &str) -> Vec<Shard> {
    let processes = [primary, replica].into_iter().filter(|name| !name.is_empty()).map(str::to_owned);
    vec![Shard { processes: processes.collect(), primary: Some(primary.to_owned()) }]
}

/// A primary A whose replica B takes its place, without all of its data or with it.
fn replaced(from: u64, to: u64, cause: Cause) -> Event {
    Event::new((from, to), &shard("A", "B"), &shard("B", "A"), cause, false)
}

#[test]
fn a_pair_of_one_process_that_lost_nothing_is_a_failure() {
    assert_eq!(pair("A", "A").excuse(&[]), None);
    let failover = [replaced(15, 25, Cause::Replaces("failover"))];
    assert_eq!(pair("A", "A").excuse(&failover), None, "A did not lose it by giving way to B");
    assert_eq!(pair("B", "B").excuse(&failover), None);
    let elsewhere = [Event::new((15, 25), &shard("C", ""), &shard("C", ""), Cause::LosesInPlace("evicted"), false)];
    assert_eq!(pair("A", "A").excuse(&elsewhere), None);
}

#[test]
fn a_pair_of_two_named_primaries_is_excused() {
    let failover = [replaced(15, 25, Cause::Replaces("failover"))];
    let excuse = pair("A", "B").excuse(&failover).expect("an excuse");
    assert_eq!((excuse.lost, excuse.processes), ("failover".to_owned(), ["A".to_owned(), "B".to_owned()]));
    assert!(pair("B", "A").excuse(&failover).is_some(), "the old one goes on for a while");
    assert_eq!(pair("A", "C").excuse(&failover), None, "C has nothing to do with it");
    assert_eq!(pair("A", "B").excuse(&[]), None, "two names alone are no excuse");
}

#[test]
fn a_process_that_took_over_with_all_data_is_no_excuse() {
    assert_eq!(pair("A", "B").excuse(&[replaced(15, 25, Cause::Keeps)]), None);
    let restart = |cause| [Event::new((15, 25), &shard("A", ""), &shard("A2", ""), cause, false)];
    assert_eq!(pair("A", "A2").excuse(&restart(Cause::Keeps)), None);
    assert!(pair("A", "A2").excuse(&restart(Cause::Replaces("emptied"))).is_some());
    assert_eq!(pair("A2", "A2").excuse(&restart(Cause::Replaces("emptied"))), None, "both after it");
    let two = |first: &str, second: &str| [shard(first, ""), shard(second, "")].concat();
    let moved = Event::new((15, 25), &two("A", "C"), &two("A", "C"), Cause::Moves, false);
    assert_eq!(pair("A", "C").excuse(std::slice::from_ref(&moved)), None, "a slot moves with its keys");
    let failover = replaced(2, 9, Cause::Replaces("failover"));
    assert_eq!(pair("B", "C").excuse(&[failover, moved]), None, "nothing was lost since");
    let failover = replaced(13, 14, Cause::Replaces("failover"));
    let moved = Event::new((15, 25), &two("B", "C"), &two("B", "C"), Cause::Moves, false);
    assert!(pair("A", "C").excuse(&[failover, moved]).is_some(), "it was lost before its slot moved");
}

#[test]
fn a_loss_between_the_grants_excuses_and_one_before_does_not() {
    let flushed =
        |from, to| [Event::new((from, to), &shard("A", "B"), &shard("A", "B"), Cause::LosesInPlace("flushed"), false)];
    assert!(pair("A", "A").excuse(&flushed(15, 25)).is_some());
    assert_eq!(pair("A", "A").excuse(&flushed(2, 9)), None, "before both");
    assert_eq!(pair("A", "A").excuse(&flushed(33, 40)), None, "after both");
    assert!(pair("A", "A").excuse(&flushed(2, 10)).is_some(), "it may have come first by then");
    let failover = |from, to| pair("A", "B").excuse(&[replaced(from, to, Cause::Replaces("failover"))]);
    assert_eq!(
        [failover(2, 9).is_some(), failover(15, 25).is_some(), failover(33, 40).is_some()],
        [false, true, false]
    );
}

#[test]
fn permits_of_two_primaries_are_counted_for_each() {
    let holds = |who: &str, share: u32, server: &str, at: u64| {
        let text = format!(
            "{at} 1 invoked permits p {share} -\n{at} 0 executed {at} {server} {who} p\n{at} 1 granted 900 0 {who}\n700 1 ending 9\n"
        );
        history::read(who, &text, None).expect("a history").ops
    };
    let failures = |parts: [Vec<Op>; 4], cause| {
        let pairs = overlaps(&all(parts), 3);
        let (excused, failures) = judge(&pairs, &[replaced(15, 25, cause)], 3);
        (excused.len(), failures.len())
    };
    let four =
        |last| [holds("a", 2, "A", 10), holds("b", 1, "B", 30), holds("c", 1, "B", 31), holds("d", last, "B", 32)];
    let failover = Cause::Replaces("failover");
    assert_eq!(failures(four(1), failover), (2, 0), "B has three, and does not know of those of A");
    assert_eq!(failures(four(2), failover), (2, 2), "B has four");
    assert_eq!(failures(four(1), Cause::Keeps), (0, 5), "B knows of those of A");
}

#[test]
fn who_was_primary_twice_has_lost_between() {
    let back = Event::new((22, 25), &shard("B", "A"), &shard("A", "B"), Cause::Replaces("failover"), false);
    let there = replaced(15, 20, Cause::Replaces("failover"));
    assert!(pair("A", "A").excuse(&[there, back]).is_some());
    let unseen = Event::new((15, 25), &shard("A", "B"), &shard("A", "B"), Cause::Replaces("unwanted"), true);
    assert!(pair("A", "B").excuse(std::slice::from_ref(&unseen)).is_some());
    assert_eq!(pair("A", "A").excuse(&[unseen]), None);
}

#[test]
fn a_grant_of_an_unknown_process_is_found_and_excuses_nothing() {
    let unknown = held("a", "alone", "x", [0, 10, 400, 500], 0);
    assert_eq!(unwitnessed(&unknown).len(), 1);
    let ops = all([unknown, granted_by("b", "x", "B", [30, 32], 0)]);
    assert_eq!(overlaps(&ops, 1)[0].excuse(&[replaced(15, 25, Cause::Replaces("failover"))]), None);
}

#[test]
fn a_group_is_granted_by_holds_that_no_other_claims() {
    let text = "0 1 invoked alone x+y 1 -\n0 2 invoked alone x 1 -\n9 0 executed 8 A h1 x\n10 0 gone h1\n12 0 executed 11 A h2 x\n\
                13 1 granted 90 0 h2\n14 0 executed 13 B h3 x\n15 0 executed 14 C h4 y\n16 2 granted 90 0 -\n";
    let text = text.replace("13 1 granted", "13 2 granted").replace("16 2 granted", "16 1 granted");
    let ops = history::read("a", &text, None).expect("a history").ops;
    let servers = |op: &Op, lock: &str| op.executed[lock].iter().map(|one| one.server.clone()).collect::<Vec<_>>();
    assert_eq!((servers(&ops[0], "x"), servers(&ops[0], "y")), (vec!["B".to_owned()], vec!["C".to_owned()]));
    assert_eq!(servers(&ops[1], "x"), ["A"]);
}

#[test]
fn a_hold_that_is_handed_on_keeps_the_process_that_granted_it() {
    let text = "0 1 invoked alone x 1 -\n3 0 executed 2 A h1 x\n4 1 granted 90 0 h1\n5 2 invoked alone x 1 -\n6 1 ending 9\n\
                7 2 granted 90 0 h1\n8 3 invoked alone x+y 1 -\n9 2 ending 9\n10 0 executed 9 B h2 y\n11 3 granted 90 0 -\n\
                12 0 gone h1\n13 4 invoked alone x+y 1 -\n14 4 granted 90 0 -\n15 0 batched 3\n\
                20 5 invoked alone x 1 -\n20 6 invoked alone x+y 1 -\n22 0 executed 21 C h3 x\n23 5 granted 90 0 h3\n24 5 ending 9\n\
                25 6 granted 90 0 -\n";
    let history = history::read("a", text, None).expect("a history");
    let server = |op: usize| history.ops[op].executed["x"].iter().map(|one| one.server.clone()).collect::<String>();
    // The fourth is granted when the hold is gone; the last asked before the hold that it is handed was granted.
    assert_eq!([0, 1, 2, 3, 5].map(server), ["A", "A", "A", "", "C"]);
    assert_eq!([0, 1, 2].map(|op: usize| history.ops[op].was_handed_on()), [false, true, true]);
    assert_eq!(history.batches, [3]);
}

#[test]
fn a_bare_counter_that_was_wrong_once_stays_so() {
    let lock = format!("{BARE}0");
    let ops = all([granted_by("a", &lock, "B", [30, 32], 0), granted_by("b", &lock, "B", [40, 42], 0)]);
    let overlap = &overlaps(&ops, 1)[0];
    assert!(overlap.excuse(&[replaced(15, 25, Cause::Replaces("failover"))]).is_some());
    assert_eq!(overlap.excuse(&[replaced(15, 25, Cause::Keeps)]), None);
    let next = format!("{BARE}1");
    let [first, second] = [GENERATION + 30, GENERATION + 40];
    let late = |who: &str, at: u64| {
        let text = format!(
            "{at} 1 invoked alone {next} 1 -\n{at} 0 executed {at} B h {next}\n{at} 1 granted {} 0 h\n",
            at + 99
        );
        history::read(who, &text, None).expect("a history").ops
    };
    let overlap = &overlaps(&all([late("a", first), late("b", second)]), 1)[0];
    assert_eq!(overlap.excuse(&[replaced(15, 25, Cause::Replaces("failover"))]), None, "the next one is new");
}

#[test]
fn tokens_must_grow() {
    let good = all([held("a", "alone", "x", [0, 10, 20, 21], 5), held("b", "alone", "x", [0, 30, 40, 41], 6)]);
    assert_eq!(tokens(&good, &[]), [""; 0]);
    let twice = all([held("a", "alone", "x", [0, 10, 20, 21], 5), held("b", "alone", "x", [0, 30, 40, 41], 5)]);
    assert_eq!(tokens(&twice, &[]).len(), 1);
    let by = |first: &str, second: &str| {
        let twice = all([granted_by("a", "x", first, [10, 12], 5), granted_by("b", "x", second, [30, 32], 5)]);
        tokens(&twice, &[replaced(15, 25, Cause::Replaces("divided"))]).len()
    };
    // The later one asked before the earlier one was granted, so the order of the two is not known.
    assert_eq!([by("A", "B"), by("A", "A"), by("A", "C")], [0, 1, 1], "two primaries at once");
    let back = all([held("a", "alone", "x", [0, 10, 20, 21], 5), held("b", "alone", "x", [11, 30, 40, 41], 4)]);
    assert_eq!(tokens(&back, &[replaced(0, 90, Cause::Replaces("divided"))]).len(), 1);
    let at_once = all([held("a", "alone", "x", [0, 10, 20, 21], 5), held("b", "alone", "x", [9, 30, 40, 41], 4)]);
    assert_eq!(tokens(&at_once, &[]), [""; 0], "nothing is known of the order of two that were asked for at once");
}

#[test]
fn a_loss_that_its_release_did_not_report_is_found() {
    let text = "0 1 invoked alone x 1 -\n1 1 granted 50 0\n60 1 ending 0\n70 1 ended ok\n";
    let silent = history::read("a", text, None).expect("a history").ops;
    assert_eq!(unreported(&silent).len(), 1);
    let told = history::read("a", &text.replace("ended ok", "ended lost"), None).expect("a history").ops;
    assert_eq!(unreported(&told), [""; 0]);
    assert_eq!(unreported(&held("a", "alone", "x", [0, 1, 2, 3], 0)), [""; 0]);
}

#[test]
fn who_is_told_of_what_is_not_so_is_found() {
    let told = |line: &str| {
        let text = format!("0 1 invoked alone x 1 -\n{line}\n");
        confused(&history::read("a", &text, None).expect("a history").ops).len()
    };
    assert_eq!(["conflict", "other"].map(|word| told(&format!("9 1 refused {word}"))), [1, 1]);
    assert_eq!(["elapsed", "unreachable"].map(|word| told(&format!("9 1 refused {word}"))), [0, 0]);
    assert_eq!(told("1 1 granted 50 0\n2 1 ending 5\n3 1 ended other"), 1);
}

const BOUNDS: Bounds = Bounds {
    acquire: Duration::from_millis(500),
    release: Duration::from_millis(200),
    loss: Duration::from_millis(100),
};

/// The faults in a history whose instants are milliseconds.
fn slow(text: &str, died: Option<u64>, stopped: u64) -> usize {
    let scaled = text.lines().map(|line| {
        let words: Vec<_> = line.split(' ').collect();
        let at = words[0].parse::<u64>().expect("an instant") * MILLISECOND;
        let mut words: Vec<_> = words.into_iter().map(str::to_owned).collect();
        words[0] = at.to_string();
        if words[2] == "granted" {
            words[3] = (words[3].parse::<u64>().expect("a deadline") * MILLISECOND).to_string();
        }
        words.join(" ") + "\n"
    });
    let ops = history::read("a", &scaled.collect::<String>(), died).expect("a history").ops;
    hangs(&ops, BOUNDS, |_, _, _| stopped * MILLISECOND).len()
}

#[test]
fn what_takes_too_long_is_found() {
    assert_eq!(slow("0 1 invoked alone x 1 100\n600 1 refused elapsed\n", None, 0), 0);
    assert_eq!(slow("0 1 invoked alone x 1 100\n601 1 refused elapsed\n", None, 0), 1);
    assert_eq!(slow("0 1 invoked alone x 1 100\n700 1 refused elapsed\n", None, 100), 0, "it was stopped meanwhile");
    assert_eq!(slow("0 1 invoked alone x 1 -\n70000 1 refused unreachable\n", None, 0), 0, "it had no bound");
    let held = "0 1 invoked alone x 1 100\n10 1 granted 90 0\n";
    assert_eq!(slow(&format!("{held}20 1 ending 1\n220 1 ended ok\n"), None, 0), 0);
    assert_eq!(slow(&format!("{held}20 1 ending 1\n221 1 ended ok\n"), None, 0), 1);
    assert_eq!(slow(&format!("{held}190 1 lost removed\n200 1 ending 0\n210 1 ended lost\n"), None, 0), 0);
    assert_eq!(slow(&format!("{held}191 1 lost removed\n200 1 ending 0\n210 1 ended lost\n"), None, 0), 1);
}

#[test]
fn what_never_ends_is_found_unless_its_process_was_killed() {
    for text in [
        "0 1 invoked alone x 1 100\n",
        "0 1 invoked alone x 1 -\n",
        "0 1 invoked alone x 1 -\n1 1 granted 90 0\n",
        "0 1 invoked alone x 1 -\n1 1 granted 90 0\n2 1 ending 5\n",
    ] {
        assert_eq!(slow(text, None, 0), 1, "{text}");
        assert_eq!(slow(text, Some(3), 0), 0, "{text}");
    }
}

#[test]
fn a_loss_that_only_the_release_tells_is_no_late_news() {
    assert_eq!(
        slow(
            "0 1 invoked alone x 1 100\n10 1 granted 90 0\n900 1 ending 0\n990 1 lost removed\n991 1 ended lost\n",
            None,
            0
        ),
        0
    );
}

#[test]
fn stalls_are_told_apart_from_operations() {
    let history = history::read("a", "0 1 invoked alone x 1 -\n90 0 stalled 40\n95 1 refused elapsed\n", None);
    let history = history.expect("a history");
    assert_eq!((history.ops.len(), history.stalls), (1, vec![(40, 90)]));
    let history = history::read("a", "90 0 stuck 30\n", None).expect("a history");
    assert_eq!((history.stalls, history.stuck), (vec![], vec![(30, 90)]));
}

#[test]
fn spans_that_overlap_are_counted_once() {
    assert_eq!(within([(0, 10), (5, 20), (30, 40)], 0, 100), 30);
    assert_eq!(within([(0, 50), (10, 20)], 15, 40), 25);
    assert_eq!(within([(0, 10)], 10, 20), 0);
}

#[test]
fn who_was_told_is_known_of_both() {
    let (a, b) = (held("a", "alone", "x", [0, 10, 30, 31], 0), held("b", "alone", "x", [5, 20, 40, 50], 0));
    let mut ops = all([a, b]);
    assert_eq!(overlaps(&ops, 1)[0].told, [false, false]);
    ops[1].lost = Some((50, "removed".to_owned()));
    assert_eq!(overlaps(&ops, 1)[0].told, [false, true]);
}

#[test]
fn an_instant_lies_between_the_moments_around_it() {
    // The two clocks are paired to some microseconds.
    let slack = MILLISECOND / 50;
    for _ in 0..1_000 {
        let (before, instant, after) = (moment::now(), Instant::now(), moment::now());
        let at = moment::of(instant);
        assert!(before <= at + slack && at <= after + slack, "{before} {at} {after}");
    }
}

/// A candidate that was asked for, leads from then on until its process dies, where it does, and another one that waits since the beginning.
fn leaders(died: u64, follows: Option<u64>) -> Vec<Op> {
    let until = died + 1;
    let first = format!("10 1 invoked alone leader:0 1 -\n20 1 granted {until} 7\n");
    let mut second = "11 1 invoked alone leader:0 1 -\n".to_owned();
    if let Some(at) = follows {
        second += &format!("{at} 1 granted {} 8\n", at + 1_000);
    }
    let mut ops = history::read("c0", &first, Some(died)).expect("a history").ops;
    ops.extend(history::read("c1", &second, None).expect("a history").ops);
    ops
}

#[test]
fn a_leader_that_died_is_followed_within_its_lease_and_a_second() {
    let limits = (Duration::from_secs(2), Duration::from_secs(1));
    let (second, died) = (1_000 * MILLISECOND, 60_000 * MILLISECOND);
    let judge = |follows: Option<u64>, disturbed: &[(u64, u64)], stalled: u64| {
        succession(&leaders(died, follows), limits, disturbed, |_, _, _| stalled)
    };
    let followed = judge(Some(died + 2 * second), &[], 0);
    assert_eq!((followed.followed, followed.longest, followed.late.len()), (1, 2 * second, 0));
    assert_eq!(judge(Some(died + 4 * second), &[], 0).late.len(), 1, "too late");
    assert_eq!(judge(None, &[], 0).late.len(), 1, "never");
    assert_eq!(judge(Some(died + 4 * second), &[], 2 * second).late.len(), 0, "the candidate did not run");
    for disturbed in [(died - second, died - second / 2), (died + second, died + second)] {
        assert_eq!(judge(Some(died + 4 * second), &[disturbed], 0), Succession::default(), "something else went wrong");
    }
    assert_eq!(judge(Some(died + 4 * second), &[(second, 2 * second)], 0).late.len(), 1, "that was long ago");
}
