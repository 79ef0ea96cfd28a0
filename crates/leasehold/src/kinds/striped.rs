//! The striped lock.

use crate::client::Client;
use crate::error::InvalidInput;
use crate::kinds::multi::MultiLock;
use crate::lock::Lock;
use leasehold_core::name::check_ends;

/// A fixed number of locks that cover any number of small resources.
///
/// **When to use it:** if each of millions of rows, users or files needs a lock, and two of them may share a lock. The number of stripes limits
/// the keys on the server and the channels of the client. **When not:** if two resources on one stripe must not wait for each other. An owner
/// that locks two resources in sequence may block itself: acquire them together with [`StripedLock::all_of`], or under one
/// [`Owner`](crate::Owner).
///
/// **How many stripes:** with `h` locked resources, the probability that another resource must wait for an unrelated resource is about `h / stripes`.
/// With 100 stripes for each concurrently held resource, 1 acquire in 100 waits. The number is part of the layout: all users of a name must use the
/// same number. With 0 stripes every use fails with [`InvalidInput::NoStripes`].
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let client = leasehold::Client::embedded();
/// let users = client.striped_lock("users", 1024);
/// let guard = users.of("user:4711").acquire().await?;
/// guard.release().await?;
///
/// let both = users.all_of(["user:1", "user:2"]).acquire().await?; // in any order, without a deadlock
/// both.release().await?;
/// # Ok::<(), leasehold::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct StripedLock {
    client: Client,
    name: String,
    class: Option<String>,
    stripes: u32,
}

impl StripedLock {
    pub(crate) fn new(client: Client, name: &str, stripes: u32) -> Self {
        Self { client, name: name.to_owned(), class: None, stripes }
    }

    /// Returns the common name of the stripes.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Counts the metrics of every stripe under `class`. See [`Lock::class`].
    #[must_use]
    pub fn class(mut self, class: impl AsRef<str>) -> Self {
        self.class = Some(class.as_ref().to_owned());
        self
    }

    /// Returns the number of stripes.
    pub const fn stripes(&self) -> u32 {
        self.stripes
    }

    /// Returns the stripe of `thing`: its 64-bit FNV-1a hash modulo the number of stripes. Every process and version computes this stripe.
    pub fn stripe_of(&self, thing: impl AsRef<[u8]>) -> u32 {
        u32::try_from(fnv1a(thing.as_ref()) % u64::from(self.stripes.max(1))).unwrap_or_default()
    }

    /// Returns the lock for `thing`. Its name is the name of the striped lock, a colon, and the number of the stripe.
    pub fn of(&self, thing: impl AsRef<[u8]>) -> Lock {
        self.stripe(self.stripe_of(thing))
    }

    /// Returns a lock over the distinct stripes of `things`.
    pub fn all_of<T: AsRef<[u8]>>(&self, things: impl IntoIterator<Item = T>) -> MultiLock {
        let mut stripes: Vec<u32> = things.into_iter().map(|thing| self.stripe_of(thing)).collect();
        stripes.sort_unstable();
        stripes.dedup();
        MultiLock::new(stripes.into_iter().map(|stripe| self.stripe(stripe)))
    }

    fn stripe(&self, stripe: u32) -> Lock {
        let mut lock = self.client.lock(format!("{}:{stripe}", self.name));
        if let Some(class) = &self.class {
            lock = lock.class(class);
        }
        let why = match check_ends(&self.name) {
            Err(why) => why.into(),
            Ok(()) if self.stripes == 0 => InvalidInput::NoStripes { name: self.name.clone() },
            Ok(()) => return lock,
        };
        Lock::of(lock.spec().refused(why))
    }
}

/// Hashes with FNV-1a (Fowler, Noll, Vo), 64 bits: stable, without a key, and good enough to spread names.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
