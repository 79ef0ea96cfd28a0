//! Things that are said once and then named by their numbers.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

/// Things with numbers. Two things with the same text have the same number.
#[derive(Debug)]
pub(super) struct Pool<T> {
    things: Vec<Rc<T>>,
    numbers: HashMap<String, u32>,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self { things: Vec::new(), numbers: HashMap::new() }
    }
}

impl<T: fmt::Debug> Pool<T> {
    /// The number of a thing, which is `text`.
    pub(super) fn number(&mut self, thing: T, text: String) -> u32 {
        let things = &mut self.things;
        *self.numbers.entry(text).or_insert_with(|| {
            things.push(Rc::new(thing));
            u32::try_from(things.len() - 1).expect("there are few things")
        })
    }

    /// The thing with a number.
    pub(super) fn get(&self, number: u32) -> &Rc<T> {
        &self.things[number as usize]
    }
}

/// A hash of 128 bits.
pub(super) fn hash_of(thing: &impl Hash) -> u128 {
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        thing.hash(&mut hasher);
        u128::from(hasher.finish())
    };
    (half(0x5eed) << 64) | half(0xfeed)
}

/// Hashes text as it is written, without addresses and without blanks.
pub(super) struct Text {
    halves: [DefaultHasher; 2],
    is_address: bool,
}

impl Default for Text {
    fn default() -> Self {
        let mut halves = [DefaultHasher::new(), DefaultHasher::new()];
        halves[1].write_u8(1);
        Self { halves, is_address: false }
    }
}

impl Text {
    /// A hash of 128 bits.
    pub(super) fn finish(&self) -> u128 {
        (u128::from(self.halves[0].finish()) << 64) | u128::from(self.halves[1].finish())
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // An address comes in parts: what it begins with, and its digits.
        self.is_address = text == "0x" || (self.is_address && text.bytes().all(|byte| byte.is_ascii_hexdigit()));
        if self.is_address {
            return Ok(());
        }
        let text = text.trim_matches([' ', '\n']);
        if !text.is_empty() {
            self.halves.iter_mut().for_each(|half| half.write(text.as_bytes()));
            self.halves.iter_mut().for_each(|half| half.write_u8(0xff));
        }
        Ok(())
    }
}
