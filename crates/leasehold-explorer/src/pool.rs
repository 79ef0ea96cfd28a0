//! Interned values with numbers, and hashes.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::rc::Rc;

/// Interned values. Values with equal texts have equal numbers.
#[derive(Debug)]
pub(crate) struct Pool<T> {
    things: Vec<Rc<T>>,
    numbers: HashMap<String, u32>,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self { things: Vec::new(), numbers: HashMap::new() }
    }
}

impl<T: fmt::Debug> Pool<T> {
    /// Interns a value with this `text`, and returns its number.
    pub(crate) fn number(&mut self, thing: T, text: String) -> u32 {
        let things = &mut self.things;
        *self.numbers.entry(text).or_insert_with(|| {
            things.push(Rc::new(thing));
            u32::try_from(things.len() - 1).expect("there are few things")
        })
    }

    /// Returns the value with a number.
    pub(crate) fn get(&self, number: u32) -> &Rc<T> {
        &self.things[number as usize]
    }
}

/// A hash of 128 bits.
pub(crate) fn hash_of(thing: &impl Hash) -> u128 {
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        thing.hash(&mut hasher);
        u128::from(hasher.finish())
    };
    (half(0x5eed) << 64) | half(0xfeed)
}

/// Hashes text while it is written.
#[derive(Default)]
pub(crate) struct Text {
    halves: [DefaultHasher; 2],
}

impl Text {
    /// A hash of 128 bits.
    pub(crate) fn finish(&self) -> u128 {
        let [high, low] = &self.halves;
        let mut low = low.clone();
        low.write_u8(1);
        (u128::from(high.finish()) << 64) | u128::from(low.finish())
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.halves.iter_mut().for_each(|half| half.write(text.as_bytes()));
        Ok(())
    }
}

/// A fast hasher for small numbers from trusted sources.
pub(crate) type Quick = BuildHasherDefault<Mix>;

/// Multiplies and rotates.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mix(u64);

impl Mix {
    const fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        // The high bits are well mixed, but tables use both ends of the hash.
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.add(u64::from(*byte));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.add(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.add(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.add(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.add(number as u64);
    }

    fn write_u128(&mut self, number: u128) {
        self.add(number as u64);
        self.add((number >> 64) as u64);
    }
}
