//! Delta debugging: the few parts of many that are needed.

use std::time::Instant;

/// The fewest of `parts` that are still enough: large pieces are left out first, then smaller ones, and at last one after the other, until
/// no single part can be left out any more or the time is over. `is_enough` is asked about what would be left.
///
/// The flag says whether it came to its end within the time.
pub(crate) fn reduce<T: Clone>(
    parts: Vec<T>,
    until: Instant,
    mut is_enough: impl FnMut(&[T]) -> bool,
) -> (Vec<T>, bool) {
    let mut left = parts;
    let mut size = left.len();
    while size > 0 && !left.is_empty() {
        let (mut from, mut smaller) = (0, false);
        while from < left.len() {
            if Instant::now() >= until {
                return (left, false);
            }
            let to = (from + size).min(left.len());
            let rest = [&left[..from], &left[to..]].concat();
            if is_enough(&rest) {
                left = rest;
                smaller = true;
            } else {
                from = to;
            }
        }
        // A part that could not be left out before may be now.
        if size > 1 || !smaller {
            size /= 2;
        }
    }
    (left, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn in_time() -> Instant {
        Instant::now() + Duration::from_secs(600)
    }

    #[test]
    fn what_is_needed_is_left_and_nothing_else() {
        for needed in [vec![], vec![0], vec![63], vec![3, 4, 5], vec![0, 31, 32, 63], (0..64).collect::<Vec<_>>()] {
            let mut asked = 0;
            let (left, ended) = reduce((0..64).collect(), in_time(), |left| {
                asked += 1;
                needed.iter().all(|part| left.contains(part))
            });
            assert_eq!(left, needed);
            assert!(ended);
            assert!(asked <= 64 * 4, "{needed:?} took {asked}");
        }
    }

    #[test]
    fn part_that_another_one_held_fast_is_left_out_after_it() {
        // Nine is needed as long as five is there.
        let is_enough = |left: &[u32]| left.contains(&7) && (!left.contains(&5) || left.contains(&9));
        for parts in [(0..16).collect::<Vec<_>>(), (0..16).rev().collect()] {
            assert_eq!(reduce(parts, in_time(), is_enough), (vec![7], true));
        }
    }

    #[test]
    fn no_question_is_asked_once_the_time_is_over() {
        let (left, ended) = reduce(vec![1, 2, 3], Instant::now(), |_| panic!("it was asked"));
        assert_eq!((left, ended), (vec![1, 2, 3], false));
    }
}
