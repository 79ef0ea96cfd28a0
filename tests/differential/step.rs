//! One step of a history.

use bytes::Bytes;
use leasehold_core::call::Call;
use std::fmt;
use std::time::Duration;

/// A step: a command, or time that passes.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A client calls a script.
    Script(Call),
    /// A client from outside runs a command.
    Command(Vec<Bytes>),
    /// A script runs this command by `redis.pcall`.
    Inside(Vec<Bytes>),
    /// The wall clock goes on, or is set back.
    Clock(i64),
    /// Time passes that is less than a millisecond.
    Moment(Duration),
    /// Memory is full from now on, or is not any more.
    Memory(bool),
    /// The clock goes to the end of one of the keys, and so many milliseconds further.
    Expiry(usize, i64),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Script(call) => {
                write!(
                    f,
                    "{} KEYS{} ARGV{}",
                    call.script().name(),
                    told(&call.keys().to_vec()),
                    told(&call.args().to_vec())
                )
            }
            Self::Command(words) => write!(f, "outside{}", told(words)),
            Self::Inside(words) => write!(f, "redis.pcall{}", told(words)),
            Self::Clock(millis) => write!(f, "clock {millis:+} ms"),
            Self::Moment(moment) => write!(f, "clock +{} µs", moment.as_micros()),
            Self::Memory(full) => write!(f, "memory is {}", if *full { "full" } else { "free" }),
            Self::Expiry(which, millis) => write!(f, "clock to the end of key {which} {millis:+} ms"),
        }
    }
}

/// Words as Rust writes strings of bytes.
pub(crate) fn told(words: &[Bytes]) -> String {
    words.iter().map(|word| format!(" {word:?}").replacen(" b", " ", 1)).collect()
}
