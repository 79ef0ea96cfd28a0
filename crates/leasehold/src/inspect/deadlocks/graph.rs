//! Cycles among waits.

use std::collections::HashMap;
use std::hash::Hash;

/// Returns the cycles among `waits`. A cycle is a list of indexes, in order. Each wait depends on an owner of the next wait, and the last wait on
/// an owner of the first. Cycles do not overlap. Every wait that a cycle blocks leads to a returned cycle.
///
/// The `owners` of a wait continue only after it; its `holders` must release a lock before it ends.
pub(super) fn cycles<O: Eq + Hash>(waits: &[Wait<O>]) -> Vec<Vec<usize>> {
    let mut of_owner: HashMap<&O, Vec<usize>> = HashMap::new();
    for (place, wait) in waits.iter().enumerate() {
        wait.owners.iter().for_each(|owner| of_owner.entry(owner).or_default().push(place));
    }
    let next = |place: usize| -> Vec<usize> {
        let all = waits[place].holders.iter().filter_map(|holder| of_owner.get(holder));
        all.flatten().copied().collect()
    };
    let mut state = vec![State::New; waits.len()];
    let mut found = Vec::new();
    for start in 0..waits.len() {
        if state[start] != State::New {
            continue;
        }
        // The path from the start: each wait with its unvisited successors.
        let mut way = vec![(start, next(start))];
        state[start] = State::OnTheWay;
        while let Some((place, rest)) = way.last_mut() {
            let place = *place;
            match rest.pop() {
                None => {
                    state[place] = State::Done;
                    way.pop();
                }
                Some(other) if state[other] == State::OnTheWay => {
                    let cycle: Vec<usize> =
                        way.iter().map(|(place, _)| *place).skip_while(|place| *place != other).collect();
                    if !found.iter().flatten().any(|known| cycle.contains(known)) {
                        found.push(cycle);
                    }
                }
                Some(other) if state[other] == State::New => {
                    state[other] = State::OnTheWay;
                    way.push((other, next(other)));
                }
                Some(_) => {}
            }
        }
    }
    found
}

/// A wait with its owners and holders.
#[derive(Debug)]
pub(super) struct Wait<O> {
    pub(super) owners: Vec<O>,
    pub(super) holders: Vec<O>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    New,
    OnTheWay,
    Done,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(owners: &[u32], holders: &[u32]) -> Wait<u32> {
        Wait { owners: owners.to_vec(), holders: holders.to_vec() }
    }

    fn sorted(waits: &[Wait<u32>]) -> Vec<Vec<usize>> {
        let mut all = cycles(waits);
        all.iter_mut().for_each(|cycle| cycle.sort_unstable());
        all.sort();
        all
    }

    #[test]
    fn cycles_of_every_length_are_found_once() {
        assert_eq!(sorted(&[wait(&[1], &[2])]), Vec::<Vec<usize>>::new());
        assert_eq!(sorted(&[wait(&[1, 2], &[2])]), [[0]], "an owner waits for what the scope around it holds");
        for length in [2_u32, 3, 5, 200] {
            let mut waits: Vec<_> = (0..length).map(|owner| wait(&[owner], &[(owner + 1) % length])).collect();
            // Waits that lead to the cycle are not in it.
            waits.extend((0..length).map(|owner| wait(&[owner + 1_000], &[owner])));
            assert_eq!(sorted(&waits), [(0..length as usize).collect::<Vec<_>>()], "{length}");
        }
        let two = [wait(&[1], &[2]), wait(&[2], &[1]), wait(&[3], &[4, 1]), wait(&[4], &[3])];
        assert_eq!(sorted(&two), [[0, 1], [2, 3]]);
        // A writer waits for every reader.
        assert_eq!(sorted(&[wait(&[1], &[7, 8, 2]), wait(&[2], &[1])]), [[0, 1]]);
    }

    #[test]
    fn thousand_random_runs_without_a_cycle_have_none() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..1_000 {
            let owners = rng.u32(1..40);
            // Each owner waits only for later owners, so the graph has no cycle.
            let waits: Vec<_> = (0..owners)
                .map(|owner| {
                    let holders: Vec<_> = (0..rng.u32(0..4)).map(|_| rng.u32(owner + 1..owners + 2)).collect();
                    wait(&[owner], &holders)
                })
                .collect();
            assert_eq!(sorted(&waits), Vec::<Vec<usize>>::new(), "{waits:?}");
        }
    }

    #[test]
    fn a_random_cycle_is_found_among_others() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..1_000 {
            let owners = rng.u32(2..40);
            let mut waits: Vec<_> = (0..owners)
                .map(|owner| {
                    wait(&[owner], &(0..rng.u32(0..3)).map(|_| rng.u32(owner + 1..owners + 2)).collect::<Vec<_>>())
                })
                .collect();
            let length = rng.u32(1..=owners);
            for owner in 0..length {
                waits[owner as usize].holders.push((owner + 1) % length);
            }
            rng.shuffle(&mut waits);
            assert!(!cycles(&waits).is_empty(), "{waits:?}");
            for cycle in cycles(&waits) {
                for (at, place) in cycle.iter().enumerate() {
                    let next = &waits[cycle[(at + 1) % cycle.len()]];
                    assert!(waits[*place].holders.iter().any(|holder| next.owners.contains(holder)), "{cycle:?}");
                }
            }
        }
    }
}
