//! The users of a random world, and the faults that it meets. The seed says which mix of faults a world is of.

use crate::faults::event::FaultEvent;
use crate::faults::processes::MARGIN_PPM;
use crate::faults::rates::FaultRates;
use crate::workload::event::UserEvent;
use crate::workload::family::{CAPACITY, LockFamily};
use crate::world::event::WorldEvent;
use crate::world::message::Message;
use crate::world::{World, ms, settings};
use leasehold_core::link::{LinkEvent, Plane};
use leasehold_core::owner::OwnerId;
use leasehold_core::settings::Settings;
use leasehold_core::time::Instant;
use std::time::Duration;

/// The longest lease in a random world.
pub(crate) const LEASE: Duration = ms(1_200);
/// Until when a random world is disturbed.
pub(crate) const DISTURBED: Duration = ms(4_000);

/// For how long at most the server's memory is full.
pub(crate) const MEMORY_IS_FULL: Duration = ms(800);

/// Which faults a world meets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FaultMix {
    /// No user is late, and nothing goes wrong but that clients crash.
    #[default]
    Orderly,
    /// Futures are polled late, or never, or dropped. So they are in all that follow.
    Impatience,
    /// Messages are lost, and scripts are refused something in their middle.
    Losses,
    Delays,
    /// Clients are cut off, and the server restarts.
    Outages,
    Copies,
    /// Nothing can be proven to be dead, and the server refuses.
    Unproven,
    /// All of these.
    Messages,
    /// Crashes, pauses, and clocks that are wrong within the margin.
    Processes,
    /// Messages and processes.
    Both,
    /// The server loses data or time, or a clock is wrong beyond the margin.
    Data,
    Everything,
}

impl FaultMix {
    pub(crate) const ALL: [Self; 12] = [
        Self::Orderly,
        Self::Impatience,
        Self::Losses,
        Self::Delays,
        Self::Outages,
        Self::Copies,
        Self::Unproven,
        Self::Messages,
        Self::Processes,
        Self::Both,
        Self::Data,
        Self::Everything,
    ];

    /// The mix of a world: all of them in turn.
    pub(crate) fn of_seed(seed: u64) -> Self {
        Self::ALL[usize::try_from(seed % Self::ALL.len() as u64).unwrap_or_default()]
    }

    /// Whether faults of a mix happen in this one.
    pub(crate) fn has(self, other: Self) -> bool {
        self == other
            || match self {
                Self::Everything => other != Self::Orderly,
                Self::Both => other != Self::Orderly && other != Self::Data && other != Self::Everything,
                Self::Messages => {
                    matches!(other, Self::Losses | Self::Delays | Self::Outages | Self::Copies | Self::Unproven)
                }
                _ => false,
            }
    }
}

/// The operations of the users of a random world.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) family: LockFamily,
    pub(crate) mix: FaultMix,
    pub(crate) settings: Settings,
    pub(crate) locks: u64,
    /// No user is late and nothing goes wrong, so that a fair queue is served in the order in which it came to be.
    pub(crate) orderly: bool,
    /// Nothing goes wrong but that clients crash, and that users are late or drop what they asked for.
    pub(crate) fault_free: bool,
    /// The server loses neither data nor time, and no clock is wrong beyond the margin.
    pub(crate) keeps_data: bool,
    /// A copy of a command may come late, or it cannot be proven that none does.
    pub(crate) copies: bool,
    pub(crate) owners: Vec<Vec<OwnerId>>,
    /// How long a guard is kept.
    pub(crate) hold: Duration,
    /// How likely it is that a future is polled late, or never, or is dropped.
    pub(crate) late: f64,
    pub(crate) never: f64,
    pub(crate) dropped: f64,
    /// Nothing goes wrong any more, and no user begins anything.
    pub(crate) over: bool,
    /// When that began.
    pub(crate) ended: Instant,
}

impl Plan {
    /// How long a message may still be on the way when the faults end.
    pub(crate) fn under_way(&self) -> Duration {
        ms(if self.copies || self.mix.has(FaultMix::Delays) { 3_500 } else { 1_500 })
    }
}

