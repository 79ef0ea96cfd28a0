//! Random draws that stay the same when parts of a world are left out.
//!
//! A world draws from one generator, so that a draw depends on all draws before it. When a part is left out, its draws are missing, and
//! everything after it would be another world. So a world may be recorded: each draw is noted under the part that it is for and the line
//! of code that draws. A world that is replayed without some of the parts takes its draws from there, and those that the recorded world
//! never made follow from the seed.

use crate::world::World;
use crate::world::events::{CallKey, Message, WorldEvent};
use crate::world::network::{Caller, Role};
use leasehold_core::call::Call;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::Arc;

/// The states of a generator before its draws, by the part of the world and the line of code that draws.
pub(crate) type Record = FxHashMap<u64, Vec<u64>>;

/// The source of the draws of a world, beside its generator.
#[derive(Debug)]
enum Book {
    Written(Record),
    Read { record: Arc<Record>, seed: u64, read: FxHashMap<u64, usize> },
}

/// A generator, and perhaps the record of its draws.
#[derive(Debug)]
pub(crate) struct Draws {
    rng: fastrand::Rng,
    /// The draws are for this part of the world.
    part: u64,
    book: Option<Box<Book>>,
}

impl Draws {
    pub(crate) fn with_seed(seed: u64) -> Self {
        Self { rng: fastrand::Rng::with_seed(seed), part: 0, book: None }
    }

    /// From here on the draws are recorded.
    pub(crate) fn record(&mut self) {
        self.book = Some(Box::new(Book::Written(Record::default())));
    }

    /// The draws that were recorded.
    pub(crate) fn into_record(self) -> Arc<Record> {
        match self.book.map(|book| *book) {
            Some(Book::Written(record)) => Arc::new(record),
            Some(Book::Read { record, .. }) => record,
            None => Arc::default(),
        }
    }

    /// From here on the draws are those of a record, as far as it has them.
    pub(crate) fn replay(&mut self, record: Arc<Record>, seed: u64) {
        self.book = Some(Box::new(Book::Read { record, seed, read: FxHashMap::default() }));
    }
}

impl Deref for Draws {
    type Target = fastrand::Rng;

    fn deref(&self) -> &fastrand::Rng {
        &self.rng
    }
}

/// Every draw changes the generator, and so comes by here.
impl DerefMut for Draws {
    #[track_caller]
    fn deref_mut(&mut self) -> &mut fastrand::Rng {
        if let Some(book) = &mut self.book {
            let place = Location::caller();
            let stream = hash((self.part, place.file(), place.line(), place.column()));
            match &mut **book {
                Book::Written(record) => record.entry(stream).or_default().push(self.rng.get_seed()),
                Book::Read { record, seed, read } => {
                    let next = read.entry(stream).or_default();
                    let known = record.get(&stream).and_then(|states| states.get(*next)).copied();
                    self.rng.seed(known.unwrap_or_else(|| hash((*seed, stream, *next))));
                    *next += 1;
                }
            }
        }
        &mut self.rng
    }
}

pub(crate) fn hash(what: impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    what.hash(&mut hasher);
    hasher.finish()
}

/// A reset follows from a call, and its event has another number in each world.
pub(crate) fn part_of_reset(client: usize, role: Role) -> u64 {
    hash(("reset", client, role == Role::Calls))
}

impl World {
    /// The next draws are for this part of the world. Gives the part of the draws before.
    pub(crate) fn draw_for(&mut self, part: impl Hash) -> u64 {
        // A world that is not recorded saves the time.
        if self.rng.book.is_none() {
            return 0;
        }
        self.draw_as(hash(part))
    }

    /// As [`draw_for`](Self::draw_for), with a part that it gave.
    pub(crate) fn draw_as(&mut self, part: u64) -> u64 {
        self.net.insides.part = part;
        std::mem::replace(&mut self.rng.part, part)
    }

    /// The next draws are for an event, whose name does not depend on which parts are left out.
    pub(crate) fn draw_for_event(&mut self, number: u64, event: &WorldEvent) {
        if self.rng.book.is_some() {
            let part = self.part_of(number, event);
            self.draw_as(part);
        }
    }

    /// The next draws are for a call.
    pub(crate) fn draw_for_call(&mut self, key: CallKey, client: usize, who: Caller, call: &Call) -> u64 {
        if self.rng.book.is_none() {
            return 0;
        }
        let part = match who {
            Caller::Task(task, _) => self.part_of_task("call", client, task),
            Caller::Background(_) => hash(("background", client, call.script().name(), call.keys().first())),
        };
        self.net.parts.insert(key, part);
        self.draw_as(part)
    }

    pub(crate) fn part_of_task(&self, what: &str, client: usize, task: usize) -> u64 {
        let task = &self.clients[client].tasks[task];
        hash((what, task.number, task.acquires()))
    }

    fn part_of(&self, number: u64, event: &WorldEvent) -> u64 {
        match event {
            WorldEvent::Act(act) => act.draws_for(self, number),
            WorldEvent::Poll { client, task } => self.part_of_task("poll", *client, *task),
            WorldEvent::Message(message) => match message {
                Message::Arrive { key, .. }
                | Message::Copy { key, .. }
                | Message::Answer { key, .. }
                | Message::NoScript { key, .. } => hash(("message", self.net.parts.get(key))),
                Message::Subscription { client, channel, .. } => hash(("subscription", client, channel)),
                Message::Lost { client, role, .. } => part_of_reset(*client, *role),
                other => hash(("client", other.within(self))),
            },
        }
    }
}
