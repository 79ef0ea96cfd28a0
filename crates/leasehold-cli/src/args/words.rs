//! The words for columns and kinds of locks, on the command line and in page URLs.

use clap::ValueEnum;
use leasehold::inspect::FoundKind;

/// A column of the table of `top` and `serve`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub(crate) enum Column {
    Name,
    Kind,
    Holder,
    Grants,
    Held,
    Lease,
    Waiters,
    Queue,
    Wait,
    Problems,
}

/// A kind of lock, on the command line and in page URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub(crate) enum KindWord {
    Lock,
    Fair,
    Fenced,
    FencedFair,
    ReadWrite,
    Simple,
    // The alias is the kind as the output prints it, with a dash.
    #[value(alias = "leased-semaphore")]
    Semaphore,
    Counter,
    Foreign,
}

impl KindWord {
    /// The word that `--kind` accepts for a kind.
    pub(crate) fn of(kind: FoundKind) -> String {
        let word = Self::value_variants().iter().find(|word| word.found() == kind).and_then(Self::to_possible_value);
        word.map_or_else(|| kind.word().replace(' ', "-"), |word| word.get_name().to_owned())
    }

    pub(crate) const fn found(self) -> FoundKind {
        match self {
            Self::Lock => FoundKind::Lock,
            Self::Fair => FoundKind::FairLock,
            Self::Fenced => FoundKind::FencedLock,
            Self::FencedFair => FoundKind::FencedFairLock,
            Self::ReadWrite => FoundKind::ReadWriteLock,
            Self::Simple => FoundKind::SimpleLock,
            Self::Semaphore => FoundKind::Semaphore,
            Self::Counter => FoundKind::Counter,
            Self::Foreign => FoundKind::Foreign,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_semaphore_has_a_short_word_and_a_long_one() {
        for word in ["semaphore", "leased-semaphore"] {
            assert_eq!(KindWord::from_str(word, false), Ok(KindWord::Semaphore), "{word}");
        }
        assert_eq!(KindWord::of(FoundKind::Semaphore), "semaphore");
    }
}
