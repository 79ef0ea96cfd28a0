//! Deadlocks across processes, detected from the records of clients.

mod graph;

use super::state::{self, LockState};
use crate::client::Client;
use crate::client::ids::{ClientId, HolderId};
use crate::error::Error;
use crate::lock::spec::LockSpec;
use futures_util::future::join_all;
use leasehold_core::command::Kind;
use leasehold_core::command::record::uses::LockUse;
use leasehold_core::name::LockName;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::time::Duration;

/// The number of inspections in flight.
const AT_ONCE: usize = 8;

/// The result of [`Client::deadlocks`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Deadlocks {
    /// The deadlocks.
    pub found: Vec<Deadlock>,
    /// Awaited locks that this client's user may not inspect. `found` contains no deadlock over these locks.
    pub unseen: Vec<UnseenLock>,
}

/// A lock that the client's user may not inspect.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct UnseenLock {
    /// The key of the lock: its name with the prefix of the waiting client.
    pub key: String,
    /// The error message of the server.
    pub refusal: String,
}

/// A cycle of owners that wait for each other until a wait elapses or a hold ends.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Deadlock {
    /// The waits in order. Each waits for a lock of the next entry's client or of a process around that client; the
    /// last waits for the first. A single entry waits for a lock that an outer owner scope of its own task holds.
    pub waits: Vec<DeadlockedWait>,
}

/// A wait in a [`Deadlock`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct DeadlockedWait {
    /// The waiting client.
    pub client: ClientId,
    /// The host of the client.
    pub host: String,
    /// The process of the client.
    pub pid: u32,
    /// The name of the application.
    pub application: String,
    /// The key of the lock: its name with the prefix of the client.
    pub key: String,
    /// The time for which the client has waited.
    pub waited: Duration,
    /// The holder that blocks the wait.
    pub holder: HolderId,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, wait) in self.waits.iter().enumerate() {
            let DeadlockedWait { host, pid, application, key, waited, holder, .. } = wait;
            let separator = if at == 0 { "" } else { "; " };
            write!(
                f,
                "{separator}{application} (process {pid} on {host}) has waited {waited:?} for {key:?}, which {holder} holds"
            )?;
        }
        Ok(())
    }
}

/// A node of the wait-for graph.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Node<'a> {
    /// An owner, by the index of its client and its number there.
    Owner(usize, u64),
    /// A hold, regardless of its owner.
    Hold(&'a str),
}

impl Client {
    /// Finds deadlocks among the owners of all clients that [announce](crate::ClientBuilder::announce) themselves.
    ///
    /// A client's record lists the holds and waits of its owners that have lasted for a second; the client rewrites it within a second after a
    /// change. So the search finds a deadlock within a few seconds. It compares each wait with the holder on the server: a reported deadlock existed
    /// at the last write of the clients' records. An owner scope ([`Owner::scope`](crate::Owner::scope)) groups holds and waits. A task that acquires
    /// without a scope has an owner for each acquire, so the search cannot connect its waits with its holds. A process that runs under a lock of
    /// another process declares it with [`announce_within`](crate::ClientBuilder::announce_within), as `leasehold run` does. Semaphores and latches
    /// have no single holder, and are ignored.
    ///
    /// This needs the rights of the blocks `locks` and `record` in
    /// [docs/security.md](https://github.com/leasehold/leasehold/blob/main/docs/security.md), for the locks of all these clients. A lock that the
    /// user may not inspect is not an error: [`Deadlocks::unseen`] lists it.
    ///
    /// # Errors
    ///
    /// [`Error::SearchFailed`]; and [`Error::Unreachable`], [`Error::OutcomeUnknown`] or [`Error::Refused`] if the record or a lock of a client
    /// could not be read within the command timeout.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let client = leasehold::Client::embedded();
    /// let all = client.deadlocks().await?;
    /// for deadlock in &all.found {
    ///     println!("{deadlock}");
    /// }
    /// for lock in &all.unseen {
    ///     println!("{} may be part of another deadlock: {}", lock.key, lock.refusal);
    /// }
    /// # Ok::<(), leasehold::Error>(()) }).unwrap();
    /// ```
    pub async fn deadlocks(&self) -> Result<Deadlocks, Error> {
        let (mut records, mut clients) = (self.announced_clients(), Vec::new());
        while let Some(announced) = records.next_record().await? {
            clients.push(announced);
        }
        let uses =
            || clients.iter().enumerate().flat_map(|(at, client)| client.uses.iter().map(move |lock| (at, lock)));
        // The owner of each announced hold.
        let mut owners = HashMap::new();
        for (at, lock) in uses() {
            if let (Some(hold), [owner]) = (&lock.hold, &lock.owners[..]) {
                owners.insert(hold.as_str(), Node::Owner(at, *owner));
            }
        }
        let waits: Vec<(usize, &LockUse)> = uses()
            .filter(|(at, lock)| {
                let blocks = !lock.owners.is_empty() || !clients[*at].record.within.is_empty();
                let has_holder = !matches!(lock.kind, Kind::Semaphore | Kind::Permits | Kind::Latch);
                lock.hold.is_none() && blocks && has_holder
            })
            .collect();
        let (states, unseen) = looks_at(self, &waits).await?;
        let holders: Vec<Vec<&HolderId>> = waits
            .iter()
            .map(|(_, lock)| states.get(&lock.key).map_or_else(Vec::new, |state| in_the_way(state, lock.kind)))
            .collect();
        // The holds of other clients around a process end only after its waits.
        let around = |at: usize| clients[at].record.within.iter().map(|hold| Node::Hold(hold.as_str()));
        let graph: Vec<_> = waits
            .iter()
            .zip(&holders)
            .map(|((at, lock), holders)| graph::Wait {
                owners: lock.owners.iter().map(|owner| Node::Owner(*at, *owner)).chain(around(*at)).collect(),
                holders: holders.iter().flat_map(|holder| nodes_of(holder, &owners)).collect(),
            })
            .collect();
        let told = |cycle: Vec<usize>| {
            let wait = |at: usize| {
                let (place, next) = (cycle[at], cycle[(at + 1) % cycle.len()]);
                let blocking =
                    |holder: &&&HolderId| nodes_of(holder, &owners).any(|node| graph[next].owners.contains(&node));
                let (client, lock) = (&clients[waits[place].0], waits[place].1);
                let holder = holders[place].iter().find(blocking)?;
                Some(DeadlockedWait {
                    client: client.client.to_string().into(),
                    host: client.record.host.clone(),
                    pid: client.record.pid,
                    application: client.record.application.clone(),
                    key: lock.key.clone(),
                    waited: lock.lasted,
                    holder: (*holder).clone(),
                })
            };
            Deadlock { waits: (0..cycle.len()).filter_map(wait).collect() }
        };
        Ok(Deadlocks { found: graph::cycles(&graph).into_iter().map(told).collect(), unseen })
    }
}

