//! The users of a random world, who ask for locks, hold them, work on a store, and give them back.

use crate::terms::{CAPACITY, Choices, LEASE, LockFamily};
use crate::world::client::{Clock, Guard, PollPolicy};
use crate::world::draws::hash;
use crate::world::events::Act;
use crate::world::history::Fact;
use crate::world::parts::{ENTRY, Part};
use crate::world::stats::{Coverage, FaultKind};
use crate::world::store::{Access, Admission, Version, Versions};
use crate::world::{World, ms, name, trace};
use leasehold_core::call::{Call, Replicas};
use leasehold_core::command::{Kind, latch};
use leasehold_core::name::LockName;
use leasehold_core::session::{AcquireRequest, AdoptRequest, Fallback, LingerTime, Patience};
use std::time::Duration;

/// Something that a user is about to do.
#[derive(Debug)]
pub(crate) enum UserEvent {
    Abandon {
        client: usize,
        task: usize,
    },
    Start {
        client: usize,
        /// The number of the operation in the world.
        number: u32,
    },
    /// A new process begins, in the place of one that crashed.
    Join,
    GiveUp {
        guard: usize,
        how: u8,
    },
    /// A user comes with a ticket.
    Adopt {
        client: usize,
        /// The number of the operation that acquired the hold.
        number: u32,
        wish: Box<AdoptRequest>,
        drops: bool,
    },
    /// A count comes to a latch.
    CountDown {
        call: Call,
    },
    /// A holder begins to work on what the store has.
    Section {
        guard: usize,
    },
    /// Its read comes to the store.
    StoreRead {
        guard: usize,
    },
    /// The value that it read comes to the holder.
    Work {
        guard: usize,
        read: Versions,
    },
    /// Its write comes to the store.
    StoreWrite {
        guard: usize,
        read: Versions,
    },
}

impl Act for UserEvent {
    /// Latches and stores are no part of a client.
    fn within(&self, world: &World) -> Option<usize> {
        match self {
            Self::Abandon { client, .. } | Self::Start { client, .. } | Self::Adopt { client, .. } => Some(*client),
            Self::GiveUp { guard, .. } | Self::Section { guard } | Self::Work { guard, .. } => {
                Some(world.guards[*guard].client)
            }
            Self::Join | Self::CountDown { .. } | Self::StoreRead { .. } | Self::StoreWrite { .. } => None,
        }
    }

    fn draws_for(&self, world: &World, event: u64) -> u64 {
        match self {
            Self::Start { number, .. } => hash(("start", number)),
            Self::Abandon { client, task } => world.part_of_task("poll", *client, *task),
            Self::Adopt { client, number, .. } => hash(("adopt", client, number)),
            Self::Join => hash(("fault", event)),
            Self::GiveUp { guard, .. } => hash(("give up", world.guards[*guard].number)),
            Self::Section { guard }
            | Self::StoreRead { guard }
            | Self::Work { guard, .. }
            | Self::StoreWrite { guard, .. } => hash(("section", world.guards[*guard].number)),
            Self::CountDown { call } => hash(("count", call.keys().first())),
        }
    }

    fn happen(self: Box<Self>, world: &mut World) {
        match *self {
            Self::Abandon { client, task } => world.abandon(client, task),
            Self::Start { client, number } => world.start_one(client, number),
            Self::Join => world.join(),
            Self::GiveUp { guard, how } => world.give_up(guard, how),
            Self::Adopt { client, number, wish, drops } => world.adopt(client, number, *wish, drops),
            Self::CountDown { call } => world.count_down(&call),
            Self::Section { guard } => world.begin_section(guard),
            Self::StoreRead { guard } => world.store_reads(guard),
            Self::Work { guard, read } => world.section_works(guard, read),
            Self::StoreWrite { guard, read } => world.store_writes(guard, read),
        }
    }

    /// Another user starts what one of a dead client would have started.
    fn miss(self: Box<Self>, world: &mut World) {
        match *self {
            Self::Start { number, .. } => {
                let client = world.somebody();
                world.at(world.now, Self::Start { client, number });
            }
            Self::Adopt { .. } => world.plan.tickets_sent -= 1,
            _ => {}
        }
    }
}

