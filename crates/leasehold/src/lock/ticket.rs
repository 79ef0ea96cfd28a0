//! Tickets, which move a hold to another process.

use crate::client::Client;
use crate::client::ids::HolderId;
use crate::client::settings;
use crate::error::{Error, InvalidInput, InvalidTicket};
use crate::kind::{Movable, Reentrant};
use crate::lock::attempt;
use crate::lock::guard::Guard;
use crate::lock::owner::Owner;
use crate::lock::spec::LockSpec;
use leasehold_core::session::{AcquireRequest, AdoptRequest, Offered};
use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::pin::Pin;
use std::str::FromStr;
use std::time::Duration;

/// The right to adopt a held lock in another process, once: [`Guard::into_ticket`] creates it, and [`Client::adopt`] consumes it.
///
/// A ticket is a text without white space ([`Display`](fmt::Display), [`FromStr`]; with the feature `serde` also a string of serde). Send it
/// with the job, as in a message of a queue. **Any reader of the ticket can adopt the lock**, so protect it like a password; `Debug` hides its
/// secret. Dropping a ticket does nothing: an unadopted lock is free at the end of the ticket's life.
///
/// - Set `life` to the longest time that the job may wait in its queue.
/// - If the message cannot be sent, adopt the ticket with the client that created it, and release the guard.
/// - If a message is delivered twice, the second adoption fails with [`Error::TicketSpent`]: drop that message.
/// - A ticket of another kind is parsed with its type, as `Ticket<kind::Fenced>`.
///
/// The adopter's hold has a [`holder_id`](Guard::holder_id) of its own and, if the kind has fencing tokens, a greater token. A store therefore refuses
/// late writes of the process that created the ticket.
///
/// # Examples
///
/// ```
/// # use leasehold::{Client, Ticket};
/// # use leasehold::embedded::EmbeddedServer;
/// # use std::time::Duration;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = EmbeddedServer::new();
/// # let (web, worker) = (Client::builder().embedded(&server)?, Client::builder().embedded(&server)?);
/// // In the process that receives the request:
/// let guard = web.lock("order:7").acquire().await?;
/// let message = guard.into_ticket(Duration::from_secs(60)).await?.to_string();
///
/// // In the process that does the work:
/// let ticket: Ticket = message.parse()?;
/// let guard = worker.adopt(ticket).await?;
/// guard.release().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[must_use = "a ticket that nobody adopts keeps the lock busy until the end of its life"]
pub struct Ticket<K: Movable = Reentrant> {
    key: String,
    holder: String,
    secret: String,
    kind: PhantomData<K>,
}

/// The start of every ticket, with the version of its format.
const START: &str = "leasehold-ticket-1";

impl<K: Movable> Ticket<K> {
    pub(crate) fn new(key: &[u8], offered: &Offered) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { key: text(key), holder: text(&offered.field), secret: text(&offered.secret), kind: PhantomData }
    }

    /// Returns the key of the lock: its name with the prefix of the client that created the ticket.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the id of the offered hold on the server, until the adoption.
    pub fn holder_id(&self) -> HolderId {
        self.holder.clone().into()
    }
}

impl<K: Movable> fmt::Display for Ticket<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut name = String::with_capacity(2 * self.key.len());
        self.key.bytes().for_each(|byte| name.extend([byte >> 4, byte & 15].map(hex_digit)));
        let text = format!("{START}.{}.{name}.{}.{}", K::WORD, self.holder, self.secret);
        // The length detects a truncated ticket.
        write!(f, "{text}.{}", text.len())
    }
}

fn hex_digit(value: u8) -> char {
    char::from_digit(value.into(), 16).unwrap_or('0')
}

impl<K: Movable> FromStr for Ticket<K> {
    type Err = InvalidTicket;