/// Plans the world of a seed.
pub(crate) fn plan(world: &mut World, seed: u64, family: LockFamily) {
    let mix = FaultMix::of_seed(seed);
    world.plan.family = family;
    world.plan.mix = mix;
    world.plan.orderly = mix == FaultMix::Orderly;
    world.plan.fault_free = matches!(mix, FaultMix::Orderly | FaultMix::Impatience);
    world.plan.keeps_data = !mix.has(FaultMix::Data);
    world.plan.copies = mix.has(FaultMix::Copies) || mix.has(FaultMix::Unproven);
    let mut settings = settings();
    settings.lease = LEASE;
    // If the server's clock may be put back by an hour, the dead keep what they had for that long.
    settings.recheck = ms(if mix.has(FaultMix::Data) { 20_000 } else { 1_000 });
    settings.command_timeout = ms(150);
    settings.unreachable_after = ms(1_500);
    settings.fair.window = ms(600);
    settings.fair.beat = ms(120);
    settings.fair.claim = ms(600);
    settings.fair.idle = ms(8_000);
    settings.renew_batch = 1 + world.rng.usize(..4);
    settings.not_after = world.rng.bool();
    settings.cluster = world.rng.u8(..4) == 0;
    world.plan.settings = settings.clone();
    let clients = 2 + world.rng.usize(..6);
    for _ in 0..clients {
        let client = world.add_client(settings.clone());
        let owners = (0..2).map(|_| world.clients[client].session.new_owner()).collect();
        world.plan.owners.push(owners);
    }
    world.plan.locks = 1 + world.rng.u64(..3);
    world.fill();
    world.close_latches();
    world.plan.hold = ms([1, 20, 200, 1_500][world.rng.usize(..4)]);
    disturb(world, mix);
    if mix == FaultMix::Unproven {
        hold_back(world, seed);
    }
    if mix == FaultMix::Data && matches!(family, LockFamily::Fenced | LockFamily::FencedFair) {
        issue_twice(world, seed);
    }
    for _ in 0..12 + world.rng.usize(..34) {
        let pause = DISTURBED.mul_f64(world.rng.f64() * world.rng.f64());
        let client = world.rng.usize(..clients);
        world.after(pause, UserEvent::Start { client });
    }
}

/// Plans the faults of a mix.
fn disturb(world: &mut World, mix: FaultMix) {
    let mut rates = FaultRates::default();
    if mix != FaultMix::Orderly {
        world.plan.late = 0.25;
        world.plan.never = 0.06;
        world.plan.dropped = 0.15;
    }
    if world.rng.bool() {
        rates.delay = (ms(1), ms(8));
    }
    if mix.has(FaultMix::Losses) {
        rates.lose_request = 0.04;
        rates.lose_reply = 0.06;
        rates.swallow = 0.02;
        rates.not_sent = 0.02;
    }
    if (mix.has(FaultMix::Losses) || mix.has(FaultMix::Unproven)) && world.faults.insides.bool() {
        rates.inside = 0.05;
    }
    if mix.has(FaultMix::Delays) {
        rates.spike = 0.08;
        rates.spike_of = ms([60, 400, 1_500][world.rng.usize(..3)]);
        rates.lose_notice = 0.2;
    }
    if mix.has(FaultMix::Copies) {
        rates.copy_now = 0.2;
        rates.copy_late = 0.1;
    }
    if mix.has(FaultMix::Unproven) {
        rates.unproven = 0.3;
        rates.settle_fails = 0.3;
        rates.subscribe_fails = 0.2;
        rates.refuse = 0.1;
        rates.lose_reply = 0.06;
    }
    if mix.has(FaultMix::Processes) {
        rates.worst_instant = 0.05;
    }
    world.faults.rates = rates;
    connections(world, mix);
    server(world, mix);
    processes(world, mix);
    if mix.has(FaultMix::Data) {
        data(world);
    }
}

/// A time at which a world is disturbed.
pub(crate) fn some_time(rng: &mut fastrand::Rng) -> Duration {
    DISTURBED.mul_f64(rng.f64())
}

