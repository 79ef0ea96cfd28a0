//! From the release in one client to the grant in another.

use crate::{
    crew::Crew,
    figures::Figures,
    peer::{Peer, Waits},
    row::{P50, P99, Row},
    worker::figure,
};

/// The pauses before a release, in microseconds: long enough for the waiter to wait.
const PAUSES: [u32; 2] = [8_000, 16_000];
/// The pauses for a library that polls: as long as its interval, so that it is met at each point of it.
const PAUSES_OF_POLLING: [u32; 2] = [20_000, 220_000];

pub(crate) fn measure(crew: &mut Crew<'_>, figures: &mut Figures) {
    for round in 0..=crew.plan.wake_rounds {
        for peer in crew.of(Row::Wake) {
            // A library that polls needs no warming up, and is slow.
            let takes_part = match peer.waits {
                Waits::ByMessage => true,
                Waits::Polling => (1..=crew.plan.polled_rounds).contains(&round),
            };
            if takes_part {
                crew.with(Row::Wake, peer, |crew| one(crew, peer, figures, round == 0));
            }
        }
    }
}

fn one(crew: &mut Crew<'_>, peer: &'static Peer, figures: &mut Figures, warms_up: bool) -> Result<(), String> {
    let (count, [least, most]) = match peer.waits {
        Waits::ByMessage => (crew.plan.wake_ups, PAUSES),
        Waits::Polling => (crew.plan.polled_wake_ups, PAUSES_OF_POLLING),
    };
    let task = format!("wake bench:wake:{} {count} {least} {most}", peer.library);
    let answer = crew.worker(peer)?.ask(&task)?;
    if !warms_up {
        figures.add(Row::Wake, CASE, peer.name, &P50, figure(&answer, "p50")? / 1e3);
        // Twenty figures have no 99th percentile.
        if peer.waits == Waits::ByMessage {
            figures.add(Row::Wake, CASE, peer.name, &P99, figure(&answer, "p99")? / 1e3);
        }
    }
    Ok(())
}

const CASE: &str = "one waiter";