    fn from_str(text: &str) -> Result<Self, InvalidTicket> {
        let Some(rest) = text.strip_prefix("leasehold-ticket-") else { return Err(InvalidTicket::NoTicket) };
        let version = rest.split('.').next().unwrap_or_default();
        if START.strip_prefix("leasehold-ticket-") != Some(version) {
            return Err(InvalidTicket::OtherVersion { version: version.chars().take(8).collect() });
        }
        let (body, length) = text.rsplit_once('.').ok_or(InvalidTicket::Damaged)?;
        if length.parse() != Ok(body.len()) {
            return Err(InvalidTicket::Damaged);
        }
        let parts: Vec<&str> = body.split('.').collect();
        let [_, kind, name, holder, secret] = parts[..] else { return Err(InvalidTicket::Damaged) };
        if kind != K::WORD {
            return Err(InvalidTicket::OtherKind { kind: kind.to_owned(), expected: K::WORD });
        }
        let is_empty = holder.is_empty() || secret.is_empty();
        let key = from_hex(name).filter(|key| !key.is_empty() && !is_empty).ok_or(InvalidTicket::Damaged)?;
        Ok(Self { key, holder: holder.to_owned(), secret: secret.to_owned(), kind: PhantomData })
    }
}

fn from_hex(text: &str) -> Option<String> {
    let digits: Option<Vec<u8>> = text.chars().map(|digit| u8::try_from(digit.to_digit(16)?).ok()).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    String::from_utf8(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()).ok()
}

impl<K: Movable> Clone for Ticket<K> {
    fn clone(&self) -> Self {
        let (key, holder, secret) = (self.key.clone(), self.holder.clone(), self.secret.clone());
        Self { key, holder, secret, kind: PhantomData }
    }
}

impl<K: Movable> PartialEq for Ticket<K> {
    fn eq(&self, other: &Self) -> bool {
        self.secret == other.secret && self.holder == other.holder && self.key == other.key
    }
}

impl<K: Movable> Eq for Ticket<K> {}

impl<K: Movable> fmt::Debug for Ticket<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Ticket");
        shown.field("kind", &K::WORD).field("key", &self.key).field("holder", &self.holder).finish_non_exhaustive()
    }
}

#[cfg(feature = "serde")]
impl<K: Movable> serde::Serialize for Ticket<K> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de, K: Movable> serde::Deserialize<'de> for Ticket<K> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl Client {
    /// Adopts the hold of a [`Ticket`]. Await the returned builder. The guard renews the lease until its release, unless [`Adopt::lease`] fixes
    /// it. A hold of this client replaces the offered hold. [`who_is`](Client::who_is) of the guard's [`holder_id`](Guard::holder_id) therefore identifies
    /// this process, and a new fencing token is greater than the tokens before it.
    ///
    /// The client must have the [`prefix`](crate::ClientBuilder::prefix) of the client that created the ticket, and use the same server.
    ///
    /// # Errors
    ///
    /// - [`Error::TicketSpent`] if the ticket was adopted before or has expired.
    /// - [`Error::OutcomeUnknown`] if no reply arrived. The background then releases the lock if it was adopted.
    /// - [`Error::Unreachable`] and [`Error::Refused`]. The ticket is still valid, unless the server refused a later command of the script.
    /// - [`Error::KeyConflict`], [`Error::ShutDown`] and [`Error::Invalid`].
    ///
    /// # Cancel safety
    ///
    /// See [`Adopt`].
    pub fn adopt<K: Movable>(&self, ticket: Ticket<K>) -> Adopt<K> {
        Adopt { client: self.clone(), ticket, lease: None, owner: None }
    }
}

/// A builder for an adoption. Awaiting it adopts the hold.
///
/// # Cancel safety
///
/// Dropping the future after its first poll may consume the ticket. The background then releases the lock.
#[derive(Debug)]
#[must_use = "an adoption does nothing until it is awaited"]
pub struct Adopt<K: Movable = Reentrant> {
    client: Client,
    ticket: Ticket<K>,
    lease: Option<Duration>,
    owner: Option<Owner>,
}

