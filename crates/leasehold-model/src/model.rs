//! The actions of the protocol: one server with one lock, some clients, and the network between them.
//!
//! Time is a count of ticks. Nothing has to happen before a tick, so that each message is delayed and each client is paused at any time and
//! for as long as it likes. [`World`] has the states, and docs/model.md what the model leaves out.

use crate::fault::Fault;
use crate::world::{Change, Client, Leg, Message, Verb, World};

/// The lease, in ticks of the server's clock.
pub const LEASE: u8 = 3;
/// By how much a deadline lies before the end of the lease.
pub const MARGIN: u8 = 1;
/// The most guards of a hold.
pub const GUARDS: u8 = 2;
/// How often a hold may pass to another task of its client without the server.
pub const PASSES: u8 = 1;
/// For how many ticks after its grant a hold may do so.
pub const PASSING: u8 = 2;

/// How large the world is, and what can happen in it.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// How many clients there are.
    pub clients: u8,
    /// How many crashes, lost connections and copies of the network there are in all.
    pub disturbances: u8,
    /// Whether clocks drift: in any time as long as a lease one client's clock differs by a tick from the server's (A2).
    pub drift: bool,
    /// Whether owners enter their holds again.
    pub reentry: bool,
    /// Whether a task that releases may pass its hold to another task of the client.
    pub hand_over: bool,
    /// Whether a lease may linger after the last release.
    pub linger: bool,
    /// The rule that is broken.
    pub fault: Option<Fault>,
}

/// One thing that happens, to a client or to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A client asks for a lock of which it has nothing.
    Ask(u8),
    /// An owner enters its hold once more.
    Enter(u8),
    /// A task drops a guard.
    Drop(u8),
    /// The background lowers the count on the server to what is wanted.
    Lower(u8),
    /// The background sends a renewal.
    Renew(u8),
    /// A call arrives, and is executed.
    Arrive(usize),
    /// A client reads a reply.
    Read(usize),
    /// No copy of a change comes any more; or this cannot be proven.
    Settle(u8, bool),
    /// A client loses its connection.
    Cut(u8),
    /// A client's process dies.
    Crash(u8),
    /// The network makes a copy of a call.
    Copy(usize),
    /// A message without a connection is lost.
    Vanish(usize),
    /// Time passes, on the clock of one client by another number of ticks.
    Tick(Option<(u8, u8)>),
    /// A task passes its hold to another of its client.
    HandOver(u8),
    /// The last guard is dropped, and the lease lingers.
    Linger(u8),
    /// A task takes a lock whose lease lingers.
    Resume(u8),
    /// A lease lingers no longer.
    StopLingering(u8),
}

impl Model {
    /// All that might happen.
    pub fn candidates(&self, world: &World) -> Vec<Action> {
        use Action::{
            Arrive, Ask, Copy, Crash, Cut, Drop, Enter, HandOver, Linger, Lower, Read, Renew, Resume, Settle,
        };
        let of_client = |c| {
            let known =
                [Ask(c), Enter(c), Drop(c), Lower(c), Renew(c), Settle(c, true), Settle(c, false), Cut(c), Crash(c)];
            let planned = [HandOver(c), Linger(c), Resume(c), Action::StopLingering(c)];
            let drifts = [0, 2].map(|ticks| Action::Tick(Some((c, ticks))));
            known.into_iter().chain(planned).chain(drifts)
        };
        let of_message = |at| [Arrive(at), Read(at), Copy(at), Action::Vanish(at)];
        let of_clients = (0..self.clients).flat_map(of_client);
        of_clients.chain((0..world.network.len()).flat_map(of_message)).chain([Action::Tick(None)]).collect()
    }

