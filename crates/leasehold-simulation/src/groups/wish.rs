//! The wishes of users, and their answers: a multi lock, a quorum lock or a single lock.

use leasehold::{Client, Error, Guard, LossToken, Member, MultiGuard, MultiLock, Owner, QuorumGuard, QuorumLock};
use std::future::pending;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

/// A future of a user.
pub(super) type Doing<T> = Pin<Box<dyn Future<Output = T>>>;

/// The result of an acquire; nothing if another has it.
pub(super) type Answer = Result<Option<Grant>, Error>;

/// A thing that is locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Thing {
    pub(super) name: String,
    /// Those who read it do not exclude each other.
    pub(super) reads: bool,
}

/// The wish of a user.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) what: What,
    pub(super) patience: Patience,
    /// A fixed lease, if there is one.
    pub(super) lease: Option<Duration>,
    /// Whether he asks as the owner that his process has.
    pub(super) owned: bool,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    /// All of these, each of its sort.
    All(Vec<(Sort, String)>),
    /// The stripes of all these things.
    Stripes(Vec<u32>),
    /// One on a majority of the servers, for the first of which the process has no clients.
    Quorum { name: String, without: usize },
    /// One by itself, beside those who ask for several.
    Alone(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Lock,
    Fenced,
    Read,
    Write,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    Try,
    For(Duration),
    Forever,
}

/// How many stripes there are.
const STRIPES: u32 = 6;

impl Wish {
    /// The things that are locked when it is granted.
    pub(super) fn things(&self, clients: &[Client]) -> Vec<Thing> {
        let thing = |name: String, reads| Thing { name, reads };
        match &self.what {
            What::All(members) => members.iter().map(|(sort, name)| thing(name.clone(), *sort == Sort::Read)).collect(),
            What::Stripes(things) => {
                let striped = clients[0].striped_lock("striped", STRIPES);
                let mut stripes: Vec<_> = things.iter().map(|one| striped.stripe_of(one.to_string())).collect();
                stripes.sort_unstable();
                stripes.dedup();
                stripes.into_iter().map(|stripe| thing(format!("striped:{stripe}"), false)).collect()
            }
            What::Quorum { name, .. } | What::Alone(name) => vec![thing(name.clone(), false)],
        }
    }

    /// Asks for it. The thing with number `n` is on the server with number `n` modulo that of the servers, and so with the client of that.
    pub(super) fn ask(&self, clients: &[Client], owner: &Owner) -> Doing<Answer> {
        let owner = self.owned.then(|| owner.clone());
        match &self.what {
            What::All(members) => {
                let member = |(sort, name): &(Sort, String)| member(*sort, name, client_of(clients, name));
                self.multi(MultiLock::new(members.iter().map(member)), owner)
            }
            What::Stripes(things) => {
                let striped = clients[0].striped_lock("striped", STRIPES);
                self.multi(striped.all_of(things.iter().map(u32::to_string)), owner)
            }
            What::Quorum { name, without } => {
                self.quorum(QuorumLock::of(clients.len(), clients.iter().skip(*without).cloned(), name))
            }
            What::Alone(name) => self.alone(client_of(clients, name), name, owner),
        }
    }

    fn multi(&self, lock: MultiLock, owner: Option<Owner>) -> Doing<Answer> {
        if self.patience == Patience::Try {
            return Box::pin(async move { Ok(lock.try_acquire().await?.map(Grant::All)) });
        }
        let mut acquire = lock.acquire();
        if let Some(owner) = owner {
            acquire = acquire.owner(&owner);
        }
        if let Patience::For(wait) = self.patience {
            acquire = acquire.wait(wait);
        }
        if let Some(lease) = self.lease {
            acquire = acquire.lease(lease);
        }
        Box::pin(async move { acquire.await.map(Grant::All).map(Some) })
    }

    fn quorum(&self, lock: QuorumLock) -> Doing<Answer> {
        if self.patience == Patience::Try {
            return Box::pin(async move { Ok(lock.try_acquire().await?.map(Grant::Quorum)) });
        }
        let mut acquire = lock.acquire();
        if let Patience::For(wait) = self.patience {
            acquire = acquire.wait(wait);
        }
        if let Some(lease) = self.lease {
            acquire = acquire.lease(lease);
        }
        Box::pin(async move { acquire.await.map(Grant::Quorum).map(Some) })
    }

