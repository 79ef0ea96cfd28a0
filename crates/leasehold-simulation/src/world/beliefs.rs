//! The beliefs of each side: of a client by its own clock, and of the server by its keys.

use crate::world::client::{Guard, Outcome, TaskKind};
use crate::world::events::hold_of;
use crate::world::{World, trace};
use bytes::Bytes;
use leasehold_core::command::permits::ID_BYTES;
use leasehold_core::command::{HoldKey, Kind, ReleaseArgs};
use leasehold_core::name::LockName;
use leasehold_core::owner::HoldNumber;
use leasehold_core::reply::Reply;
use leasehold_core::time::Instant;
use std::time::Duration;

impl World {
    /// The time that a client's clock shows.
    pub(crate) fn local(&self, client: usize) -> Instant {
        self.clients[client].clock.shows(self.now)
    }

    /// Whether a holder believes, by its own clock, that it holds.
    pub(crate) fn believes(&self, guard: &Guard) -> bool {
        guard.cell.would_end(self.local(guard.client)).is_none()
    }

    /// Whether a client believes to hold what the server promised it and has not lost.
    pub(crate) fn is_believed(&self, guard: &Guard) -> bool {
        !guard.cell.is_degraded()
            && guard.epoch_of_data == self.server.data_epoch
            && !self.clients[guard.client].clock_is_wrong
            && self.believes(guard)
    }

    /// How many guards of a hold there are.
    pub(crate) fn guards_of(&self, client: usize, hold: HoldNumber) -> usize {
        self.guards.iter().filter(|guard| guard.client == client && guard.hold == hold && guard.alive).count()
    }

    /// Whether the owner of a guard has asked for its lock with `max_hold` and read no grant. The hold that this began may go on.
    pub(crate) fn asked_with_limit(&self, guard: &Guard) -> bool {
        let tasks = self.clients[guard.client].tasks.iter();
        let unread = tasks.filter(|task| !matches!(task.outcome, Some(Outcome::Granted(_))));
        let mut wishes = unread.filter_map(|task| match &task.kind {
            TaskKind::Acquire(wish) => Some(wish),
            TaskKind::Release { .. } | TaskKind::Offer { .. } | TaskKind::Adopt(_) => None,
        });
        wishes.any(|wish| {
            let same = wish.name == guard.name && wish.kind == guard.kind && wish.owner == guard.owner;
            same && guard.owner.is_some() && wish.max_hold.is_some()
        })
    }

    /// How many holds of a client linger.
    pub(crate) fn lingering_of(&self, client: usize) -> usize {
        let of_client = self.guards.iter().filter(|guard| guard.client == client);
        of_client.filter(|guard| self.clients[client].session.lingers(guard.hold)).count()
    }

    /// How many guards of a hold were detached.
    pub(crate) fn detached_of(&self, client: usize, hold: HoldNumber) -> usize {
        self.guards.iter().filter(|guard| guard.client == client && guard.hold == hold && guard.detached).count()
    }

    /// The client that a field is of.
    pub(crate) fn client_of(&self, field: &[u8]) -> Option<usize> {
        let uuid = std::str::from_utf8(field.get(..36)?).ok()?;
        let number = usize::from_str_radix(uuid.get(24..)?, 16).ok()?;
        (number < self.clients.len()).then_some(number)
    }

    pub(crate) fn is_of_the_dead(&self, field: &[u8]) -> bool {
        self.client_of(field).is_some_and(|client| self.clients[client].dead)
    }

    /// The id that tells a guard's hold from all others in the calls of its kind.
    pub(crate) fn wire_id(&self, client: usize, kind: Kind, name: &LockName, hold: &HoldKey) -> Bytes {
        let session = &self.clients[client].session;
        let keys = kind.protocol().keys(name, &session.client());
        let settings = session.settings();
        let give = ReleaseArgs { name, keys: &keys, hold, count: 0, granted: true, keep: Duration::ZERO, settings };
        hold_of(&kind.protocol().release(&give)).expect("a release names its hold").0
    }

    /// The count that the server has of a hold.
    pub(crate) fn count_of(&self, name: &LockName, field: &Bytes) -> u32 {
        match self.server.command(&[b"HGET", name.key(), field]) {
            Ok(Reply::Bulk(text)) => std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok()).unwrap_or(0),
            _ => 0,
        }
    }

    /// The count that the server has of a guard's hold, where it keeps one.
    pub(crate) fn count_on_server(&self, guard: &Guard) -> Option<u32> {
        let field = &guard.field;
        match guard.kind {
            Kind::Lock | Kind::Fair | Kind::FencedFair | Kind::Fenced | Kind::Spin | Kind::Read => {
                Some(self.count_of(&guard.name, field))
            }
            Kind::Write => Some(self.count_of(&guard.name, &[field.as_ref(), b":write"].concat().into())),
            Kind::Simple | Kind::Semaphore | Kind::Permits | Kind::Latch => None,
        }
    }

    /// Whether the server has a guard's hold, so far as that can be seen.
    pub(crate) fn is_on_server(&self, guard: &Guard) -> bool {
        match guard.kind {
            Kind::Simple => self.server.command(&[b"GET", guard.name.key()]) == Ok(Reply::Bulk(guard.field.clone())),
            Kind::Permits => {
                let deadlines = guard.name.suffixed("timeout");
                let now = self.server.wall_millis();
                guard.wire_id.chunks(ID_BYTES).all(|id| match self.server.command(&[b"ZSCORE", &deadlines, id]) {
                    Ok(Reply::Bulk(end)) => String::from_utf8_lossy(&end).parse().is_ok_and(|end: i64| end > now),
                    _ => false,
                })
            }
            _ => self.count_on_server(guard).is_none_or(|count| count > 0),
        }
    }

    /// Tells what each side believes at the end of a history.
    pub(crate) fn tell_beliefs(&self) {
        trace!(self, "what each side believes:");
        for guard in self.guards.iter().filter(|guard| guard.alive) {
            trace!(
                self,
                "client {}{}: {:?} of {} {:?} until {:?} by its clock, which shows {:?}: {}; the server counts {:?}",
                guard.client,
                if self.clients[guard.client].runs() { "" } else { " (paused)" },
                guard.hold,
                guard.name,
                guard.kind,
                guard.cell.deadline(),
                self.local(guard.client),
                guard
                    .cell
                    .would_end(self.local(guard.client))
                    .map_or_else(|| "held".to_owned(), |end| format!("{end:?}")),
                self.count_on_server(guard)
            );
        }
        for key in self.server.keys() {
            let say = |words: &[&[u8]]| self.server.command(words).ok();
            let left = say(&[b"PTTL", &key]);
            let value = [
                say(&[b"GET", &key]),
                say(&[b"HGETALL", &key]),
                say(&[b"LRANGE", &key, b"0", b"-1"]),
                say(&[b"ZRANGE", &key, b"0", b"-1"]),
            ];
            trace!(self, "the server has {key:?} for {left:?}: {:?}", value.into_iter().flatten().next());
        }
    }
}
