//! Acquire and release of locks that no other task wants.

use crate::{
    crew::Crew,
    figures::Figures,
    peer::Peer,
    row::{CLIENT, P50, P99, Row, SCRIPTS, SERVER, THROUGHPUT},
    worker::figure,
};

const TASKS: [usize; 3] = [1, 64, 256];
const OTHERS: usize = 256;

pub(crate) fn measure(crew: &mut Crew<'_>, figures: &mut Figures) {
    for tasks in TASKS {
        for round in 0..=crew.plan.pairs.rounds {
            for peer in crew.of(Row::Pairs) {
                crew.with(Row::Pairs, peer, |crew| one(crew, peer, tasks, figures, round == 0));
            }
        }
    }
}

/// One task, while others are busy.
pub(crate) fn beside(crew: &mut Crew<'_>, figures: &mut Figures) {
    for round in 0..=crew.plan.pairs.rounds {
        for peer in crew.of(Row::Beside) {
            crew.with(Row::Beside, peer, |crew| {
                let window = crew.plan.pairs.window.as_millis();
                let answer =
                    crew.worker(peer)?.ask(&format!("beside bench:beside:{} {OTHERS} {window}", peer.library))?;
                for (metric, name) in [(&P50, "p50"), (&P99, "p99")].into_iter().filter(|_| round > 0) {
                    figures.add(Row::Beside, "one of 257 tasks", peer.name, metric, figure(&answer, name)? / 1e3);
                }
                Ok(())
            });
        }
    }
}

fn one(
    crew: &mut Crew<'_>,
    peer: &'static Peer,
    tasks: usize,
    figures: &mut Figures,
    warms_up: bool,
) -> Result<(), String> {
    let task = format!("pairs bench:pairs:{} {tasks} {}", peer.library, crew.plan.pairs.window.as_millis());
    crew.worker(peer)?;
    let before = crew.server.reading();
    let answer = crew.worker(peer)?.ask(&task)?;
    let done = crew.server.reading().since(&before, peer.sends);
    if warms_up {
        return Ok(());
    }
    let [pairs, wall, p50, p99, cpu] = ["pairs", "wall", "p50", "p99", "cpu"].map(|name| figure(&answer, name));
    let (pairs, case) = (pairs?, format!("{tasks} {}", if tasks == 1 { "task" } else { "tasks" }));
    let each = [
        (&THROUGHPUT, pairs / (wall? / 1e9)),
        (&P50, p50? / 1e3),
        (&P99, p99? / 1e3),
        (&CLIENT, cpu? / 1e3 / pairs),
        (&SCRIPTS, done.micros / pairs),
        (&SERVER, done.processor / pairs),
    ];
    for (metric, value) in each {
        figures.add(Row::Pairs, &case, peer.name, metric, value);
    }
    Ok(())
}