    fn alone(&self, client: &Client, name: &str, owner: Option<Owner>) -> Doing<Answer> {
        let lock = client.lock(name);
        let wait = match self.patience {
            Patience::Try => return Box::pin(async move { Ok(lock.try_acquire().await?.map(Grant::Alone)) }),
            Patience::For(wait) => Some(wait),
            Patience::Forever => None,
        };
        let lease = self.lease;
        Box::pin(async move {
            let mut acquire = lock.acquire();
            if let Some(owner) = &owner {
                acquire = acquire.owner(owner);
            }
            if let Some(wait) = wait {
                acquire = acquire.wait(wait);
            }
            if let Some(lease) = lease {
                acquire = acquire.lease(lease);
            }
            acquire.await.map(Grant::Alone).map(Some)
        })
    }
}

/// The client of the server that a name is on: the digit at its end says which.
fn client_of<'a>(clients: &'a [Client], name: &str) -> &'a Client {
    let number = name.bytes().last().map_or(0, |digit| usize::from(digit - b'0'));
    &clients[number % clients.len()]
}

fn member(sort: Sort, name: &str, client: &Client) -> Member {
    match sort {
        Sort::Lock => client.lock(name).into(),
        Sort::Fenced => client.fenced_lock(name).into(),
        Sort::Read => client.read_write_lock(name).read().into(),
        Sort::Write => client.read_write_lock(name).write().into(),
    }
}

/// The grant.
pub(super) enum Grant {
    All(MultiGuard),
    Quorum(QuorumGuard),
    Alone(Guard),
}

impl Grant {
    pub(super) fn is_held(&self) -> bool {
        match self {
            Self::All(guard) => guard.is_held(),
            Self::Quorum(guard) => guard.is_held(),
            Self::Alone(guard) => guard.is_held(),
        }
    }

    pub(super) fn remaining(&self) -> Duration {
        match self {
            Self::All(guard) => guard.remaining(),
            Self::Quorum(guard) => guard.remaining(),
            Self::Alone(guard) => guard.remaining(),
        }
    }

    /// On how many servers a quorum is held.
    pub(super) fn servers(&self) -> Option<usize> {
        match self {
            Self::Quorum(guard) => Some(guard.servers()),
            Self::All(_) | Self::Alone(_) => None,
        }
    }

    /// Completes when it is lost, as a holder learns it who does nothing else.
    async fn lost(&self) {
        match self {
            Self::All(guard) => drop(guard.lost().await),
            Self::Quorum(guard) => drop(guard.lost().await),
            Self::Alone(guard) => drop(guard.lost().await),
        }
    }

    /// Completes when it is lost, as a holder learns it whose work is stopped by that.
    async fn stopped(&self) {
        let work = pending::<()>();
        match self {
            Self::All(guard) => drop(guard.run(work).await),
            Self::Quorum(guard) => drop(guard.run(work).await),
            Self::Alone(guard) => drop(guard.run(work).await),
        }
    }

    fn token(&self) -> LossToken {
        match self {
            Self::All(guard) => guard.cancellation_token(),
            Self::Quorum(guard) => guard.cancellation_token(),
            Self::Alone(guard) => guard.cancellation_token(),
        }
    }

    /// Completes when the holder is told that it was lost, in one of the ways that there are.
    pub(super) fn told(self: &Rc<Self>, way: u8) -> Doing<()> {
        let grant = self.clone();
        match way % 3 {
            0 => Box::pin(async move { grant.lost().await }),
            1 => Box::pin(async move { grant.stopped().await }),
            _ => {
                let token = grant.token();
                Box::pin(async move {
                    token.cancelled().await;
                })
            }
        }
    }

    pub(super) fn release(self) -> Doing<Result<(), Error>> {
        match self {
            Self::All(guard) => Box::pin(guard.release()),
            Self::Quorum(guard) => Box::pin(guard.release()),
            Self::Alone(guard) => Box::pin(guard.release()),
        }
    }
}