/// Returns the nodes of a holder: its hold and its owner.
fn nodes_of<'a>(holder: &'a HolderId, owners: &HashMap<&'a str, Node<'a>>) -> impl Iterator<Item = Node<'a>> {
    owners.get(holder.as_str()).cloned().into_iter().chain([Node::Hold(holder.as_str())])
}

/// Returns the holders that block a grant of this kind.
fn in_the_way(state: &LockState, kind: Kind) -> Vec<&HolderId> {
    let readers = state.readers.iter().filter(|_| kind == Kind::Write);
    state.holders.iter().chain(readers).map(|holder| &holder.id).collect()
}

/// Reads the awaited locks by their keys, and lists the locks that the user may not inspect.
async fn looks_at(
    client: &Client,
    waits: &[(usize, &LockUse)],
) -> Result<(HashMap<String, LockState>, Vec<UnseenLock>), Error> {
    let keys: BTreeSet<&str> = waits.iter().map(|(_, lock)| lock.key.as_str()).collect();
    let keys: Vec<&str> = keys.into_iter().collect();
    let look_at = async |key: &str| {
        let Ok(name) = LockName::new("", key) else { return Ok(None) };
        state::look_at(&LockSpec::found(client.handle().clone(), Kind::Lock, key), &name, AT_MOST).await
    };
    let (mut states, mut unseen) = (HashMap::new(), Vec::new());
    for some in keys.chunks(AT_ONCE) {
        for (key, state) in some.iter().zip(join_all(some.iter().map(|key| look_at(key))).await) {
            let key = (*key).to_owned();
            match state {
                Ok(state) => states.extend(state.map(|state| (key, state))),
                Err(Error::Refused { refusal, .. }) if !refusal.is_transient() => {
                    unseen.push(UnseenLock { key, refusal: refusal.text().to_owned() });
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok((states, unseen))
}

/// The maximum number of holders that are compared with announced holds.
const AT_MOST: u32 = 64;

#[cfg(test)]
mod tests {
    use super::super::Holder;
    use super::super::state::FoundKind;
    use super::*;

    fn holder(name: &str) -> Holder {
        let remaining = Some(Duration::from_secs(30));
        Holder { id: HolderId::from(name), hold_count: 1, remaining }
    }

    #[test]
    fn reader_waits_for_the_writer_and_for_no_reader() {
        let state = LockState {
            name: "stock".to_owned(),
            kind: FoundKind::ReadWriteLock,
            holders: vec![holder("writer")],
            readers: vec![holder("one"), holder("other")],
            held: 3,
            remaining: Some(Duration::from_secs(30)),
            waiters: None,
            queue: Vec::new(),
            fencing_token: None,
            available: None,
            problems: Vec::new(),
        };
        let names = |kind| in_the_way(&state, kind).into_iter().map(HolderId::as_str).collect::<Vec<_>>();
        assert_eq!(names(Kind::Read), ["writer"]);
        assert_eq!(names(Kind::Write), ["writer", "one", "other"]);
    }
}
