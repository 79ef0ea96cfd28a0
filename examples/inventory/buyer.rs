//! A buyer acquires the lock, reads the stock, and buys a unit if the stock is not empty.

use super::store::{Failed, Store};
use leasehold::kind::LockKind;
use leasehold::kind::{Fair, Permit};
use leasehold::{Acquire, Client, Error, Guard};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use tokio::sync::{oneshot, watch};

/// The number of units.
pub(crate) const UNITS: usize = 100;

/// The lock of a sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    FairLock,
    PlainLock,
    Semaphore,
    NoLock,
}

impl Way {
    const ALL: [Self; 4] = [Self::FairLock, Self::PlainLock, Self::Semaphore, Self::NoLock];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::FairLock => "fair lock",
            Self::PlainLock => "plain lock",
            Self::Semaphore => "semaphore",
            Self::NoLock => "no lock",
        }
    }

    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|way| way.word() == word)
    }
}

/// A sale of units.
#[derive(Clone)]
pub(crate) struct Sale {
    pub(crate) way: Way,
    /// The prefix of all keys, which the clients also add to lock names.
    pub(crate) prefix: String,
    /// The unique name of the sale.
    pub(crate) name: String,
    pub(crate) store: Store,
}

/// The turn of a buyer, which ends with its release.
pub(crate) enum Turn {
    Fair(Guard<Fair>),
    Plain(Guard),
    Permit(Guard<Permit>),
    Free,
}

/// The fate of a buyer in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The buyer lives, and releases the lock.
    Lives,
    /// The buyer reads the stock and stops.
    StopsBeforeItBuys,
    /// The buyer buys a unit and stops.
    StopsAfterItBought,
}

impl Fate {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Lives => "lives",
            Self::StopsBeforeItBuys => "before",
            Self::StopsAfterItBought => "after",
        }
    }

    pub(crate) fn parse(word: &str) -> Option<Self> {
        [Self::Lives, Self::StopsBeforeItBuys, Self::StopsAfterItBought].into_iter().find(|fate| fate.word() == word)
    }
}

impl Sale {
    /// The buyer of each unit.
    pub(crate) fn sold(&self) -> String {
        format!("{}{}:sold", self.prefix, self.name)
    }

    /// The served buyers, with their times.
    pub(crate) fn served(&self) -> String {
        format!("{}{}:served", self.prefix, self.name)
    }

    /// The queue of the fair lock on the server: see `docs/wire-protocol.md`.
    pub(crate) fn queue(&self) -> String {
        format!("redisson_lock_queue:{{{}{}}}", self.prefix, self.name)
    }

    /// Requests a turn. `asked` receives a message once the request is sent.
    pub(crate) async fn turn(
        &self,
        client: &Client,
        asked: oneshot::Sender<()>,
        mut doors: watch::Receiver<bool>,
    ) -> Result<Turn, Failed> {
        Ok(match self.way {
            Way::FairLock => Turn::Fair(ask(client.fair_lock(&self.name).acquire(), asked).await?),
            Way::PlainLock => Turn::Plain(ask(client.lock(&self.name).acquire(), asked).await?),
            Way::Semaphore => Turn::Permit(ask(client.semaphore(&self.name).acquire(), asked).await?),
            Way::NoLock => {
                let _ = asked.send(());
                doors.wait_for(|open| *open).await?;
                Turn::Free
            }
        })
    }

    /// Runs a buyer from its arrival to its end. `holds` receives a message before the buyer stops.
    pub(crate) async fn buy(
        &self,
        client: &Client,
        buyer: usize,
        fate: Fate,
        asked: oneshot::Sender<()>,
        doors: watch::Receiver<bool>,
        holds: oneshot::Sender<()>,
    ) -> Result<(), Failed> {
        let turn = self.turn(client, asked, doors).await?;
        self.store.append(&self.served(), &format!("{buyer} {}", clock())).await?;
        let sold = self.store.length(&self.sold()).await?;
        if fate == Fate::StopsBeforeItBuys {
            return stop(turn, holds).await;
        }
        // The lock protects the time between the check and this command. The sale is one command, so a dying buyer has
        // bought a unit or no unit.
        if sold < UNITS {
            self.store.append(&self.sold(), &buyer.to_string()).await?;
        }
        if fate == Fate::StopsAfterItBought {
            return stop(turn, holds).await;
        }
        turn.release().await?;
        Ok(())
    }
}

impl Turn {
    /// Ends the turn.
    pub(crate) async fn release(self) -> Result<(), Error> {
        match self {
            Self::Fair(guard) => guard.release().await,
            Self::Plain(guard) => guard.release().await,
            Self::Permit(guard) => guard.release().await,
            Self::Free => Ok(()),
        }
    }
}

/// Acquires a lock, and signals the first poll, which sends the request.
async fn ask<K: LockKind>(acquire: Acquire<K>, asked: oneshot::Sender<()>) -> Result<Guard<K>, Error> {
    let mut acquiring = pin!(acquire.into_future());
    let first = poll_fn(|cx| Poll::Ready(acquiring.as_mut().poll(cx))).await;
    let _ = asked.send(());
    match first {
        Poll::Ready(granted) => granted,
        Poll::Pending => acquiring.await,
    }
}

/// Holds the lock until the process is killed.
async fn stop(turn: Turn, holds: oneshot::Sender<()>) -> Result<(), Failed> {
    let _turn = turn;
    let _ = holds.send(());
    std::future::pending().await
}

/// Returns the time in microseconds, by a clock that all processes of the machine share.
pub(crate) fn clock() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000 + now.tv_nsec.unsigned_abs() / 1_000
}
