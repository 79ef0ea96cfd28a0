//! The plan of a world, step by step.

use fastrand::Rng;

/// The numbers of locks and channels of a world.
pub(super) const LOCKS: usize = 4;
pub(super) const CHANNELS: usize = 4;

/// The caller's treatment of a call's future.
#[derive(Clone, Copy, Debug)]
pub(super) enum Manner {
    Awaits,
    /// Dropped after this many milliseconds.
    Drops(u64),
    /// Not polled for this many milliseconds.
    LeavesAlone(u64),
}

/// A disturbance.
#[derive(Clone, Copy, Debug)]
pub(super) enum Disturbance {
    /// Requests of a connection are held up for this many milliseconds.
    HoldRequests(u64),
    /// Replies of a connection are held up.
    HoldReplies(u64),
    /// The client loses a connection after the first number of milliseconds. Requests sent until then still arrive,
    /// after the second number.
    Cut {
        after: u64,
        held: u64,
    },
    /// Refuses all connections, or accepts them again.
    Refuse(bool),
    Restart(usize),
    FlushScripts,
    /// The process stops for this many milliseconds. Afterwards everything due happens at once.
    Block(u64),
    /// The client's runtime stops for this many milliseconds.
    HomeSleeps(u64),
    /// The client's runtime is dropped.
    HomeEnds,
    /// Moves a slot to its next stage: moving, keys moved, moved.
    MoveSlot(usize),
    /// The next call finds no memory, or fails halfway.
    FailNext(bool),
}

/// A step.
#[derive(Clone, Copy, Debug)]
pub(super) enum Deed {
    Call { durable: bool, lock: usize, script: usize, manner: Manner },
    Settle { durable: bool, lock: usize },
    Subscribe { channel: usize, manner: Manner },
    Unsubscribe { channel: usize },
    Publish { channel: usize },
    Disturb(Disturbance),
}

/// A step, and the milliseconds before the next one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) deed: Deed,
    pub(super) pause: u64,
}

/// A plan derived from the seed.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) cluster: bool,
    pub(super) sharded: bool,
    /// The servers refuse to kill connections.
    pub(super) kill_forbidden: bool,
    pub(super) batch_from: Option<usize>,
    pub(super) steps: Vec<Step>,
}

impl Plan {
    pub(super) fn new(seed: u64, cluster: bool) -> Self {
        let mut rng = Rng::with_seed(seed);
        let sharded = rng.bool();
        let kill_forbidden = rng.u8(..8) == 0;
        let batch_from = [None, Some(1), Some(2), Some(4)][rng.usize(..4)];
        // A third of the worlds loses no connection, so a missing notice has no excuse there.
        let steady = rng.u8(..3) == 0;
        // Some worlds favour one kind of call and one lock, so that more calls share a connection.
        let favourite = rng.bool().then(|| (durable(&mut rng), rng.usize(..LOCKS)));
        let mut steps = Vec::new();
        for _ in 0..rng.usize(60..100) {
            let deed = deed(&mut rng, cluster, steady, favourite);
            steps.push(Step { deed, pause: pause(&mut rng) });
            if let Deed::Disturb(Disturbance::Cut { .. } | Disturbance::HoldRequests(_)) = deed {
                steps.extend(calls_in_trouble(&mut rng, favourite));
            }
            if rng.u8(..16) == 0 {
                steps.extend(calls_at_once(&mut rng, favourite));
            }
            if cluster && rng.u8(..40) == 0 {
                steps.extend(subscription_that_moves(&mut rng));
            }
            if cluster && !sharded && rng.u8(..25) == 0 {
                steps.extend(calls_of_a_slot_that_comes_back(&mut rng));
            }
        }
        Self { seed, cluster, sharded, kill_forbidden, batch_from, steps }
    }
}

fn pause(rng: &mut Rng) -> u64 {
    match rng.u8(..10) {
        0..5 => 0,
        5..9 => rng.u64(1..5),
        _ => rng.u64(5..25),
    }
}

/// Calls in transit on a silent or lost connection, and a settling of them.
fn calls_in_trouble(rng: &mut Rng, favourite: Option<(bool, usize)>) -> Vec<Step> {
    let (durable, lock) = favourite.unwrap_or_else(|| (durable(rng), rng.usize(..LOCKS)));
    let mut steps = Vec::new();
    for _ in 0..rng.usize(1..4) {
        let deed = Deed::Call { durable, lock, script: rng.usize(..4), manner: manner(rng) };
        steps.push(Step { deed, pause: 0 });
    }
    let pause_before = rng.u64(..40);
    steps.last_mut().into_iter().for_each(|step| step.pause = pause_before);
    steps.push(Step { deed: Deed::Settle { durable, lock }, pause: pause(rng) });
    steps
}

