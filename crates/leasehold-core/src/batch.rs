//! Several calls as one: a script that runs other scripts, one after the other.
//!
//! The text of a batch is made of the same files as the scripts in it. The code that they share stands in front once, and each script's
//! own file becomes a function with `KEYS` and `ARGV` of its own. A server runs a script to its end, so the calls of a batch take effect in
//! their order, and nothing comes between them. A call that fails answers for itself alone.

use crate::call::Call;
use crate::script::{self, Script};
use bytes::{Bytes, BytesMut};
use leasehold_lua as lua;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// How much the calls of a batch may weigh together, see [`Script::weight`]. A server does nothing else while it runs a script, so this
/// bounds how long others wait for it: about 0.3 ms.
pub const MOST: u32 = 64;

/// The batches that were made, by the names of the scripts in them. They are kept for ever, and there are few: a link has one more for each
/// script that it puts into a batch for the first time, and all links share them.
static MADE: Mutex<BTreeMap<Vec<&'static str>, &'static Script>> = Mutex::new(BTreeMap::new());

/// The script of a link's batches. It can run each script that was in one of them, so a server need not know many.
#[derive(Debug, Default)]
pub struct BatchScript {
    /// In the order of their names, so that the order in which a link came to use them makes no other text.
    scripts: Vec<&'static Script>,
    made: Option<&'static Script>,
}

impl BatchScript {
    /// The one call that stands for all of these, which take effect in this order. All keys must lie in one hash slot. The reply is an array
    /// with the reply of each, or the error that it met.
    pub fn call(&mut self, calls: &[&Call]) -> Call {
        calls.iter().for_each(|call| self.add(call.script()));
        let mut keys = Vec::with_capacity(calls.iter().map(|call| call.keys().len()).sum());
        let mut args = Vec::with_capacity(1 + calls.iter().map(|call| call.args().len()).sum::<usize>());
        args.push(self.plan(calls));
        let mut words = words(calls);
        for call in calls {
            keys.extend(call.keys().iter().map(|key| words.split_to(key.len())));
            args.extend(call.args().iter().map(|arg| words.split_to(arg.len())));
        }
        Call::new(self.made(), keys, args)
    }

    /// Which script each call runs, and how many keys and arguments it has. One text, because each argument by itself costs client and server
    /// some time.
    fn plan(&self, calls: &[&Call]) -> Bytes {
        let numbers =
            calls.iter().flat_map(|call| [self.place(call.script()) + 1, call.keys().len(), call.args().len()]);
        numbers.map(digit).collect()
    }

    fn add(&mut self, script: &'static Script) {
        let place = self.place(script);
        if self.scripts.get(place).is_none_or(|other| other.name() != script.name()) {
            self.scripts.insert(place, script);
            self.made = None;
        }
    }

    /// The place at which the script is, or would be.
    fn place(&self, script: &'static Script) -> usize {
        self.scripts.partition_point(|other| other.name() < script.name())
    }

    fn made(&mut self) -> &'static Script {
        self.made.get_or_insert_with(|| {
            let names = self.scripts.iter().map(|script| script.name()).collect();
            // A panic cannot leave half an entry behind.
            let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
            made.entry(names).or_insert_with(|| Box::leak(Box::new(Script::of_batch(text(&self.scripts)))))
        })
    }
}

/// The scripts of a batch, in the order in which its calls number them, from 1 on. `batch` is its hash, or its text. For those who look at
/// what the links of this process send; `None` where none of them has made such a batch.
pub fn scripts_of(batch: &[u8]) -> Option<Vec<&'static Script>> {
    let made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let is = |made: &'static Script| [made.sha1(), made.source()].iter().any(|word| word.as_bytes() == batch);
    let (names, _) = made.iter().find(|(_, made)| is(made))?;
    names.iter().map(|name| script::ALL.iter().find(|script| script.name() == *name).copied()).collect()
}

/// The keys and arguments of these calls, one behind the other. A part of it is a count more, and a clone of what stands alone would be an
/// allocation for each of some hundred.
fn words(calls: &[&Call]) -> Bytes {
    let words = || calls.iter().flat_map(|call| call.keys().iter().chain(call.args()));
    let mut text = BytesMut::with_capacity(words().map(Bytes::len).sum());
    words().for_each(|word| text.extend_from_slice(word));
    text.freeze()
}