/// A time of any order of magnitude between a millisecond and `most`.
pub(crate) fn any_length(rng: &mut fastrand::Rng, most: Duration) -> Duration {
    ms(1).mul_f64((most.as_secs_f64() * 1e3).powf(rng.f64()))
}

fn connections(world: &mut World, mix: FaultMix) {
    if mix.has(FaultMix::Losses) || mix.has(FaultMix::Delays) {
        for _ in 0..world.rng.usize(..6) {
            let (client, at) = (world.somebody(), some_time(&mut world.rng));
            let plane = if world.rng.bool() { Plane::Foreground } else { Plane::Lifeline };
            let (lose, pause) = (world.rng.bool(), world.between(ms(1), ms(1_400)));
            let what: WorldEvent = match world.rng.u8(..5) {
                0 | 1 => FaultEvent::Reset { client, plane, lose }.into(),
                2 => FaultEvent::Freeze { client, plane, pause }.into(),
                3 => FaultEvent::ResetNotices { client }.into(),
                _ => Message::Event { client, event: LinkEvent::NoticesLagged }.into(),
            };
            world.after(at, what);
        }
    }
    if mix.has(FaultMix::Outages) {
        for _ in 0..=world.rng.usize(..3) {
            let (client, at) = (world.somebody(), some_time(&mut world.rng));
            let pause = world.between(ms(1), ms(2_500));
            world.after(at, FaultEvent::Unreachable { client, yes: true });
            world.after(at + pause, FaultEvent::Unreachable { client, yes: false });
        }
    }
}

/// The acts of the server without a loss.
fn server(world: &mut World, mix: FaultMix) {
    if mix.has(FaultMix::Outages) && world.rng.bool() {
        let at = some_time(&mut world.rng);
        world.after(at, FaultEvent::Restart);
    }
    if mix.has(FaultMix::Outages) && world.rng.u8(..4) == 0 || mix.has(FaultMix::Processes) && world.rng.bool() {
        let at = some_time(&mut world.rng);
        world.after(at, FaultEvent::FlushScripts);
    }
    if mix.has(FaultMix::Unproven) && world.rng.bool() {
        let at = some_time(&mut world.rng);
        let pause = world.between(ms(1), MEMORY_IS_FULL);
        world.after(at, FaultEvent::DenyGrowth { deny: true });
        world.after(at + pause, FaultEvent::DenyGrowth { deny: false });
    }
}

fn processes(world: &mut World, mix: FaultMix) {
    // Permits of a bare semaphore that were given to a process that died never come back: they could not be waited for.
    let leased = world.plan.family != LockFamily::Semaphore;
    let crashes = match mix {
        FaultMix::Orderly => world.rng.usize(..3),
        _ if mix.has(FaultMix::Processes) => world.rng.usize(..4),
        _ => 0,
    };
    for _ in 0..if leased { crashes } else { 0 } {
        let (client, at) = (world.somebody(), some_time(&mut world.rng));
        world.after(at, FaultEvent::Crash { client });
        let pause = world.between(ms(1), ms(1_500));
        world.after(at + pause, FaultEvent::Join);
    }
    if !mix.has(FaultMix::Processes) {
        return;
    }
    for _ in 0..world.rng.usize(..4) {
        let (client, at) = (world.somebody(), some_time(&mut world.rng));
        let pause = any_length(&mut world.rng, ms(10_000));
        world.after(at, FaultEvent::Pause { client, pause, counts: true });
    }
    for client in 0..world.clients.len() {
        if world.rng.bool() {
            let ppm = world.rng.i64(-MARGIN_PPM..=MARGIN_PPM);
            world.at(world.now, FaultEvent::Clock { client, ppm, jump: Duration::ZERO });
        }
        if world.rng.u8(..6) == 0 {
            let (at, jump) = (some_time(&mut world.rng), any_length(&mut world.rng, ms(3_600_000)));
            world.after(at, FaultEvent::Clock { client, ppm: 0, jump });
        }
    }
    if world.rng.bool() {
        let (at, millis) = (some_time(&mut world.rng), world.rng.i64(-3..=1));
        world.after(at, FaultEvent::StepServer { millis });
    }
}