    /// The world that follows, if the action can happen.
    pub fn after(&self, world: &World, action: Action) -> Option<World> {
        let of = |client: u8| world.clients[usize::from(client)];
        let next = match action {
            Action::Ask(c) => {
                let me = of(c);
                let may = me.is_settled() && me.wanted == 0 && !me.spent;
                may.then(|| Self::change(world, c, Client { on_server: 1, ..me }, Verb::Acquire, 1))
            }
            Action::Enter(c) => {
                let me = of(c);
                let target = me.wanted + 1;
                let may =
                    self.reentry && me.is_settled() && me.believes() && me.on_server == me.wanted && target <= GUARDS;
                may.then(|| Self::change(world, c, Client { on_server: target, ..me }, Verb::Acquire, target))
            }
            Action::Drop(c) => {
                let me = of(c);
                let belief = if me.wanted > 1 { me.belief } else { 0 };
                (me.wanted > 0).then(|| world.with(c, Client { wanted: me.wanted - 1, belief, ..me }))
            }
            Action::Lower(c) => {
                let me = of(c);
                let unsettled =
                    self.has(Fault::ReleaseBeforeSettling) && me.change.is_some_and(|change| change.settling);
                let may = (me.is_settled() || unsettled) && me.on_server > me.wanted && !me.lingers;
                let spent = me.spent || me.wanted == 0;
                // Once a whole lease has passed, this is the last release for the sake of late copies.
                let unproven = if me.unproven == 1 { 0 } else { me.unproven };
                may.then(|| Self::change(world, c, Client { spent, unproven, ..me }, Verb::Release, me.wanted))
            }
            Action::Renew(c) => {
                let me = of(c);
                let may = me.believes() && !me.renewing && me.belief < LEASE - MARGIN;
                may.then(|| world.with(c, Client { renewing: true, ..me }).sending(c, Verb::Renew, 0))
            }
            Action::Arrive(at) => {
                let message = world.network[at];
                matches!(message.leg, Leg::Call | Leg::Lost | Leg::Copy).then(|| self.arrive(world, at, message))
            }
            Action::Read(at) => {
                let message = world.network[at];
                matches!(message.leg, Leg::Held(_) | Leg::Busy | Leg::Gone).then(|| self.read(world, at, message))
            }
            Action::Settle(c, proven) => {
                let me = of(c);
                me.change.is_some_and(|change| change.settling).then(|| {
                    let unproven = if proven { me.unproven } else { LEASE + 1 };
                    let mut next = world.with(c, Client { change: None, unproven, ..me });
                    if proven {
                        next.network.retain(|message| message.client != c || message.leg != Leg::Lost);
                    }
                    next.give_up_settling(c);
                    next
                })
            }
            Action::Cut(c) => {
                let change = of(c).change.map(|change| Change { settling: true, ..change });
                let may = world.network.iter().any(|message| message.client == c && message.is_awaited());
                self.disturb(world, may, |next| {
                    next.clients[usize::from(c)] = Client { change, renewing: false, ..of(c) };
                    next.disconnect(c);
                })
            }
            Action::Crash(c) => self.disturb(world, !of(c).dead, |next| {
                next.clients[usize::from(c)] = Client { dead: true, ..Client::default() };
                next.disconnect(c);
                next.give_up_settling(c);
            }),
            Action::Copy(at) => {
                let message = world.network[at];
                let copy = Message { leg: Leg::Copy, age: 0, ..message };
                self.disturb(world, matches!(message.leg, Leg::Call | Leg::Lost), |next| next.network.push(copy))
            }
            Action::Vanish(at) => {
                let may = !world.network[at].is_awaited();
                may.then(|| Self::without(world, at))
            }
            Action::Tick(drift) => self.tick(world, drift),
            Action::HandOver(c) => {
                let may = self.hand_over && of(c).believes() && of(c).wanted == 1 && of(c).is_settled();
                (may && of(c).on_server == 1 && self.may_pass(of(c))).then(|| Self::pass(world, c))
            }
            Action::Linger(c) => {
                let me = of(c);
                let may = self.linger && me.believes() && me.wanted == 1 && me.on_server == 1 && me.is_settled();
                let may = may && (!me.asked || self.has(Fault::LingeringDespiteARequest));
                may.then(|| world.with(c, Client { wanted: 0, lingers: true, ..me }))
            }
            Action::Resume(c) => (of(c).lingers && self.may_pass(of(c))).then(|| Self::pass(world, c)),
            Action::StopLingering(c) => {
                of(c).lingers.then(|| world.with(c, Client { lingers: false, belief: 0, ..of(c) }))
            }
        };
        next.map(|next| next.tidied(self.has(Fault::ComparedByClientOnly)).representative())
    }

    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// A client sends a change of its count.
    fn change(world: &World, c: u8, me: Client, verb: Verb, target: u8) -> World {
        let change = Some(Change { target, settling: false });
        world.with(c, Client { change, ..me }).sending(c, verb, target)
    }

    /// Something goes wrong, if something may.
    fn disturb(&self, world: &World, may: bool, what: impl FnOnce(&mut World)) -> Option<World> {
        (may && world.disturbances > 0).then(|| {
            let mut next = World { disturbances: world.disturbances - 1, ..world.clone() };
            what(&mut next);
            next
        })
    }

    pub(crate) fn without(world: &World, at: usize) -> World {
        let mut next = world.clone();
        next.network.remove(at);
        next
    }

    /// For how long a client may believe, by the lease that was left when a call was executed, and the call's age.
    pub(crate) fn deadline(&self, left: u8, age: u8) -> u8 {
        let age = if self.has(Fault::DeadlineFromTheReply) { 0 } else { age };
        left.saturating_sub(age).saturating_sub(if self.has(Fault::NoMargin) { 0 } else { MARGIN })
    }

    /// Whether a hold may go to another task without the server.
    fn may_pass(&self, me: Client) -> bool {
        (me.passes < PASSES && me.tenure <= PASSING) || self.has(Fault::HandOverWithoutBound)
    }

    /// A hold goes to another task of its client, before other clients.
    fn pass(world: &World, c: u8) -> World {
        let me = world.clients[usize::from(c)];
        let mut next = world.with(c, Client { wanted: 1, lingers: false, passes: PASSES.min(me.passes + 1), ..me });
        for other in next.clients.iter_mut().filter(|other| other.waits) {
            other.passed_over = (other.passed_over + 1).min(PASSES + 1);
        }
        next
    }
}