impl<K: Movable> Adopt<K> {
    /// Sets a fixed lease from the adoption on, which the client does not renew. It replaces the rest of the ticket's life.
    /// Default: the client's lease, renewed until the guard's end.
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Adopts the hold for `owner`, which can re-enter the lock. Default: the owner of the enclosing [scope](Owner::scope), or a new owner.
    pub fn owner(mut self, owner: &Owner) -> Self {
        self.owner = Some(owner.clone());
        self
    }

    async fn run(self) -> Result<Guard<K>, Error> {
        let handle = self.client.handle();
        handle.check_process()?;
        if let Some(lease) = self.lease {
            settings::check_lease(lease)?;
        }
        let owner = match &self.owner {
            Some(owner) => Some(owner.id_for(handle).ok_or(InvalidInput::ForeignOwner)?),
            None => Owner::current(handle),
        };
        let Ticket { key, holder, secret, .. } = self.ticket;
        let prefix = &handle.settings.prefix;
        let Some(name) = key.strip_prefix(&**prefix) else {
            return Err(InvalidInput::ForeignTicket { key, prefix: prefix.to_string() }.into());
        };
        let spec = LockSpec::new(handle.clone(), K::KIND, name);
        let lease = self.lease.unwrap_or(handle.settings.session.lease);
        let lease = Duration::from_millis(u64::try_from(lease.as_millis()).unwrap_or(u64::MAX));
        let mut acquire = Box::new(AcquireRequest::new(spec.checked_name()?.clone(), K::KIND, lease));
        acquire.class = spec.metrics().name.clone();
        acquire.owner = owner;
        acquire.renewed = self.lease.is_none();
        let request = AdoptRequest { acquire, offered: holder.into(), secret: secret.into() };
        let outcome = attempt::adopt(handle, request).await;
        let class = spec.metrics();
        match outcome {
            Ok(granted) => {
                class.acquired.count();
                class.held.change(1.0);
                Ok(Guard::new(spec.clone(), granted))
            }
            Err(error) => {
                class.failed.count();
                Err(Error::from_move(spec.name(), error))
            }
        }
    }
}

impl<K: Movable> IntoFuture for Adopt<K> {
    type Output = Result<Guard<K>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Fenced;

    fn ticket() -> Ticket<Fenced> {
        let (field, secret) = ("6f0c:7".into(), "c0ffee:1800000000000000".into());
        Ticket::new("shop.é:7".as_bytes(), &Offered { field, secret })
    }

    #[test]
    fn ticket_survives_its_text() {
        let text = ticket().to_string();
        assert!(text.is_ascii() && !text.contains(char::is_whitespace), "{text}");
        let read: Ticket<Fenced> = text.parse().expect("a ticket");
        assert_eq!(read, ticket());
        assert_eq!((read.key(), read.holder_id().as_str()), ("shop.é:7", "6f0c:7"));
    }

    #[test]
    fn debug_hides_the_secret() {
        let shown = format!("{:?}", ticket());
        assert!(!shown.contains("c0ffee") && shown.contains("shop.é:7"), "{shown}");
    }

    #[test]
    fn text_that_is_no_ticket_is_refused_with_its_reason() {
        let read = |text: &str| text.parse::<Ticket<Fenced>>().expect_err("no ticket");
        let text = ticket().to_string();
        assert_eq!(read("stock"), InvalidTicket::NoTicket);
        assert_eq!(
            read(&text.replacen("ticket-1", "ticket-2", 1)),
            InvalidTicket::OtherVersion { version: "2".to_owned() }
        );
        for cut in START.len() + 1..text.len() {
            assert_eq!(read(&text[..cut]), InvalidTicket::Damaged, "{cut}");
        }
        assert_eq!(
            text.parse::<Ticket>().expect_err("another kind"),
            InvalidTicket::OtherKind { kind: "fenced".to_owned(), expected: "reentrant" }
        );
    }
}
