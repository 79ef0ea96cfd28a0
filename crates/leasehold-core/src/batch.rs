//! Batches: a script that runs other scripts in order.
//!
//! A batch contains the files of its scripts. The shared code precedes them once, and each script's own file becomes a
//! function with its own `KEYS` and `ARGV`. A server runs a script without interruption, so the calls of a batch take
//! effect in order. A failed call does not affect the other calls.

use crate::call::Call;
use crate::script::{self, Script};
use crate::wire;
use leasehold_lua as lua;
use std::sync::OnceLock;

/// The maximum total [weight](Script::weight) of a batch. A running script blocks the server. The limit bounds the
/// delay of other clients to about 0.3 ms.
pub const MOST: u32 = 64;

/// The scripts that may run in one batch. Calls refer to them by position, starting at 1.
///
/// Each family of kinds has its own batch, because every run creates all functions of the script. All clients of a
/// version send the same scripts.
#[derive(Debug)]
pub struct Batch {
    scripts: &'static [&'static Script],
    script: OnceLock<Script>,
}

/// All batches. Each script with a weight is in exactly one batch.
pub static ALL: [Batch; 6] = [
    Batch::new(&[&script::ACQUIRE, &script::RELEASE, &script::FENCED_ACQUIRE]),
    Batch::new(&[&script::SIMPLE_ACQUIRE, &script::SIMPLE_RELEASE]),
    Batch::new(&[&script::FAIR_ACQUIRE, &script::FAIR_RELEASE, &script::FENCED_FAIR_ACQUIRE]),
    Batch::new(&[&script::READ_ACQUIRE, &script::READ_RELEASE, &script::WRITE_ACQUIRE, &script::WRITE_RELEASE]),
    Batch::new(&[&script::SEMAPHORE_ACQUIRE, &script::SEMAPHORE_RELEASE]),
    Batch::new(&[&script::PERMITS_ACQUIRE, &script::PERMITS_RELEASE]),
];

impl Batch {
    const fn new(scripts: &'static [&'static Script]) -> Self {
        Self { scripts, script: OnceLock::new() }
    }

    /// The batch that may contain a script.
    pub fn of(script: &Script) -> Option<&'static Self> {
        ALL.iter().find(|batch| batch.place(script).is_some())
    }

    /// The scripts of the batch.
    pub const fn scripts(&self) -> &'static [&'static Script] {
        self.scripts
    }

    /// The script that runs the calls. Its reply is an array with the reply or the error of each call.
    pub fn script(&self) -> &Script {
        self.script.get_or_init(|| Script::of_batch(text(self.scripts)))
    }

    /// The script, number of keys and number of arguments of each call. A single argument encodes all calls, because
    /// each argument costs time.
    pub fn plan<'a>(&self, calls: impl Iterator<Item = &'a Call>) -> Vec<u8> {
        let place = |script| self.place(script).map_or(0, |place| place + 1);
        calls.flat_map(|call| [place(call.script()), call.keys().len(), call.args().len()].map(digit)).collect()
    }

    /// Appends one command that runs all calls in order. All keys must be in one hash slot.
    pub fn encode<'a>(&'static self, out: &mut Vec<u8>, calls: impl Iterator<Item = &'a Call> + Clone) {
        let plan = self.plan(calls.clone());
        let keys = calls.clone().map(Call::keys);
        let args = calls.map(Call::args);
        wire::batch(out, self.script().sha1(), keys, &plan, args);
    }

    fn place(&self, script: &Script) -> Option<usize> {
        self.scripts.iter().position(|other| std::ptr::eq(*other, script))
    }
}

/// The source of the batch of these scripts.
fn text(scripts: &[&'static Script]) -> String {
    let (mut preludes, mut functions): (Vec<&str>, String) = (Vec::new(), String::new());
    for script in scripts {
        let mut own = script.source();
        while let Some(prelude) = lua::PRELUDES.iter().find(|prelude| own.starts_with(**prelude)) {
            // Each prelude follows the preludes that it uses, as in every script. Fast paths are not shared. The code
            // after a fast path stays in the script's function. That code runs only if the fast path does not apply.
            if !preludes.contains(prelude) {
                preludes.push(prelude);
            }
            own = &own[prelude.len()..];
        }
        functions.extend(["function(KEYS, ARGV)\n", own, "\nend,\n"]);
    }
    format!("{}\nlocal scripts = {{\n{functions}}}\n{}", preludes.concat(), lua::BATCH)
}

/// Encodes a number of a plan. A test checks that all numbers are small enough.
fn digit(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX).saturating_add(b'0')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(script: &'static Script) -> Call {
        Call::new(script, script.keys(), script.args())
    }

    #[test]
    fn a_batch_has_all_keys_and_tells_where_each_call_begins() {
        let calls = [call(&script::RELEASE), call(&script::ACQUIRE)];
        let batch = Batch::of(&script::ACQUIRE).expect("a batch");
        let mut sent = Vec::new();
        batch.encode(&mut sent, calls.iter());
        let mut words = vec!["EVALSHA", batch.script().sha1(), "2", "lock", "lock", "216116"];
        words.extend(calls.iter().flat_map(|call| call.script().args()));
        let mut expected = Vec::new();
        wire::command(&mut expected, words[0], &words[1..]);
        assert_eq!(String::from_utf8(sent), String::from_utf8(expected));
    }

    #[test]
    fn each_number_of_a_plan_has_a_character_of_its_own() {
        let words = script::ALL.iter().flat_map(|script| [script.keys().len(), script.args().len()]);
        for number in words.chain(ALL.iter().map(|batch| batch.scripts.len())) {
            assert_eq!(usize::from(digit(number)), number + 48);
        }
    }

    #[test]
    fn each_script_with_a_weight_is_in_one_batch() {
        for script in script::ALL {
            let batches = ALL.iter().filter(|batch| batch.place(script).is_some()).count();
            assert_eq!(batches, usize::from(script.weight().is_some()), "{}", script.name());
        }
    }

    #[test]
    fn code_that_scripts_share_stands_in_a_batch_once() {
        for batch in &ALL {
            let source = batch.script().source();
            let (shared, _) = source.split_once("\nlocal scripts = {").expect("a table of functions");
            for prelude in lua::PRELUDES {
                assert!(shared.matches(prelude).count() <= 1, "{prelude}");
            }
            assert_eq!(source.matches("function(KEYS, ARGV)").count(), batch.scripts.len());
        }
    }
}
