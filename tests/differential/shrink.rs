//! Makes a history that shows a difference as short as it can be.

use crate::engines::Pair;
use crate::history::History;
use crate::same::Difference;

/// Drops steps as long as what is left shows a difference, and gives what cannot be made shorter.
pub(crate) fn shortest(pair: &mut Pair, mut history: History) -> (History, Difference) {
    let mut difference = pair.run(&history).expect("the history shows a difference, and does so each time");
    let mut chunk = history.steps.len();
    while chunk > 0 {
        history.steps.truncate(difference.at + 1);
        let mut shorter = false;
        let mut from = 0;
        while from < history.steps.len() {
            let mut without = history.clone();
            without.steps.drain(from..(from + chunk).min(history.steps.len()));
            match pair.run(&without) {
                Some(found) => {
                    (history, difference, shorter) = (without, found, true);
                    history.steps.truncate(difference.at + 1);
                }
                None => from += chunk,
            }
        }
        if chunk > 1 || !shorter {
            chunk /= 2;
        }
    }
    let mut deaf = history.clone();
    deaf.listened.clear();
    match pair.run(&deaf) {
        Some(found) => (deaf, found),
        None => (history, difference),
    }
}