/// The text that runs these scripts.
fn text(scripts: &[&'static Script]) -> String {
    let (mut preludes, mut functions): (Vec<&str>, String) = (Vec::new(), String::new());
    for script in scripts {
        let mut own = script.source();
        while let Some(prelude) = lua::PRELUDES.iter().find(|prelude| own.starts_with(**prelude)) {
            // Each stands behind those that it uses, as it does in every script. The short way of a script is none of them, so that what
            // stands behind it stays in the script's own function, and is made only if the short way is not taken.
            if !preludes.contains(prelude) {
                preludes.push(prelude);
            }
            own = &own[prelude.len()..];
        }
        functions.extend(["function(KEYS, ARGV)\n", own, "\nend,\n"]);
    }
    format!("{}\nlocal scripts = {{\n{functions}}}\n{}", preludes.concat(), lua::BATCH)
}

/// The character that stands for a number in a plan. A test sees to it that all numbers are small enough.
fn digit(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX).saturating_add(b'0')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(script: &'static Script) -> Call {
        let values = |words: &[&'static str]| words.iter().map(|word| Bytes::from_static(word.as_bytes())).collect();
        Call::new(script, values(script.keys()), values(script.args()))
    }

    #[test]
    fn a_batch_has_all_keys_and_tells_where_each_call_begins() {
        let calls = [call(&script::RELEASE), call(&script::ACQUIRE)];
        let batch = BatchScript::default().call(&calls.each_ref());
        assert_eq!(batch.keys(), ["lock", "lock"].map(Bytes::from));
        // The scripts are in the order of their names.
        let first = ["216116", "hold", "count", "publish", "keep", "kept", "channel"];
        let second = ["hold", "count", "lease", "not_after", "publish", "channel"];
        assert_eq!(batch.args(), first.iter().chain(&second).map(|word| Bytes::from(*word)).collect::<Vec<_>>());
    }

    #[test]
    fn each_number_of_a_plan_has_a_character_of_its_own() {
        let words = script::ALL.iter().flat_map(|script| [script.keys().len(), script.args().len()]);
        for number in words.chain([script::ALL.len()]) {
            assert_eq!(usize::from(digit(number)), number + 48);
        }
    }

    #[test]
    fn links_that_batch_the_same_scripts_share_the_text() {
        let (acquire, release) = (call(&script::ACQUIRE), call(&script::RELEASE));
        let (mut one, mut other) = (BatchScript::default(), BatchScript::default());
        one.call(&[&acquire]);
        let one = one.call(&[&release]);
        let other = other.call(&[&release, &acquire, &release]);
        assert!(std::ptr::eq(one.script(), other.script()));
    }

    #[test]
    fn a_batch_is_known_by_its_hash_and_by_its_text() {
        let calls = [call(&script::RELEASE), call(&script::ACQUIRE)];
        let batch = BatchScript::default().call(&calls.each_ref());
        let names = |scripts: Vec<&'static Script>| scripts.iter().map(|script| script.name()).collect::<Vec<_>>();
        for word in [batch.script().sha1(), batch.script().source()] {
            assert_eq!(scripts_of(word.as_bytes()).map(names), Some(vec!["lock/acquire", "lock/release"]));
        }
        assert!(scripts_of(script::ACQUIRE.sha1().as_bytes()).is_none());
    }

    #[test]
    fn code_that_scripts_share_stands_in_a_batch_once() {
        let mut batch = BatchScript::default();
        let all: Vec<_> = script::ALL.iter().map(|script| call(script)).collect();
        let batch = batch.call(&all.iter().collect::<Vec<_>>());
        let (shared, _) = batch.script().source().split_once("\nlocal scripts = {").expect("a table of functions");
        for prelude in lua::PRELUDES {
            assert!(shared.matches(prelude).count() <= 1, "{prelude}");
        }
        assert_eq!(batch.script().source().matches("function(KEYS, ARGV)").count(), script::ALL.len());
    }
}
