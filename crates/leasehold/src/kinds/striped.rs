//! The striped lock.

use crate::client::Client;
use crate::error::InvalidInput;
use crate::kinds::multi::MultiLock;
use crate::lock::Lock;
use leasehold_core::name::check_ends;

/// A fixed number of locks that stand for any number of small things.
///
/// **When to use it:** where each of millions of rows, users or files would want a lock of its own, and a few of them may share
/// one. The server then has at most as many keys, and the client as many channels, as there are stripes. **When not:** where two things that
/// meet on a stripe must not wait for each other. An owner that locks two things one after the other may meet itself: take them at once, by
/// [`StripedLock::all_of`], or under one [`Owner`](crate::Owner).
///
/// **How many stripes:** with `h` things locked at the same time, the chance that one more must wait for a stranger is about
/// `h / stripes`. So 100 stripes for each thing that is held at once leave 1 in 100 to wait. The number is part of the
/// layout: all users of a name must use one number. With 0 stripes every use fails with [`InvalidInput::NoStripes`].
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

    /// The name that the stripes have in common.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Counts the metrics of every stripe under `class`. See [`Lock::class`].
    #[must_use]
    pub fn class(mut self, class: impl AsRef<str>) -> Self {
        self.class = Some(class.as_ref().to_owned());
        self
    }

    /// How many stripes there are.
    pub const fn stripes(&self) -> u32 {
        self.stripes
    }

    /// Which stripe stands for `thing`: its FNV-1a hash of 64 bits, modulo the number of stripes, in every process and every version.
    pub fn stripe_of(&self, thing: impl AsRef<[u8]>) -> u32 {
        u32::try_from(fnv1a(thing.as_ref()) % u64::from(self.stripes.max(1))).unwrap_or_default()
    }

    /// The lock that stands for `thing`. Its name is that of the striped lock, a colon, and the number of the stripe.
    pub fn of(&self, thing: impl AsRef<[u8]>) -> Lock {
        self.stripe(self.stripe_of(thing))
    }

    /// One lock over all stripes that stand for `things`, each stripe once.
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

/// FNV-1a (Fowler, Noll, Vo), 64 bits: stable, without a key, and good enough to spread names.
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
