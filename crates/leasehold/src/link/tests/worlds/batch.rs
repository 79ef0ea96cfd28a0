//! Parses the calls of a batch command.

use super::commands::CALL;
use super::trace::Number;

/// The number and the first key of each call in a batch; `None` for another command. A call of the worlds has a single
/// key, and its number as the only argument.
pub(super) fn calls<'a>(words: &[&'a str]) -> Option<Vec<(Number, &'a str)>> {
    let [_, _, count, rest @ ..] = words else { return None };
    let (keys, args) = rest.split_at_checked(count.parse().ok()?)?;
    let [plan, args @ ..] = args else { return None };
    if args.len() != keys.len() || plan.len() != 3 * keys.len() {
        return None;
    }
    let call = |((key, arg), plan): ((&&'a str, &&str), &[u8])| {
        let [_, b'1', b'1'] = plan else { return None };
        Some((arg.strip_prefix(CALL)?.parse().ok()?, *key))
    };
    keys.iter().zip(args).zip(plan.as_bytes().chunks_exact(3)).map(call).collect()
}
