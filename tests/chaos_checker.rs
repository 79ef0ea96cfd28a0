//! The checker of `tests/chaos/` by itself: it finds what it is there to find. The run that it judges is `cargo xtask chaos`.

#[path = "chaos/check.rs"]
mod check;
#[path = "chaos/history.rs"]
#[expect(dead_code, reason = "its tests read histories, and write none")]
mod history;
#[path = "chaos/moment.rs"]
#[expect(dead_code, reason = "its tests have instants of their own")]
mod moment;

use check::{Bounds, Window, confused, hangs, overlaps, tokens, unreported, untold, within};
use history::Op;
use moment::MILLISECOND;
use std::time::Duration;

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

#[test]
fn a_window_explains_what_begins_within_it_and_nothing_else() {
    let ops = all([held("a", "alone", "x", [0, 10, 30, 31], 0), held("b", "alone", "x", [5, 20, 40, 50], 0)]);
    let overlap = &overlaps(&ops, 1)[0];
    let explained = |from, to| overlap.is_explained(&[Window { from, to }]);
    assert!(explained(0, 25) && explained(20, 20) && explained(0, 90));
    assert!(!explained(0, 19) && !explained(21, 26) && !explained(31, 90), "what is lost later is no reason");
}

#[test]
fn tokens_must_grow() {
    let good = all([held("a", "alone", "x", [0, 10, 20, 21], 5), held("b", "alone", "x", [0, 30, 40, 41], 6)]);
    assert_eq!(tokens(&good, &[]), [""; 0]);
    let twice = all([held("a", "alone", "x", [0, 10, 20, 21], 5), held("b", "alone", "x", [0, 30, 40, 41], 5)]);
    assert_eq!(tokens(&twice, &[]).len(), 1);
    let within = |from, to| tokens(&twice, &[Window { from, to }]).len();
    assert_eq!([within(10, 30), within(11, 30), within(10, 29)], [0, 1, 1], "two primaries at once");
    let back = all([held("a", "alone", "x", [0, 10, 20, 21], 5), held("b", "alone", "x", [11, 30, 40, 41], 4)]);
    assert_eq!(tokens(&back, &[Window { from: 0, to: 90 }]).len(), 1);
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
}

#[test]
fn spans_that_overlap_are_counted_once() {
    assert_eq!(within([(0, 10), (5, 20), (30, 40)], 0, 100), 30);
    assert_eq!(within([(0, 50), (10, 20)], 15, 40), 25);
    assert_eq!(within([(0, 10)], 10, 20), 0);
}

#[test]
fn two_that_were_both_told_nothing_are_counted() {
    let (a, b) = (held("a", "alone", "x", [0, 10, 30, 31], 0), held("b", "alone", "x", [5, 20, 40, 50], 0));
    let count = |ops: &[Op]| untold(ops, &overlaps(ops, 1).iter().collect::<Vec<_>>());
    let mut ops = all([a, b]);
    assert_eq!(count(&ops), 1);
    ops[1].ended = Some((50, "lost".to_owned()));
    assert_eq!(count(&ops), 0);
}
