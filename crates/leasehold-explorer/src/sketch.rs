//! The part of a client that has a bearing on its further steps.
//!
//! A client is the same as another where its `Debug` text is, but for what this module rewrites or leaves out:
//!
//! - **Instants** are told from the present: a session compares them with each other and with the present, and adds durations to them. If
//!   it rounds them, it is to whole milliseconds; the place of the present within its millisecond is part of the text.
//! - **Tickets, calls and owners** have increasing numbers. A session only compares them, so the text keeps their order and drops their
//!   values.
//! - **Random numbers** are drawn anew for every step.
//! - **Answered calls** are left out: the session skips them at their deadline.
//! - **The server's clock** is only read for limits to first grants, which no kind of a small world has. **When an acquire began**
//!   matters where it is tried once. **When a hold was acquired** is only told to users. **When something was settled last** matters
//!   to calls that could not be sent, of which there are none.
//! - **That another client has wanted the lock** has a bearing for a second.
//! - **How often a hold that lingered was taken** is only told to users.
//! - **Instants from which something may be done**, where they have passed, and addresses of wakers.

use super::pool::Text;
use leasehold_core::time::Instant;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

/// Numbers of the session's one counter.
const NUMBERS: [&str; 3] = ["Ticket(", "CallId(", "OwnerId("];

/// Fields that have no bearing on anything here.
const IDLE: [&str; 7] = ["rng:", "last_id:", "server_clock:", "started:", "acquired_at:", "answered_at:", "resumed:"];

/// Fields that say from when on something may be done.
const FROM: [&str; 2] = ["not_before:Instant(", "until:Instant("];

/// The field for the locks that other clients have wanted, and for how long a session goes by it.
const CONTENDED: &str = "contended:";
const LATELY: Duration = Duration::from_secs(1);

/// A 128-bit hash of a client's `Debug` output `text`.
pub(crate) fn sketch(text: &str, now: Instant) -> u128 {
    let mut hash = Text::default();
    hash.write_str(&rewritten(text, now)).expect("text can be hashed");
    hash.finish()
}

fn rewritten(text: &str, now: Instant) -> String {
    let bare = without_answered(&without_idle(&text.split([' ', '\n']).collect::<String>()));
    let bare = without_forgotten(&bare, now);
    let order: BTreeSet<u64> = NUMBERS.iter().flat_map(|head| numbers_after(&bare, head)).collect();
    let rank = |number: u64| order.range(..number).count();
    let mut out = format!("{}|", now.as_nanos() % 1_000_000);
    // What is before `copied` is in the new text already.
    let (mut copied, mut at) = (0, 0);
    while at < bare.len() {
        let head = |heads: &[&str]| head_at(&bare, at, heads).map(str::len);
        let from = head(&FROM);
        if let Some(length) = from.or_else(|| head(&["Instant(", "deadline:"])) {
            let (number, after) = split_number(&bare[at + length..]);
            out.push_str(&bare[copied..at + length]);
            if let Some(number) = number {
                out.push_str(&from_now(number, now, from.is_some()));
            }
            at = bare.len() - after.len();
            copied = at;
        } else if let Some(length) = head(&NUMBERS) {
            let (number, after) = split_number(&bare[at + length..]);
            let before = &bare[copied..at + length];
            write!(out, "{before}{}", number.map_or(0, rank)).expect("text can be written");
            at = bare.len() - after.len();
            copied = at;
        } else if let Some(length) = head(&["0x"]) {
            out.push_str(&bare[copied..at]);
            let after = bare[at + length..].trim_start_matches(|digit: char| digit.is_ascii_hexdigit());
            at = bare.len() - after.len();
            copied = at;
        } else {
            at += 1;
        }
    }
    out.push_str(&bare[copied..]);
    out
}

/// Which of these begins at a byte of the text.
fn head_at<'a>(text: &str, at: usize, heads: &[&'a str]) -> Option<&'a str> {
    let (text, first) = (text.as_bytes(), text.as_bytes()[at]);
    heads.iter().copied().find(|head| head.as_bytes()[0] == first && text[at..].starts_with(head.as_bytes()))
}

/// An instant, told from the present. A part that was never set, and one that never comes, stays what it is.
fn from_now(nanos: u64, now: Instant, has_come: bool) -> String {
    if nanos == 0 || nanos == Instant::FAR_FUTURE.as_nanos() {
        return nanos.to_string();
    }
    let from_now = i128::from(nanos) - i128::from(now.as_nanos());
    if has_come { from_now.max(0).to_string() } else { format!("{from_now:+}") }
}

fn split_number(text: &str) -> (Option<u64>, &str) {
    let end = text.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(text.len());
    (text[..end].parse().ok(), &text[end..])
}

fn numbers_after<'a>(text: &'a str, head: &'a str) -> impl Iterator<Item = u64> + 'a {
    text.match_indices(head).filter_map(move |(at, _)| split_number(&text[at + head.len()..]).0)
}

