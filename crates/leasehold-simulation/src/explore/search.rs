//! The search: every state that can be reached, those that take fewest choices first.
//!
//! Three rules leave out ways that come to nothing new. Each of them only speaks of what certainly commutes.
//!
//! - **A crash waits for what concerns its client alone.** While a client can take a reply or a notice, begin an operation, or run its
//!   timers, no crash of it is followed: taking that step first touches nobody else, and whatever it sends is among what a crash
//!   may keep from arriving. So every crash before the step is one after it.
//! - **What is lost is lost at once.** Of the requests that are on the way by a connection that ends, any number of the first ones
//!   still arrive, at any time. Which ones is chosen when it ends, because a request that never arrives changes nothing while it
//!   is on its way.
//! - **Steps that nobody can see are not interleaved** once no crash and no end of a lease is left. Where a client has nothing on the
//!   way to the server, hears no notices, can lose no connection that matters and believes to hold nothing, the steps that concern it
//!   alone are followed, and no other: nothing that others do can change what these do, none of them changes what others do, and
//!   none of them ends a belief. The numbers in a client's state only grow, so that no step is put off for ever.
//!
//! A client whose script is over, and whose session has nothing and waits for nothing, is told nothing any more, and the way on which
//! it came there is forgotten.

use super::members::Members;
use super::pool::hash_of;
use super::server::Broken;
use super::state::State;
use super::symmetry::SAME;
use super::world::{Options, World};
use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::{Duration, Instant};

/// What was explored.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Figures {
    /// Different states of the world.
    pub states: usize,
    /// Choices that were followed from them.
    pub transitions: usize,
    /// States in which nothing can happen any more.
    pub ends: usize,
    /// Different outcomes: what there is on the server in the end.
    pub outcomes: usize,
    /// How many choices the longest of the shortest ways takes.
    pub depth: usize,
    /// Different states of clients, all together.
    pub client_states: usize,
    /// Different states of the server.
    pub server_states: usize,
    /// How long it took.
    pub took: Duration,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "states {}, transitions {}, end states {}, outcomes {}, depth {}, states of clients {}, of the server {}, {:.1} s",
            self.states,
            self.transitions,
            self.ends,
            self.outcomes,
            self.depth,
            self.client_states,
            self.server_states,
            self.took.as_secs_f64()
        )
    }
}

/// A state that must not be, and a shortest way to it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Fault {
    /// What must not be.
    pub what: String,
    /// The choices that lead there, from the beginning.
    pub way: Vec<String>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.what)?;
        self.way.iter().zip(1..).try_for_each(|(choice, number)| writeln!(f, "{number:>4}. {choice}"))
    }
}

/// What is put into the set of known states is a hash already.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, hash: u128) {
        self.0 = (hash >> 64) as u64;
    }
}

/// Follows every choice from every state of a small world.
///
/// # Errors
///
/// The first state that must not be, with a shortest way to it.
pub fn explore(options: &Options) -> Result<Figures, Box<Fault>> {
    explore_broken(options, None)
}

/// The same, with a script that is not what it should be.
pub(super) fn explore_broken(options: &Options, broken: Option<Broken>) -> Result<Figures, Box<Fault>> {
    let began = Instant::now();
    let mut world = World::new(options, broken);
    let first = State::new(options.disturbances, options.losses);
    let mut known: HashSet<u128, BuildHasherDefault<AsItIs>> = HashSet::default();
    known.insert(hash_of(&first));
    let mut ways = Ways { from: vec![0], choice: vec![0] };
    let mut layer = vec![(0, first)];
    let mut figures = Figures { states: 1, ..Figures::default() };
    let mut outcomes = HashSet::new();
    let mut by = [0usize; 8]; let mut rests = 0;
    while !layer.is_empty() {
        let mut next_layer = Vec::new();
        for (number, state) in layer {
            let choices = world.choices(&state);
            if choices.is_empty() {
                figures.ends += 1;
                outcomes.insert(world.outcome(&state));
                let ended = world.check_end(&state);
                ended.map_err(|what| Box::new(Fault { what, way: ways.tell(&mut world, number, None) }))?;
            }
            for (choice, index) in choices.into_iter().zip(0..) {
                figures.transitions += 1;
                let mut after = state;
                let taken = world.take(&mut after, choice);
                taken.and_then(|()| world.check(&after)).map_err(|what| {
                    Box::new(Fault { what, way: ways.tell(&mut world, number, Some(index)) })
                })?;
                if options.reduced {
                    (after, _) = world.representative(&after);
                }
                let mut key = after; if std::env::var_os("NR").is_some() { key.rests = 0; }
 if known.insert(hash_of(&key)) {
                    let slot = usize::from(after.disturbances) * 2 + usize::from(after.losses); by[slot] += 1; rests = rests.max(after.rests);
                    ways.from.push(number);
                    ways.choice.push(index);
                    next_layer.push((u32::try_from(ways.from.len() - 1).expect("states have numbers"), after));
                }
            }
        }
        figures.depth += usize::from(!next_layer.is_empty());
        layer = next_layer;
        if std::env::var_os("LEASEHOLD_TELL").is_some() {
            let (states, wide) = (ways.from.len(), layer.len());
            let members: usize = world.members.iter().map(Members::len).sum();
            let clients: usize = world.members.iter().map(|members| members.clients.len()).sum();
            eprintln!(
                "depth {}: {states} states, {wide} at its edge, {} transitions, {:.0?}; {members} members, {clients} clients, {} servers",
                figures.depth,
                figures.transitions,
                began.elapsed(),
                world.server.len(),
            );
        }
    }
    figures.states = ways.from.len();
    eprintln!("d0l0 d0l1 d1l0 d1l1.. {by:?} rests {rests}");
    figures.outcomes = outcomes.len();
    figures.client_states = world.members.iter().map(|members| members.clients.len()).sum();
    figures.server_states = world.server.len();
    figures.took = began.elapsed();
    Ok(figures)
}

/// How each state was reached first: from which other, and by which of the choices there.
struct Ways {
    from: Vec<u32>,
    choice: Vec<u16>,
}

impl Ways {
    /// The choices on the way to a state, and one more, told one by one.
    fn tell(&self, world: &mut World, to: u32, last: Option<u16>) -> Vec<String> {
        let mut way: Vec<u16> = last.into_iter().collect();
        let mut at = to as usize;
        while at > 0 {
            way.push(self.choice[at]);
            at = self.from[at] as usize;
        }
        let mut state = State::new(world.options.disturbances, world.options.losses);
        let mut told = Vec::new();
        for index in way.into_iter().rev() {
            // Choices were numbered in the state that stands for this one.
            let (stands, order) = if world.options.reduced { world.representative(&state) } else { (state, SAME) };
            let choice = world.choices(&stands)[usize::from(index)].by(&order);
            told.push(choice.tell(world, &state));
            if world.take(&mut state, choice).is_err() {
                break;
            }
        }
        told
    }
}