/// The server loses what it has, or its clock is stepped; clocks of clients are wrong.
fn data(world: &mut World) {
    // A bare semaphore that has lost its counter has lost its capacity, which could not be put right.
    let leased = world.plan.family != LockFamily::Semaphore;
    for _ in 0..1 + world.rng.usize(..4) {
        let (client, at) = (world.somebody(), some_time(&mut world.rng));
        match world.rng.u8(..8) {
            0 if leased => world.after(at, FaultEvent::RestartEmpty),
            1 if leased => {
                let lag = any_length(&mut world.rng, ms(1_500));
                world.after(at.saturating_sub(lag), FaultEvent::Snapshot);
                world.after(at, FaultEvent::Failover);
            }
            2 if leased => {
                let all = world.rng.u8(..4) == 0;
                world.after(at, FaultEvent::Evict { all });
            }
            3 | 4 => world.after(at, FaultEvent::ForceRelease),
            5 if leased => {
                let length = any_length(&mut world.rng, ms(3_600_000)).as_millis();
                let length = i64::try_from(length).unwrap_or_default() + 2;
                let millis = if world.rng.bool() { length } else { -length - 2 };
                world.after(at, FaultEvent::StepServer { millis });
            }
            6 => {
                let pause = any_length(&mut world.rng, ms(10_000));
                world.after(at, FaultEvent::Pause { client, pause, counts: false });
            }
            _ => {
                let wrong = world.rng.i64(MARGIN_PPM + 2_000..200_000);
                let ppm = if world.rng.bool() { wrong } else { -wrong };
                world.after(at, FaultEvent::Clock { client, ppm, jump: Duration::ZERO });
            }
        }
    }
}

/// Has commands held up on their way, in three worlds of four, for less than a lease: they arrive although they were settled, as far as
/// that could be, and their senders have been answered otherwise since.
///
/// The choices are not those of the world, so that everything else in it is what it would be without this.
fn hold_back(world: &mut World, seed: u64) {
    let rng = &mut fastrand::Rng::with_seed(!seed);
    if rng.u8(..4) == 0 {
        return;
    }
    for _ in 0..1 + rng.usize(..8) {
        let (client, at) = (rng.usize(..world.clients.len()), some_time(rng));
        let pause = LEASE.mul_f64(rng.f64() * 0.8);
        world.after(at, FaultEvent::Freeze { client, plane: Plane::Foreground, pause });
    }
}

/// Has tokens issued twice, in three worlds of four. While the server's clock is behind the last token, the next one is greater by one, and
/// a replica that has not heard of it gives it to another. That takes a step back, a copy, a grant and a failover in this order, to which
/// worlds do not come by chance.
///
/// The choices are not those of the world, so that everything else in it is what it would be without this.
fn issue_twice(world: &mut World, seed: u64) {
    let rng = &mut fastrand::Rng::with_seed(!seed);
    if rng.u8(..4) == 0 {
        return;
    }
    // A holder must have a token before.
    let mut at = ms(rng.u64(200..800));
    // Until the end of the disturbances the clock does not come up with the last token.
    let millis = -i64::try_from(DISTURBED.as_millis()).unwrap_or_default();
    world.after(at, FaultEvent::StepServer { millis });
    for _ in 0..5 {
        at += ms(rng.u64(..100));
        world.after(at, FaultEvent::Snapshot);
        at += ms(rng.u64(50..600));
        world.after(at, FaultEvent::Failover);
    }
}

impl World {
    /// Gives the semaphores of the world their permits.
    pub(crate) fn fill(&self) {
        if self.plan.family.counts() {
            self.server.deny_growth(false);
            for lock in 0..self.plan.locks {
                let key = format!("lock{lock}");
                self.server.command(&[b"SET", key.as_bytes(), CAPACITY.to_string().as_bytes()]).expect("a counter");
            }
        }
    }
}