impl World {
    /// A new process begins, in the place of one that crashed.
    fn join(&mut self) {
        let client = self.add_client(self.plan.settings.clone());
        trace!(self, "client {client} begins");
        let owners = (0..2).map(|_| self.clients[client].session.new_owner()).collect();
        self.plan.owners.push(owners);
        self.clients[client].clock = Clock::default();
        let joined = self.plan.owners.len() - self.plan.clients - 1;
        for place in 0..self.rng.usize(1..4) {
            let pause = self.between(ms(0), ms(600));
            let number = self.parts.plan_operation_of_joined(joined, place);
            self.after(pause, UserEvent::Start { client, number });
        }
    }

    fn some_polls(&mut self) -> PollPolicy {
        let roll = self.rng.f64();
        if roll < self.plan.never {
            self.stats.fault(FaultKind::Unpolled);
            PollPolicy::Never
        } else if roll < self.plan.never + self.plan.late {
            self.stats.fault(FaultKind::LatePoll);
            let most = ms([5, 60, 300][self.rng.usize(..3)]);
            PollPolicy::Late(self.between(ms(0), most))
        } else {
            PollPolicy::AtOnce
        }
    }

    fn perhaps_dropped(&mut self, client: usize, task: usize) {
        if self.rng.f64() < self.plan.dropped {
            self.stats.fault(FaultKind::Dropped);
            if self.rng.u8(..4) == 0 {
                self.clients[client].tasks[task].drop_at_reply = true;
                return;
            }
            let most = [ms(1), ms(30), ms(1_000)][self.rng.usize(..3)];
            let pause = self.between(Duration::ZERO, most);
            self.after(pause, UserEvent::Abandon { client, task });
        }
    }

    /// A user wants a lock.
    pub(crate) fn start_one(&mut self, client: usize, number: u32) {
        if self.plan.over {
            return;
        }
        self.parts.acting = number;
        if self.plan.family == LockFamily::Latch && self.rng.bool() {
            return self.start_count(client);
        }
        let lock = name(&format!("lock{}", self.rng.u64(..self.plan.locks)));
        let renewed = self.rng.u8(..3) > 0;
        let lease = if renewed { LEASE } else { self.between(ms(100), LEASE) };
        let patience = match self.rng.u8(..10) {
            0 | 1 => Patience::Try,
            2..=4 => Patience::Until(self.local(client) + self.between(ms(0), ms(1_500))),
            _ => Patience::Forever,
        };
        let owner = (self.rng.u8(..3) == 0).then(|| self.plan.owners[client][self.rng.usize(..2)]);
        let max_hold = (self.rng.u8(..10) == 0).then(|| self.between(ms(50), ms(1_500)));
        // No random draw of its own, so the rest of the world does not change.
        let waits_out_outage = patience != Patience::Try && number.is_multiple_of(2);
        let wish = AcquireRequest { waits_out_outage, ..self.some_wish(lock, lease) };
        let wish = self.without_lease(AcquireRequest { owner, lease, renewed, max_hold, patience, ..wish });
        let wish = self.perhaps_without_the_server(wish);
        let wish = self.with_some_lease(client, wish);
        let wish = self.durably(wish);
        let wish = self.lingering(wish);
        self.start(client, wish);
    }

    /// A grant of a bare semaphore has no lease, and is not re-entered.
    fn without_lease(&self, wish: AcquireRequest) -> AcquireRequest {
        match self.plan.family {
            LockFamily::Semaphore => {}
            LockFamily::Latch => return AcquireRequest { owner: None, renewed: false, max_hold: None, ..wish },
            _ => return wish,
        }
        AcquireRequest { lease: Duration::from_secs(10 * 365 * 86_400), renewed: false, max_hold: None, ..wish }
    }

    fn start(&mut self, client: usize, wish: AcquireRequest) {
        if self.parts.leave_out_operation(client, wish.name.key()) {
            return;
        }
        // A user that polls later than its lease lasts never gets in.
        let least = wish.max_hold.unwrap_or(wish.lease).min(wish.lease);
        let polls = match self.some_polls() {
            PollPolicy::Late(pause) => PollPolicy::Late(pause.min(least / 3)),
            polls => polls,
        };
        let task = self.acquire_polled(client, wish, polls);
        self.perhaps_dropped(client, task);
    }