/// More concurrent calls for a lock than are sent alone.
fn calls_at_once(rng: &mut Rng, favourite: Option<(bool, usize)>) -> Vec<Step> {
    let (durable, lock) = favourite.unwrap_or_else(|| (durable(rng), rng.usize(..LOCKS)));
    let mut call = || Deed::Call { durable, lock, script: rng.usize(..4), manner: Manner::Awaits };
    (0..8).map(|_| Step { deed: call(), pause: 0 }).collect()
}

/// A pending subscription whose slot moves, with calls for the slot that learn of it.
fn subscription_that_moves(rng: &mut Rng) -> Vec<Step> {
    let number = rng.usize(..CHANNELS);
    let mut deeds = vec![Deed::Subscribe { channel: number, manner: manner(rng) }];
    deeds.extend([Deed::Disturb(Disturbance::MoveSlot(number)); 3]);
    let durable = durable(rng);
    deeds.push(Deed::Call { durable, lock: number, script: 0, manner: Manner::Awaits });
    deeds.push(Deed::Publish { channel: number });
    deeds.into_iter().map(|deed| Step { deed, pause: if rng.bool() { 0 } else { rng.u64(1..12) } }).collect()
}

/// A call is held up while its slot moves away and back, and the link sees only the first move.
fn calls_of_a_slot_that_comes_back(rng: &mut Rng) -> Vec<Step> {
    let lock = rng.usize(..LOCKS);
    let held = rng.bool();
    let call = |durable, manner, pause| Step { deed: Deed::Call { durable, lock, script: 0, manner }, pause };
    let disturb = |disturbance| Step { deed: Deed::Disturb(disturbance), pause: 0 };
    let moves = [disturb(Disturbance::MoveSlot(lock)); 3];
    let mut steps = vec![call(held, Manner::Awaits, 4), disturb(Disturbance::HoldRequests(rng.u64(30..100)))];
    steps.extend([call(held, manner(rng), rng.u64(..3)), call(held, Manner::Awaits, 0)]);
    steps.extend(moves);
    steps.push(call(!held, Manner::Awaits, rng.u64(2..12)));
    steps.extend(moves);
    steps.push(Step { deed: Deed::Settle { durable: held, lock }, pause: rng.u64(20..60) });
    steps
}

fn deed(rng: &mut Rng, cluster: bool, steady: bool, favourite: Option<(bool, usize)>) -> Deed {
    let (durable, lock) = match favourite {
        Some(favourite) if rng.u8(..3) > 0 => favourite,
        _ => (durable(rng), rng.usize(..LOCKS)),
    };
    match rng.u8(..100) {
        0..38 => Deed::Call { durable, lock, script: rng.usize(..4), manner: manner(rng) },
        38..58 => Deed::Settle { durable, lock },
        58..64 => Deed::Subscribe { channel: rng.usize(..CHANNELS), manner: manner(rng) },
        64..66 => Deed::Unsubscribe { channel: rng.usize(..CHANNELS) },
        66..74 => Deed::Publish { channel: rng.usize(..CHANNELS) },
        74..82 => Deed::Disturb(Disturbance::FlushScripts),
        82..85 => Deed::Disturb(Disturbance::FailNext(rng.bool())),
        85..92 if cluster => Deed::Disturb(Disturbance::MoveSlot(lock)),
        _ if steady => Deed::Publish { channel: rng.usize(..CHANNELS) },
        _ => Deed::Disturb(trouble(rng)),
    }
}

fn trouble(rng: &mut Rng) -> Disturbance {
    match rng.u8(..15) {
        12..14 => Disturbance::HomeSleeps(rng.u64(1..120)),
        14 if rng.u8(..8) == 0 => Disturbance::HomeEnds,
        0..3 => Disturbance::HoldRequests(rng.u64(5..250)),
        3..5 => Disturbance::HoldReplies(rng.u64(5..150)),
        5..8 => Disturbance::Cut { after: rng.u64(..20), held: rng.u64(1..250) },
        8 => Disturbance::Refuse(rng.bool()),
        9 => Disturbance::Restart(rng.usize(..2)),
        _ => Disturbance::Block(rng.u64(2..80)),
    }
}

/// Whether the call is durable.
fn durable(rng: &mut Rng) -> bool {
    rng.u8(..10) == 0
}

fn manner(rng: &mut Rng) -> Manner {
    match rng.u8(..10) {
        0..5 => Manner::Awaits,
        5..7 => Manner::Drops(rng.u64(..30)),
        _ => Manner::LeavesAlone(rng.u64(1..60)),
    }
}
