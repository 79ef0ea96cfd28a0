//! The parts of a world that can be left out, and which of them are.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// A chance that things go wrong, by the name that a mask calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Chance(pub(crate) &'static str);

/// Every chance of a world.
pub(crate) const CHANCES: [&str; 17] = [
    "late",
    "never",
    "dropped",
    "spike",
    "lose_request",
    "lose_reply",
    "swallow",
    "not_sent",
    "refuse",
    "inside",
    "copy_now",
    "copy_late",
    "unproven",
    "settle_fails",
    "subscribe_fails",
    "lose_notice",
    "worst_instant",
];

/// A part of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// All that the users of a client do.
    Client(u32),
    /// All that is done with a lock.
    Lock(u32),
    Chance(Chance),
    /// A fault that was planned, with its end.
    Fault(u32),
    /// The acquire that a user starts, or its count of a latch.
    Operation(u32),
    /// The release, drop or detachment of what that operation acquired, while the world is disturbed.
    GiveBack(u32),
    /// All that a thread of a JVM does.
    Jvm(u32),
}

impl Part {
    /// The letter of a sort whose parts have numbers, and the number.
    const fn numbered(self) -> Option<(char, u32)> {
        match self {
            Self::Client(number) => Some(('c', number)),
            Self::Lock(number) => Some(('l', number)),
            Self::Chance(_) => None,
            Self::Fault(number) => Some(('f', number)),
            Self::Operation(number) => Some(('o', number)),
            Self::GiveBack(number) => Some(('g', number)),
            Self::Jvm(number) => Some(('j', number)),
        }
    }
}

/// The parts of a world that are left out. Its text is as `o3,o7-12,f2,c1,rates:lose_notice`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mask {
    parts: BTreeSet<Part>,
}

impl Mask {
    pub(crate) fn has(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }

    /// The same, and without these parts, too.
    pub(crate) fn and(&self, parts: impl IntoIterator<Item = Part>) -> Self {
        Self { parts: self.parts.iter().copied().chain(parts).collect() }
    }
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        let mut parts = self.parts.iter().copied().peekable();
        while let Some(part) = parts.next() {
            let Some((letter, first)) = part.numbered() else {
                let Part::Chance(Chance(name)) = part else { continue };
                words.push(format!("rates:{name}"));
                continue;
            };
            let mut last = first;
            while parts.next_if(|next| next.numbered() == Some((letter, last + 1))).is_some() {
                last += 1;
            }
            words.push(if first == last { format!("{letter}{first}") } else { format!("{letter}{first}-{last}") });
        }
        f.write_str(&words.join(","))
    }
}

/// A range in a mask is no longer than this.
const LONGEST: u32 = 10_000;

impl FromStr for Mask {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = BTreeSet::new();
        for word in text.split(',').filter(|word| !word.is_empty()) {
            if let Some(name) = word.strip_prefix("rates:") {
                let known = CHANCES.into_iter().find(|known| *known == name);
                let known = known.ok_or_else(|| format!("`{name}` is none of {}", CHANCES.join(", ")))?;
                parts.insert(Part::Chance(Chance(known)));
                continue;
            }
            let wrong = || format!("`{word}` is not as `o3`, `o7-12` or `rates:lose_notice`");
            let sort = match word.chars().next() {
                Some('c') => Part::Client,
                Some('l') => Part::Lock,
                Some('f') => Part::Fault,
                Some('o') => Part::Operation,
                Some('g') => Part::GiveBack,
                Some('j') => Part::Jvm,
                _ => return Err(wrong()),
            };
            let numbers = &word[1..];
            let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
            let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) else { return Err(wrong()) };
            if last < first || last - first > LONGEST {
                return Err(wrong());
            }
            parts.extend((first..=last).map(sort));
        }
        Ok(Self { parts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_read_as_it_is_written() {
        let parts = [3, 7, 8, 9, 12].map(Part::Operation);
        let others = [Part::Client(1), Part::Lock(0), Part::Fault(2), Part::GiveBack(112)];
        let mask = Mask::default().and(parts).and(others).and([Part::Chance(Chance("lose_notice"))]);
        let text = mask.to_string();
        assert_eq!(text, "c1,l0,rates:lose_notice,f2,o3,o7-9,o12,g112");
        assert_eq!(text.parse(), Ok(mask));
        assert_eq!("".parse(), Ok(Mask::default()));
    }

    #[test]
    fn words_that_name_no_part_are_refused() {
        for text in ["x3", "o", "o-3", "o9-7", "o1-4000000000", "rates:luck", "3", "o3;o4", "é1"] {
            assert!(text.parse::<Mask>().is_err(), "{text}");
        }
    }
}