    /// A user has held a guard for long enough.
    pub(crate) fn give_up(&mut self, guard: usize, how: u8) {
        let state = &self.guards[guard];
        if !state.alive {
            return;
        }
        let (client, number) = (state.client, state.number);
        let lock = state.name.clone();
        if how < 8 && self.perhaps_offer(guard) {
            return;
        }
        let gives_back = !matches!(how, 8 | 9 | 11);
        if !self.plan.over && gives_back && self.parts.leave_out(Part::GiveBack(number)) {
            return;
        }
        match how {
            9 if !self.plan.over => {
                // It is kept until the end.
            }
            // Permits of a bare semaphore that are detached are given up for good.
            10 if !self.plan.over && self.plan.family != LockFamily::Semaphore => self.detach(guard),
            6 | 7 => self.drop_guard(guard),
            8 | 11 if !self.plan.over => {
                // The same owner comes again, for a shorter or longer time.
                self.parts.acting = number + ENTRY;
                let owner = Some(self.plan.owners[client][self.rng.usize(..2)]);
                let lease = self.between(ms(100), LEASE);
                let renewed = self.rng.bool();
                let patience = Patience::Forever;
                let wish = self.some_wish(lock, lease);
                let wish = self.without_lease(AcquireRequest { owner, renewed, patience, ..wish });
                let wish = self.perhaps_without_the_server(wish);
                let wish = self.with_some_lease(client, wish);
                let wish = self.durably(wish);
                let wish = self.lingering(wish);
                self.start(client, wish);
                let pause = self.plan.hold.mul_f64(self.rng.f64());
                self.after(pause, UserEvent::GiveUp { guard, how: 0 });
            }
            _ => {
                let polls = if self.plan.over { PollPolicy::AtOnce } else { self.some_polls() };
                let task = self.release_polled(guard, polls);
                if !self.plan.over {
                    self.perhaps_dropped(client, task);
                }
            }
        }
    }
}

impl LockFamily {
    /// A wish for a lock of this family.
    fn wish(self, lock: LockName, lease: Duration, rng: &mut fastrand::Rng) -> AcquireRequest {
        let half = if rng.u8(..3) == 0 { Kind::Write } else { Kind::Read };
        let kind = match self {
            Self::Lock => Kind::Lock,
            Self::Fair => Kind::Fair,
            Self::FencedFair => Kind::FencedFair,
            Self::Fenced => Kind::Fenced,
            Self::Spin => Kind::Spin,
            Self::Simple => Kind::Simple,
            Self::ReadWrite | Self::PreferWriters => half,
            Self::Semaphore => Kind::Semaphore,
            Self::Permits => Kind::Permits,
            Self::Latch => Kind::Latch,
        };
        let mut wish = AcquireRequest::new(lock, kind, lease);
        if self.counts() {
            wish.permits = 1 + rng.u32(..CAPACITY);
        }
        if self == Self::PreferWriters {
            wish.prefer_writers = Some(Duration::from_millis(300));
        }
        wish
    }
}

impl World {
    /// The family of a lock: that of the world, unless its locks are of several.
    fn family_of(&self, lock: &LockName) -> LockFamily {
        let number =
            std::str::from_utf8(lock.key()).ok().and_then(|key| key.strip_prefix("lock")?.parse::<usize>().ok());
        let other = number.and_then(|number| self.plan.others.get(number.checked_sub(1)?));
        other.copied().unwrap_or(self.plan.family)
    }

    /// A wish for a lock of this world.
    pub(crate) fn some_wish(&mut self, lock: LockName, lease: Duration) -> AcquireRequest {
        let family = self.family_of(&lock);
        family.wish(lock, lease, &mut self.rng)
    }

    /// The same wish with one of the leases of the world: mostly the one that its client prefers.
    fn with_some_lease(&mut self, client: usize, wish: AcquireRequest) -> AcquireRequest {
        let Some(Choices { rng, of: few }) = &mut self.plan.leases else { return wish };
        if !wish.renewed {
            return wish;
        }
        let chosen = if rng.bool() { client % few.len() } else { rng.usize(..few.len()) };
        AcquireRequest { lease: few[chosen], ..wish }
    }

    /// The same wish, which perhaps goes on without the server. One that may pass through has no owner: of two requests of one owner the guard
    /// that is read first does not tell whose fallback was granted.
    fn perhaps_without_the_server(&mut self, wish: AcquireRequest) -> AcquireRequest {
        let Some(rng) = self.plan.fallbacks.as_mut().filter(|_| wish.kind.supports_fallback()) else { return wish };
        match rng.u8(..8) {
            0..=3 => AcquireRequest { fallback: Fallback::Local, ..wish },
            4 => AcquireRequest { fallback: Fallback::PassThrough, owner: None, ..wish },
            _ => wish,
        }
    }

