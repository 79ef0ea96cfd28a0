//! The calls in the command of a batch.

use super::commands::CALL;
use super::trace::Number;

/// The number and the first key of each call in a batch; `None` where the command is none. A call of the worlds has one key, and its number as
/// its only argument.
pub(super) fn calls<'a>(words: &[&'a str]) -> Option<Vec<(Number, &'a str)>> {
    let [_, _, count, rest @ ..] = words else { return None };
    let (keys, args) = rest.split_at_checked(count.parse().ok()?)?;
    if args.len() != 4 * keys.len() {
        return None;
    }
    let call = |(key, arg): (&&'a str, &[&str])| {
        let [_, "1", "1", call] = arg else { return None };
        Some((call.strip_prefix(CALL)?.parse().ok()?, *key))
    };
    keys.iter().zip(args.chunks_exact(4)).map(call).collect()
}
