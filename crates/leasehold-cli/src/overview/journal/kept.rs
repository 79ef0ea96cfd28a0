//! A compact past hold.

use super::super::row::Process;
use super::{Outcome, Past};
use leasehold::inspect::FoundKind;
use std::sync::Arc;
use std::time::Duration;

/// A [`Past`] with a packed id and without the name of its lock.
#[derive(Debug)]
pub(super) struct Kept {
    number: u64,
    ended: u64,
    /// In milliseconds.
    lasted: u64,
    id: Id,
    process: Option<Arc<Process>>,
    kind: FoundKind,
    half: Option<Half>,
    is_longer: bool,
    outcome: Outcome,
}

#[derive(Clone, Copy, Debug)]
enum Half {
    Read,
    Write,
}

/// The id of a hold.
#[derive(Debug)]
enum Id {
    /// A client id and a hold number, the format of leasehold and Redisson.
    Numbered([u8; 16], u64),
    Other(Box<str>),
}

impl Kept {
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// Returns the size in bytes, without the process.
    pub(super) const fn bytes(&self) -> usize {
        let text = match &self.id {
            Id::Numbered(..) => 0,
            Id::Other(text) => text.len() + 16,
        };
        size_of::<Self>() + text
    }

    /// Restores the hold of the lock with this name.
    pub(super) fn past(&self, name: &Arc<str>) -> Past {
        Past {
            number: self.number,
            name: name.clone(),
            kind: self.kind,
            id: self.id.text(),
            half: self.half.map(|half| match half {
                Half::Read => "read",
                Half::Write => "write",
            }),
            process: self.process.clone(),
            ended: self.ended,
            lasted: Duration::from_millis(self.lasted),
            is_longer: self.is_longer,
            outcome: self.outcome,
        }
    }
}

impl From<&Past> for Kept {
    fn from(past: &Past) -> Self {
        Self {
            number: past.number,
            ended: past.ended,
            lasted: u64::try_from(past.lasted.as_millis()).unwrap_or(u64::MAX),
            id: Id::of(&past.id),
            process: past.process.clone(),
            kind: past.kind,
            half: past.half.map(|half| if half == "read" { Half::Read } else { Half::Write }),
            is_longer: past.is_longer,
            outcome: past.outcome,
        }
    }
}

impl Id {
    fn of(text: &str) -> Self {
        let packed = Self::numbered(text);
        packed.filter(|packed| packed.text() == text).unwrap_or_else(|| Self::Other(text.into()))
    }

    fn numbered(text: &str) -> Option<Self> {
        let (client, number) = text.split_once(':')?;
        let client = u128::from_str_radix(&client.replace('-', ""), 16).ok()?;
        Some(Self::Numbered(client.to_be_bytes(), number.parse().ok()?))
    }

    fn text(&self) -> String {
        match self {
            Self::Numbered(client, number) => {
                let hex = format!("{:032x}", u128::from_be_bytes(*client));
                let (a, b, c, d, e) = (&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]);
                format!("{a}-{b}-{c}-{d}-{e}:{number}")
            }
            Self::Other(text) => text.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_is_packed_and_read_back_unchanged() {
        for (text, is_packed) in [
            ("6f0c1de2-4a53-4b0e-9f0a-0c2d7b1f3a55:7", true),
            ("00000000-0000-0000-0000-000000000001:18446744073709551615", true),
            ("6F0C1DE2-4a53-4b0e-9f0a-0c2d7b1f3a55:7", false),
            ("6f0c1de24a534b0e9f0a0c2d7b1f3a55:7", false),
            ("6f0c1de2-4a53-4b0e-9f0a-0c2d7b1f3a55:07", false),
            ("6f0c1de2-4a53-4b0e-9f0a-0c2d7b1f3a55:+7", false),
            ("6f0c:1", false),
            ("", false),
            ("ä:1", false),
        ] {
            let id = Id::of(text);
            assert_eq!((id.text().as_str(), matches!(id, Id::Numbered(..))), (text, is_packed));
        }
        assert!(size_of::<Kept>() <= 72, "{}", size_of::<Kept>());
    }
}