/// The end of the value that begins here: at the comma behind it, or at the end of what it is in.
fn value_end(text: &str) -> usize {
    let mut depth = 0usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' if depth == 0 => return at,
            b')' | b']' | b'}' => depth -= 1,
            b',' if depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}

fn without_idle(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut copied, mut at) = (0, 0);
    while at < text.len() {
        let begins = at == 0 || matches!(text.as_bytes()[at - 1], b'{' | b',');
        if let Some(head) = head_at(text, at, &IDLE).filter(|_| begins) {
            at += head.len();
            out.push_str(&text[copied..at]);
            at += value_end(&text[at..]);
            copied = at;
        } else {
            at += 1;
        }
    }
    out.push_str(&text[copied..]);
    out
}

/// A field with this name, and none whose name ends with it.
fn find_field(text: &str, head: &str) -> Option<usize> {
    let is_whole = |at: &usize| *at == 0 || matches!(text.as_bytes()[at - 1], b'{' | b',');
    text.match_indices(head).map(|(at, _)| at).find(is_whole)
}

/// Removes the deadlines of answered calls from the text.
fn without_answered(text: &str) -> String {
    let Some(at) = find_field(text, "by_deadline:[") else { return text.to_owned() };
    let from = at + "by_deadline:[".len();
    let list = &text[from..from + value_end(&text[from - 1..]) - 2];
    let mut kept = String::new();
    let mut rest = list;
    while !rest.is_empty() {
        let end = value_end(rest);
        let entry = &rest[..end];
        rest = rest[end..].trim_start_matches(',');
        let id = numbers_after(entry, "CallId(").next();
        let is_open = id.is_some_and(|id| text.contains(&format!("CallId({id}):")));
        if is_open {
            kept.push_str(entry);
            kept.push(',');
        }
    }
    format!("{}{kept}{}", &text[..from], &text[from + list.len()..])
}

/// The text without the memory that another client has wanted the one lock, where the session does not go by it any more.
fn without_forgotten(text: &str, now: Instant) -> String {
    let Some(at) = find_field(text, CONTENDED) else { return text.to_owned() };
    let from = at + CONTENDED.len();
    let end = from + value_end(&text[from..]);
    let counts = |nanos: u64| now.since(Instant::from_nanos(nanos)) < LATELY;
    if numbers_after(&text[from..end], "Instant(").any(counts) {
        return text.to_owned();
    }
    format!("{}{}", &text[..from], &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_nanos(2_000_000_000);

    fn same(one: &str, other: &str) -> bool {
        sketch(one, NOW) == sketch(other, NOW + Duration::from_millis(3))
    }

    #[test]
    fn what_is_told_from_the_present_is_the_same_later() {
        assert!(same("A{at:Instant(2000000005)}", "A{at:Instant(2003000005)}"));
        assert!(!same("A{at:Instant(2000000005)}", "A{at:Instant(2000000005)}"));
        assert!(same("A{deadline:1999999999}", "A{deadline:2002999999}"));
        assert!(same("A{at:Instant(18446744073709551614)}", "A{at:Instant(18446744073709551614)}"));
        let odd = NOW + Duration::from_micros(1);
        assert_ne!(sketch("A{}", NOW), sketch("A{}", odd), "the place in the millisecond");
    }

    #[test]
    fn numbers_keep_their_order_and_not_their_values() {
        assert!(same("[Ticket(3),CallId(7),Ticket(3)]", "[Ticket(4),CallId(9),Ticket(4)]"));
        assert!(!same("[Ticket(3),CallId(7)]", "[Ticket(9),CallId(7)]"));
        assert!(!same("[HoldNumber(1)]", "[HoldNumber(2)]"), "the server knows them");
    }

    #[test]
    fn what_has_no_bearing_is_left_out_and_its_namesakes_are_not() {
        assert!(same("A{started:Instant(5),last:1}", "A{started:Instant(6),last:1}"));
        assert!(!same("A{restarted:1}", "A{restarted:2}"));
        assert!(same("A{not_before:Instant(5)}", "A{not_before:Instant(1999999999)}"));
        assert!(!same("A{not_before:Instant(5)}", "A{not_before:Instant(3000000000)}"));
    }

    #[test]
    fn a_wish_of_others_counts_for_a_second() {
        let text = |nanos: u64| format!("A{{contended:Contended({{b\"lock\":Instant({nanos})}}),next:1}}");
        assert_ne!(sketch(&text(1_000_000_001), NOW), sketch(&text(1_500_000_000), NOW));
        assert_eq!(sketch(&text(1_000_000_000), NOW), sketch(&text(5), NOW));
    }

    #[test]
    fn deadlines_of_calls_count_until_they_are_answered() {
        let text = |calls: &str| format!("S{{by_deadline:[{calls}],calls:{{CallId(8):Record}}}}");
        let entry = |id| format!("(Instant(2000000000),CallId({id})),");
        let all = text(&format!("{}{}{}", entry(6), entry(8), entry(7)));
        assert_eq!(sketch(&all, NOW), sketch(&text(&entry(8)), NOW));
        assert_ne!(sketch(&all, NOW), sketch(&text(""), NOW));
    }
}
