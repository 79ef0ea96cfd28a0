//! A breadth-first search over every reachable state.
//!
//! Rules leave out ways that come to nothing new. A step **concerns one client alone** where it is told something, runs its timers, begins
//! an operation, or is answered that its connection has nothing on it any more: others only see what it sends, and when the server gets
//! that is a step of its own.
//!
//! - **A crash comes before time passes.** It is followed where all that can happen without a fault is that the server gets requests of
//!   this client, and steps of those who can be held up. Let a client crash earlier. Steps of others, and the arrival of the client's
//!   requests at the server, come to the same if the client is merely slow: it has not taken what came back. So the crash can as well come
//!   after all of that, and the requests that never arrive are those that are left then. Steps that concern the client alone can come
//!   before the crash as well: what they send is among what never arrives. Time passes only if no client that cannot be held up has
//!   anything to do, so that the crash can come before that.
//! - **What is lost is lost at once.** Of the requests that are on the way by a connection that ends, any number of the first ones
//!   still arrive, at any time. Which ones is chosen when it ends, because a request that never arrives changes nothing while it
//!   is on its way.
//! - **Invisible steps are not interleaved** once no disturbance is left. They are followed, and no other, where a client is not held up,
//!   has no request on the way but such as concern it alone, and all that can happen to it is what is followed, the loss of its connections
//!   included:
//!   - it hears no notices, acquires nothing any more, or has one already, so that no other comes before that is taken;
//!   - either it believes to hold nothing; or it believes the same and more after each of these steps, and waits for an answer, so
//!     that what the server has of it is not compared with its beliefs now.
//!
//!   Then nothing that others do can change what these steps do, none of them changes what others do, and none of them hides what is
//!   checked. Each takes something from what is on the way to the client, from its script or from its timers that are due, and none
//!   brings anything there, so that no step of another is put off for ever.
//!
//! A client whose script is over, and whose session has nothing and waits for nothing, is told nothing any more, and the way on which
//! it came there is forgotten.

use super::known::Known;
use super::members::Members;
use super::pool::hash_of;
use super::server::Broken;
use super::state::State;
use super::symmetry::SAME;
use super::world::{Options, World};
use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

/// The explored part.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Figures {
    /// Different states of the world.
    pub states: usize,
    /// Followed choices.
    pub transitions: usize,
    /// Final states.
    pub ends: usize,
    /// Different outcomes, as hashes of the server's final content. Equal scripts are interchangeable.
    pub outcomes: BTreeSet<u128>,
    /// Number of choices in the longest of the shortest paths.
    pub depth: usize,
    /// Different states of all clients.
    pub client_states: usize,
    /// Different states of the server.
    pub server_states: usize,
    /// Duration of the search.
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
            self.outcomes.len(),
            self.depth,
            self.client_states,
            self.server_states,
            self.took.as_secs_f64()
        )
    }
}

/// A state that breaks an invariant, and a shortest path to it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Fault {
    /// The broken invariant.
    pub what: String,
    /// The choices from the initial state to the fault.
    pub way: Vec<String>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.what)?;
        self.way.iter().zip(1..).try_for_each(|(choice, number)| writeln!(f, "{number:>4}. {choice}"))
    }
}

/// Follows every choice from every state of a small world.
///
/// # Errors
///
/// The first state that breaks an invariant, with a shortest path to it.
pub fn explore(options: &Options) -> Result<Figures, Box<Fault>> {
    explore_broken(options, None)
}

/// Explores a world with a mutated script.
pub(crate) fn explore_broken(options: &Options, broken: Option<Broken>) -> Result<Figures, Box<Fault>> {
    explore_and_show(options, broken, |_, _| {})
}

/// Explores a world, and passes every state to `show`.
pub(crate) fn explore_and_show(
    options: &Options,
    broken: Option<Broken>,
    mut show: impl FnMut(&World, &State),
) -> Result<Figures, Box<Fault>> {
    let began = Instant::now();
    let mut world = World::new(options, broken);
    let first = State::new(options.disturbances, options.losses);
    let mut known = Known::new();
    known.insert(hash_of(&first));
    let mut ways = Ways { from: vec![0], choice: vec![0] };
    let mut layer = vec![(0, first)];
    let mut figures = Figures { states: 1, ..Figures::default() };
    while !layer.is_empty() {
        let mut next_layer = Vec::new();
        for (number, state) in layer {
            show(&world, &state);
            let choices = world.choices(&state);
            if choices.is_empty() {
                figures.ends += 1;
                figures.outcomes.insert(world.outcome(&state));
                let ended = world.check_end(&state);
                ended.map_err(|what| Box::new(Fault { what, way: ways.tell(&mut world, number, None) }))?;
            }
            for (choice, index) in choices.into_iter().zip(0..) {
                figures.transitions += 1;
                let mut after = state;
                let mut taken = world.take(&mut after, choice);
                let stands = if options.reduced { world.representative(&after).0 } else { after };
                let is_new = known.insert(hash_of(&stands));
                if is_new && taken.is_ok() {
                    taken = world.check(&after);
                }
                taken.map_err(|what| Box::new(Fault { what, way: ways.tell(&mut world, number, Some(index)) }))?;
                if is_new {
                    ways.from.push(number);
                    ways.choice.push(index);
                    next_layer.push((u32::try_from(ways.from.len() - 1).expect("states have numbers"), stands));
                }
            }
        }
        figures.depth += usize::from(!next_layer.is_empty());
        layer = next_layer;
        if options.telling {
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
    figures.client_states = world.members.iter().map(|members| members.clients.len()).sum();
    figures.server_states = world.server.len();
    figures.took = began.elapsed();
    Ok(figures)
}

/// The first predecessor of each state, and the choice that led to the state.
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