    /// The same wish, which waits for the replica where there is one.
    fn durably(&mut self, wish: AcquireRequest) -> AcquireRequest {
        let Some(rng) = &mut self.plan.replicas else { return wish };
        let within = ms(rng.u64(1..120));
        AcquireRequest { replicas: Some(Replicas { at_least: 1, within }), ..wish }
    }

    /// The same wish for a lock that lingers, in a world in which most do.
    fn lingering(&mut self, wish: AcquireRequest) -> AcquireRequest {
        let Some(Choices { rng, of: longest }) = &mut self.plan.lingering else { return wish };
        let lingers = wish.kind == Kind::Lock && rng.u8(..5) > 0;
        AcquireRequest { linger: LingerTime::new(*longest).filter(|_| lingers), ..wish }
    }

    /// A caller has a new guard, and some ask that its lock stay busy. Some names of a world are of another kind than the world's, which may
    /// have none that can stay busy.
    pub(crate) fn perhaps_keep_busy(&mut self, guard: usize) {
        let Some(Choices { rng, of: longest }) = &mut self.plan.least_times else { return };
        let Guard { client, hold, kind, .. } = self.guards[guard];
        if self.plan.over || rng.bool() || !kind.protocol().may_be_kept() {
            return;
        }
        let least = longest.mul_f64(rng.f64());
        let until = self.local(client) + least;
        self.clients[client].session.keep_busy(hold, until);
        self.stats.reach(Coverage::LeastTime);
        // The clock of the client may be faster by as much as the margin allows, and the server reckons in milliseconds.
        self.guards[guard].busy_until = Some(self.now + least.saturating_sub(least / 50 + ms(3)));
    }
}

/// The permits of semaphores, and the latches: one user closes each of them, and all count them down.
impl World {
    /// Gives the semaphores of the world their permits.
    pub(crate) fn fill(&self) {
        if self.plan.family.counts() {
            self.server.deny_growth(false);
            for lock in self.plan.lock_names() {
                self.server.command(&[b"SET", lock.key(), CAPACITY.to_string().as_bytes()]).expect("a counter");
            }
        }
    }

    /// Closes the latches of the world.
    pub(crate) fn close_latches(&mut self) {
        if self.plan.family != LockFamily::Latch {
            return;
        }
        for lock in self.plan.lock_names() {
            let count = 1 + self.rng.u32(..6);
            let operation = self.clients[0].session.new_operation();
            let call = latch::set(&lock, count, &operation, &self.plan.settings.publish);
            self.server.execute(&call).expect("a latch can be set");
            self.tell(Fact::LatchSet { lock: &lock.to_key(), left: count.into() });
        }
    }

    /// A client counts a latch down; that is a call beside its session.
    pub(crate) fn start_count(&mut self, client: usize) {
        let lock = name(&format!("lock{}", self.rng.u64(..self.plan.locks)));
        if self.parts.leave_out_operation(client, lock.key()) {
            return;
        }
        self.stats.operations += 1;
        let operation = self.clients[client].session.new_operation();
        let call = latch::count_down(&lock, 1, &operation, &self.plan.settings.publish);
        trace!(self, "client {client} counts {lock} down");
        if self.chance(self.net.rates.lose_request) {
            return self.stats.fault(FaultKind::LostRequest);
        }
        if self.chance(self.net.rates.copy_late) {
            self.stats.fault(FaultKind::LateCopy);
            let pause = self.between(ms(10), ms(2_000));
            self.after(pause, UserEvent::CountDown { call: call.clone() });
        }
        let delay = self.delay(client);
        self.after(delay, UserEvent::CountDown { call });
    }

    /// A count arrives.
    pub(crate) fn count_down(&mut self, call: &Call) {
        let Ok(reply) = self.server.execute(call) else { return };
        self.deliver_notices();
        trace!(self, "{:?} is counted down: {reply:?}", call.keys().first());
        self.tell(Fact::CountedDown { call, reply: &reply });
    }

    /// Opens latches that are still closed, so that no waiter waits for ever.
    pub(crate) fn open_latches(&mut self) {
        if self.plan.family != LockFamily::Latch {
            return;
        }
        for lock in self.plan.lock_names() {
            let operation = self.clients[0].session.new_operation();
            let call = latch::count_down(&lock, 1_000, &operation, &self.plan.settings.publish);
            self.server.execute(&call).expect("a latch can be opened");
            self.deliver_notices();
            self.tell(Fact::LatchSet { lock: &lock.to_key(), left: 0 });
        }
    }
}

