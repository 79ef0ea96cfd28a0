//! Patterns of names, as in `SCAN` of Redis.
//!
//! `*` matches any text, and `?` any byte. `[abc]` and `[a-z]` match a byte of a set, and `[^a]` a byte outside of it.
//! A backslash escapes the next byte. A set without an end extends to the end of the pattern.

/// Returns whether the whole name matches the pattern. The number of steps is at most the product of both lengths.
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut seen) = (0, 0);
    // The last `*`, and the length of its current match.
    let mut star: Option<(usize, usize)> = None;
    while seen < name.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at + 1, seen));
            at += 1;
            continue;
        }
        if let Some(length) = one(&pattern[at..], name[seen]) {
            at += length;
            seen += 1;
            continue;
        }
        let Some((after, taken)) = star else { return false };
        star = Some((after, taken + 1));
        (at, seen) = (after, taken + 1);
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// The pattern that matches only `text`.
pub fn escaped(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for letter in text.chars() {
        if matches!(letter, '*' | '?' | '[' | ']' | '\\' | '^') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}

/// The length of the pattern's first element if it matches this byte. The element must not be `*`.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'\\', literal, ..] => (*literal == byte).then_some(2),
        [b'[', set @ ..] => set_fits(set, byte).map(|length| length + 1),
        [literal, ..] => (*literal == byte).then_some(1),
    }
}

/// The length of a set after its bracket, if it matches the byte.
fn set_fits(set: &[u8], byte: u8) -> Option<usize> {
    let is_negated = set.first() == Some(&b'^');
    let mut at = usize::from(is_negated);
    let mut is_in = false;
    loop {
        match &set[at..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', literal, ..] => {
                is_in |= *literal == byte;
                at += 2;
            }
            [first, b'-', last, ..] => {
                is_in |= (*first.min(last)..=*first.max(last)).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                is_in |= *literal == byte;
                at += 1;
            }
        }
    }
    (is_in != is_negated).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_read_as_the_servers_read_them() {
        for (pattern, fits, others) in [
            ("", &[""][..], &["a"][..]),
            ("*", &["", "a", "a*b"], &[]),
            ("stock:*", &["stock:", "stock:1"], &["stock", "a:stock:1"]),
            ("a*b*c", &["abc", "axxbyyc", "abcbc"], &["abd", "ac", "abcx"]),
            ("a?c", &["abc", "a?c"], &["ac", "abbc"]),
            ("a[bc]d", &["abd", "acd"], &["aed", "abcd"]),
            ("a[^b]d", &["acd"], &["abd", "ad"]),
            ("a[c-a]d", &["abd", "aad"], &["add"]),
            (r"a\*c", &["a*c"], &["abc"]),
            (r"a[\]]c", &["a]c"], &[r"a\c"]),
            ("a[bc", &["ab", "ac"], &["a", "abc"]),
            (r"a\", &[r"a\"], &["a"]),
            ("***a", &["a", "ba"], &["ab"]),
        ] {
            for name in fits {
                assert!(matches(pattern.as_bytes(), name.as_bytes()), "{name:?} fits {pattern:?}");
            }
            for name in others {
                assert!(!matches(pattern.as_bytes(), name.as_bytes()), "{name:?} does not fit {pattern:?}");
            }
        }
    }

    #[test]
    fn an_escaped_text_fits_itself_alone() {
        for text in ["stock", "a*b?c[d]e\\f", "^[", "é*", "[^a-z]"] {
            let pattern = escaped(text);
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern}");
            assert!(!matches(pattern.as_bytes(), "other".as_bytes()) && !matches(pattern.as_bytes(), b""));
        }
        assert!(!matches(escaped("a*").as_bytes(), b"ab"));
    }

    #[test]
    fn a_pattern_of_many_stars_ends_soon() {
        let (pattern, name) = ("*a".repeat(200), "a".repeat(199));
        assert!(!matches(pattern.as_bytes(), name.as_bytes()));
    }
}
