//! Plain commands in place of scripts.
//!
//! A plain command usually replaces its script for half of the server's time. Otherwise the command changes nothing,
//! and the link sends the script. A late copy of the command changes no more than a late copy of the script.

use crate::call::Call;
use crate::reply::Reply;
use crate::script::{SIMPLE_ACQUIRE, SIMPLE_RELEASE, Script};
use crate::wire;

/// A plain command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "these are all plain commands")]
pub enum Plain {
    /// `SET key hold NX PX lease` takes a free simple lock.
    Set,
    /// `DELEX key IFEQ hold` of Redis 8.4 ends the hold of a simple lock.
    Delex,
    /// `DELIFEQ key hold` of Valkey 9 ends the hold of a simple lock.
    Delifeq,
}

impl Plain {
    /// The server's compare-and-delete command, if available.
    pub fn delete_of(flavor: &str, version: &str) -> Option<Self> {
        let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
        let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        match flavor {
            "redis" if version >= (8, 4) => Some(Self::Delex),
            "valkey" if version >= (9, 0) => Some(Self::Delifeq),
            _ => None,
        }
    }

    /// The plain command that replaces the script of a call, if any. `delete` is the server's compare-and-delete.
    pub fn of(call: &Call, delete: Option<Self>) -> Option<Self> {
        let is = |script: &Script| std::ptr::eq(call.script(), script);
        let has = |index: usize, arg: &str| call.args().get(index) == Some(arg.as_bytes());
        if is(&SIMPLE_ACQUIRE) {
            // On a busy lock, every command would need the script as well.
            (has(1, "1") && has(3, "-1") && !call.repeats()).then_some(Self::Set)
        } else {
            delete.filter(|_| is(&SIMPLE_RELEASE) && has(1, "0"))
        }
    }

    /// Appends the command for a call.
    pub fn encode(self, call: &Call, out: &mut Vec<u8>) {
        const fn word(text: &str) -> &[u8] {
            text.as_bytes()
        }
        let (Some(key), Some(hold)) = (call.keys().first(), call.args().first()) else { return };
        match self {
            Self::Set => {
                let lease = call.args().get(2).unwrap_or_default();
                wire::command(out, "SET", &[key, hold, word("NX"), word("PX"), lease]);
            }
            Self::Delex => wire::command(out, "DELEX", &[key, word("IFEQ"), hold]),
            Self::Delifeq => wire::command(out, "DELIFEQ", &[key, hold]),
        }
    }

    /// The script's equivalent reply; `None` if the command changed nothing and the script must run.
    pub fn reply(self, call: &Call, reply: &Reply) -> Option<Reply> {
        match (self, reply) {
            (Self::Set, Reply::Bulk(ok)) if ok == "OK" => {
                let lease = std::str::from_utf8(call.args().get(2)?).ok()?.parse().ok()?;
                Some(Reply::Array(vec![Reply::Int(1), Reply::Int(lease), Reply::Int(0)]))
            }
            (Self::Delex | Self::Delifeq, Reply::Int(1)) => Some(Reply::Int(1)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::ACQUIRE;

    fn call(script: &'static Script, args: &[&'static str]) -> Call {
        Call::new(script, ["stock"], args)
    }

    fn sent(plain: Plain, call: &Call) -> String {
        let mut out = Vec::new();
        plain.encode(call, &mut out);
        let text = String::from_utf8(out).expect("text");
        text.lines().filter(|line| !line.starts_with(['*', '$'])).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn usual_calls_of_the_simple_lock_are_plain() {
        let acquire = call(&SIMPLE_ACQUIRE, &["id", "1", "5000", "-1"]);
        assert_eq!(Plain::of(&acquire, None), Some(Plain::Set));
        assert_eq!(sent(Plain::Set, &acquire), "SET stock id NX PX 5000");
        let granted = Reply::Array(vec![Reply::Int(1), Reply::Int(5_000), Reply::Int(0)]);
        assert_eq!(Plain::Set.reply(&acquire, &Reply::Bulk("OK".into())), Some(granted));
        assert_eq!(Plain::Set.reply(&acquire, &Reply::Nil), None);
        let release = call(&SIMPLE_RELEASE, &["id", "0"]);
        assert_eq!(sent(Plain::Delex, &release), "DELEX stock IFEQ id");
        assert_eq!(sent(Plain::Delifeq, &release), "DELIFEQ stock id");
        assert_eq!(Plain::Delifeq.reply(&release, &Reply::Int(1)), Some(Reply::Int(1)));
        assert_eq!(Plain::Delifeq.reply(&release, &Reply::Int(0)), None);
    }

    #[test]
    fn calls_that_a_plain_command_cannot_replace_run_the_script() {
        let calls = [
            call(&SIMPLE_ACQUIRE, &["id", "2", "5000", "-1"]),
            call(&SIMPLE_ACQUIRE, &["id", "1", "5000", "0"]),
            call(&SIMPLE_ACQUIRE, &["id", "1", "5000", "1700000000000"]),
            call(&SIMPLE_RELEASE, &["id", "1"]),
            call(&ACQUIRE, &["id", "1", "5000", "-1", "PUBLISH", "c"]),
        ];
        for call in calls {
            assert_eq!(Plain::of(&call, Some(Plain::Delex)), None, "{call:?}");
        }
        assert_eq!(Plain::of(&call(&SIMPLE_RELEASE, &["id", "0"]), None), None);
        let again = call(&SIMPLE_ACQUIRE, &["id", "1", "5000", "-1"]).repeating(true);
        assert_eq!(Plain::of(&again, None), None, "the lock was busy");
    }

    #[test]
    fn servers_delete_by_value_from_these_versions() {
        let deletes = [
            ("redis", "8.4.0", Some(Plain::Delex)),
            ("redis", "10.0.1", Some(Plain::Delex)),
            ("redis", "8.2.3", None),
            ("valkey", "9.0.0", Some(Plain::Delifeq)),
            ("valkey", "8.1.4", None),
            ("dragonfly", "9.9.9", None),
            ("redis", "", None),
        ];
        for (flavor, version, delete) in deletes {
            assert_eq!(Plain::delete_of(flavor, version), delete, "{flavor} {version}");
        }
    }
}