impl World {
    /// Has the holder of a new guard work on what the store has, if its kind of lock is for that.
    pub(crate) fn plan_section(&mut self, guard: usize) {
        if self.plan.family.excludes() && !matches!(self.plan.family, LockFamily::ReadWrite | LockFamily::PreferWriters)
        {
            let pause = self.plan.hold.mul_f64(self.rng.f64());
            self.after(pause, UserEvent::Section { guard });
        }
    }

    /// How long a message to the store or back takes.
    fn way_to_the_store(&mut self) -> Duration {
        let most = if self.rng.u8(..12) == 0 { ms(3_000) } else { ms(5) };
        self.between(Duration::ZERO, most)
    }

    pub(crate) fn begin_section(&mut self, guard: usize) {
        let state = &self.guards[guard];
        let work = (state.client, state.hold);
        if !state.alive || !self.believes(state) || !self.registers.at_work.insert(work) {
            return;
        }
        let way = self.way_to_the_store();
        self.after(way, UserEvent::StoreRead { guard });
    }

    /// Shows a guard's token to the register that checks every access, which is to be read, or to have a version written.
    fn shown(&mut self, guard: usize, write: Option<Version>) -> bool {
        let state = &self.guards[guard];
        let Some(token) = state.cell.token() else { return false };
        let register = self.registers.by_lock.entry(state.name.to_key()).or_default();
        let admission = register.fence.admit(token, &state.field);
        let access = write.map_or(Access::Read(register.fenced), Access::Write);
        self.registers.reference.check(&state.name, token, &state.field, access, admission);
        match admission {
            Admission::Admitted => return true,
            Admission::Stale => self.stats.reach(Coverage::StaleRefused),
            Admission::Twice => {
                let may_be = self.doubts.lost_tokens && !self.server.put_back.is_zero();
                assert!(may_be, "the token {token} of {} was issued twice", state.name);
                self.stats.reach(Coverage::TwiceRefused);
            }
        }
        trace!(self, "the store refuses {:?} of client {}: {admission:?}", state.hold, state.client);
        false
    }

    pub(crate) fn store_reads(&mut self, guard: usize) {
        let admitted = self.shown(guard, None);
        let register = self.registers.by_lock.entry(self.guards[guard].name.to_key()).or_default();
        let fenced = admitted.then_some(register.fenced);
        let read = Versions { fenced, at_writes: register.at_writes, bare: register.bare };
        trace!(self, "{:?} of client {} reads {read:?}", self.guards[guard].hold, self.guards[guard].client);
        let way = self.way_to_the_store();
        let work = self.plan.hold.mul_f64(self.rng.f64() / 2.0);
        self.after(way + work, UserEvent::Work { guard, read });
    }

    /// The work is done, and is written if the holder believes that it holds: between that look and the write any time may pass.
    pub(crate) fn section_works(&mut self, guard: usize, read: Versions) {
        let state = &self.guards[guard];
        if !state.alive || !self.believes(state) {
            self.registers.at_work.remove(&(state.client, state.hold));
            return;
        }
        let way = self.way_to_the_store();
        self.after(way, UserEvent::StoreWrite { guard, read });
    }

    pub(crate) fn store_writes(&mut self, guard: usize, read: Versions) {
        let state = &self.guards[guard];
        let (client, hold, token) = (state.client, state.hold, state.cell.token());
        trace!(self, "{hold:?} of client {client} writes with {token:?} what follows from {read:?}");
        let key = state.name.to_key();
        self.registers.at_work.remove(&(client, hold));
        self.registers.writes += 1;
        let new = self.registers.writes;
        let admitted = read.fenced.is_some() && self.shown(guard, Some(new));
        let register = self.registers.by_lock.entry(key).or_default();
        self.stats.sections[1] += 1;
        if register.bare != read.bare {
            self.stats.reach(Coverage::UnfencedLost);
        }
        register.bare = new;
        let Some(token) = token else { return };
        self.stats.sections[0] += 1;
        if token >= register.writer {
            if register.at_writes != read.at_writes {
                self.stats.reach(Coverage::WriteFencedLost);
            }
            register.writer = token;
            register.at_writes = new;
        }
        if admitted {
            assert_eq!(Some(register.fenced), read.fenced, "an update was lost behind a fence");
            register.fenced = new;
        }
    }
}
