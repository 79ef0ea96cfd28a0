//! The parts of a world: each has a number that it keeps when others are left out, and is asked for before it happens.

#[cfg(test)]
use crate::world::World;
use std::collections::{BTreeMap, BTreeSet};
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

/// The users of clients that join start operations of these numbers, so many of each.
const JOINED: (u32, u32) = (50, 4);
/// An entry that is started beside a hold has the number of the operation that acquired the hold, and this more.
pub(crate) const ENTRY: u32 = 100;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// These are left out.
    pub(crate) mask: Mask,
    /// Whether what happens is noted.
    pub(crate) are_noted: bool,
    /// Those that happened.
    pub(crate) happened: BTreeSet<Part>,
    /// Those that were planned.
    pub(crate) planned: BTreeSet<Part>,
    /// The operation that is being started.
    pub(crate) acting: u32,
    /// The numbers of planned faults, by those of their events.
    faults: BTreeMap<u64, u32>,
    next_fault: u32,
    /// A rule of a test, which is checked with the others.
    #[cfg(test)]
    pub(crate) rule: Option<fn(&World)>,
}

impl Parts {
    /// Whether a part is left out. If not, it happens.
    pub(crate) fn leave_out(&mut self, part: Part) -> bool {
        let is_out = self.mask.has(part);
        if self.are_noted && !is_out {
            self.happened.insert(part);
        }
        is_out
    }

    /// The number of an operation that a user of the world is to start.
    pub(crate) fn plan_operation(&mut self, number: u32) -> u32 {
        if self.are_noted {
            self.planned.insert(Part::Operation(number));
        }
        number
    }

    /// The number of an operation that a client starts that joined as the so manieth, in the place of its users.
    pub(crate) fn plan_operation_of_joined(&mut self, joined: usize, place: usize) -> u32 {
        let of = |number: usize| u32::try_from(number).unwrap_or_default();
        self.plan_operation(JOINED.0 + JOINED.1 * of(joined) + of(place))
    }

    /// A fault is planned, and gets a number; what ends a fault has the number of that.
    pub(crate) fn plan_fault(&mut self, event_number: u64, ends: bool) {
        self.next_fault += u32::from(!ends);
        let number = self.next_fault - 1;
        self.faults.insert(event_number, number);
        if self.are_noted {
            self.planned.insert(Part::Fault(number));
        }
    }

    /// Whether an event is a planned fault that is left out.
    pub(crate) fn leave_out_event(&mut self, event_number: u64) -> bool {
        let fault = self.faults.get(&event_number).copied();
        fault.is_some_and(|fault| self.leave_out(Part::Fault(fault)))
    }

    /// Whether the operation that is being started is left out, or its client, or its lock.
    pub(crate) fn leave_out_operation(&mut self, client: usize, lock: &[u8]) -> bool {
        let lock = std::str::from_utf8(lock).ok().and_then(|lock| lock.strip_prefix("lock")?.parse().ok());
        let client = u32::try_from(client).unwrap_or_default();
        let parts = [Part::Client(client), Part::Lock(lock.unwrap_or_default()), Part::Operation(self.acting)];
        let is_out = parts.iter().any(|part| self.mask.has(*part));
        if self.are_noted && !is_out {
            self.happened.extend(parts);
        }
        is_out
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
