//! A checker that visits every state that can be reached, breadth first, so that a counterexample is a shortest one.

use rustc_hash::{FxHashMap, FxHasher};
use std::fmt::Debug;
use std::hash::{Hash, Hasher};

/// A model that can be checked: the states, what can happen in each, and what must hold in all.
pub trait Checkable {
    /// Everything that has a bearing on what can happen next.
    type State: Clone + Debug + Hash;
    /// One thing that happens.
    type Action: Copy + Debug;

    /// The state in which everything begins.
    fn first(&self) -> Self::State;
    /// All that can happen in a state, each with the state that follows.
    fn next(&self, state: &Self::State) -> Vec<(Self::Action, Self::State)>;
    /// The properties that every state has.
    fn properties(&self) -> Vec<Property<Self::State>>;
}

/// A property that every state has.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Property<S> {
    /// The promise, in words.
    pub name: &'static str,
    /// Whether it holds in a state.
    pub holds: fn(&S) -> bool,
}

/// How many states there are, if each property holds in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// The states that can be reached.
    pub states: usize,
    /// The ways from one to the next.
    pub transitions: usize,
}

/// A shortest way to a state in which a property does not hold.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Counterexample {
    /// The property that is broken.
    pub property: &'static str,
    /// The actions, each with the state that follows, in words.
    pub steps: Vec<String>,
}

/// A state is remembered by a hash, with that of the state before it. Among ten million states two of equal hash are as likely as one in
/// three hundred thousand.
type Seen = FxHashMap<u64, u64>;

fn hash<S: Hash>(state: &S) -> u64 {
    let mut hasher = FxHasher::default();
    state.hash(&mut hasher);
    hasher.finish()
}

/// Visits every state. It checks the properties whose names contain `only`: all of them, if that is empty.
pub fn check<M: Checkable>(model: &M, only: &str) -> Result<Figures, Box<Counterexample>> {
    check_and_show(model, only, |_| {})
}

/// The same, and shows every state.
pub fn check_and_show<M: Checkable>(
    model: &M,
    only: &str,
    mut show: impl FnMut(&M::State),
) -> Result<Figures, Box<Counterexample>> {
    let properties: Vec<_> = model.properties().into_iter().filter(|one| one.name.contains(only)).collect();
    let first = model.first();
    let mut seen = Seen::default();
    seen.insert(hash(&first), 0);
    let mut transitions = 0;
    let mut frontier = vec![first];
    while !frontier.is_empty() {
        let mut following = Vec::new();
        for state in frontier {
            show(&state);
            if let Some(broken) = properties.iter().find(|property| !(property.holds)(&state)) {
                let steps = way_to(model, &seen, hash(&state));
                return Err(Box::new(Counterexample { property: broken.name, steps }));
            }
            let from = hash(&state);
            for (_, next) in model.next(&state) {
                transitions += 1;
                seen.entry(hash(&next)).or_insert_with(|| {
                    following.push(next);
                    from
                });
            }
        }
        frontier = following;
    }
    Ok(Figures { states: seen.len(), transitions })
}

/// Goes back from hash to hash, and then forward again from state to state.
fn way_to<M: Checkable>(model: &M, seen: &Seen, last: u64) -> Vec<String> {
    let mut state = model.first();
    let mut way = vec![last];
    while let Some(before) = way.last().and_then(|hash| seen.get(hash)).filter(|before| **before != 0) {
        way.push(*before);
    }
    let mut steps = Vec::new();
    for target in way.iter().rev().skip(1) {
        let Some((action, next)) = model.next(&state).into_iter().find(|(_, next)| hash(next) == *target) else {
            break;
        };
        steps.push(format!("{action:?}\n    {next:?}"));
        state = next;
    }
    steps
}
