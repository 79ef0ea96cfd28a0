//! Keys from headers.

use http::request::Parts;
use leasehold::{Client, Lock};

/// Returns a key function for [`LockLayer::new`](crate::LockLayer::new): the reentrant lock with the prefix and the value of the header as its name.
/// A request has no key without the header, or if the value contains characters other than visible ASCII.
///
/// # Examples
///
/// ```
/// use leasehold_tower::{LockLayer, header};
///
/// # let client = leasehold::Client::embedded();
/// let layer = LockLayer::new(header(&client, "idempotency-key", "orders:")).require_key();
/// ```
pub fn header(
    client: &Client,
    name: &'static str,
    prefix: &'static str,
) -> impl Fn(&Parts) -> Option<Lock> + Clone + Send + Sync + use<> {
    let client = client.clone();
    move |request| {
        let key = request.headers.get(name)?.to_str().ok()?;
        Some(client.lock(format!("{prefix}{key}")))
    }
}
