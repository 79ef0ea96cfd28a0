//! Work that stands while the server is looked at: long lines, held locks, and waiters. Each has processes of its own.

use crate::{
    crew::Crew,
    figures::{Figures, number},
    peer::Peer,
    plan::Renewals,
    row::{BYTES, CLIENT, GRANTS, GROWTH, KEPT, Row, SCRIPTS, SHARE, STALL},
    server::Reading,
    worker::{Answer, Worker, figure},
};
use std::{
    thread,
    time::{Duration, Instant},
};

/// The longest time that a line has to form in.
const LINED_UP: Duration = Duration::from_secs(90);

/// The cost of a grant in lines of different lengths.
pub(crate) fn queues(crew: &mut Crew<'_>, figures: &mut Figures) {
    for waiters in crew.plan.lines {
        for peer in crew.of(Row::Queue).into_iter().filter(|peer| *waiters <= peer.longest_line) {
            crew.dismiss();
            crew.with(Row::Queue, peer, |crew| queue(crew, peer, *waiters, figures));
        }
    }
}

fn queue(crew: &Crew<'_>, peer: &'static Peer, waiters: usize, figures: &mut Figures) -> Result<(), String> {
    let mut worker = crew.start(peer)?;
    let name = format!("bench:queue:{}", peer.library);
    worker.ask(&format!("queue {name} {waiters}"))?;
    let begun = Instant::now();
    while peer.name.ends_with("fair lock") && crew.server.queued(&name) < waiters {
        if begun.elapsed() > LINED_UP {
            return Err(format!("only {} of {waiters} waiters stood in line in time", crew.server.queued(&name)));
        }
        thread::sleep(Duration::from_millis(20));
    }
    worker.ask("go")?;
    let case = format!("{} waiters", number_of(waiters));
    let mut before = Moment::now(crew, &mut worker)?;
    // The first window warms up.
    for round in 0..=crew.plan.queue.rounds {
        thread::sleep(crew.plan.queue.window);
        let after = Moment::now(crew, &mut worker)?;
        let grants = figure(&after.answer, "grants")? - figure(&before.answer, "grants")?;
        if round > 0 {
            let server = after.reading.since(&before.reading, peer.sends).micros / grants;
            let client = (figure(&after.answer, "cpu")? - figure(&before.answer, "cpu")?) / 1e3 / grants;
            let rate = grants / after.at.duration_since(before.at).as_secs_f64();
            for (metric, value) in [(&GRANTS, rate), (&SCRIPTS, server), (&CLIENT, client)] {
                figures.add(Row::Queue, &case, peer.name, metric, value);
            }
            let shortest = figures.cases(Row::Queue).first().map(|case| (*case).to_owned()).unwrap_or_default();
            if let Some(least) = figures.middle(Row::Queue, &shortest, peer.name, &SCRIPTS).filter(|_| shortest != case)
            {
                figures.add(Row::Queue, &case, peer.name, &GROWTH, server / least);
            }
        }
        before = after;
    }
    Ok(())
}

/// The state of a line at a time.
struct Moment {
    at: Instant,
    answer: Answer,
    reading: Reading,
}

impl Moment {
    fn now(crew: &Crew<'_>, worker: &mut Worker) -> Result<Self, String> {
        Ok(Self { answer: worker.ask("count")?, at: Instant::now(), reading: crew.server.reading() })
    }
}

/// The cost of periods in which held locks are renewed.
pub(crate) fn held(crew: &mut Crew<'_>, figures: &mut Figures) {
    for locks in crew.plan.held {
        for peer in crew.of(Row::Held) {
            crew.dismiss();
            crew.with(Row::Held, peer, |crew| hold(crew, peer, *locks, figures));
        }
    }
    crew.dismiss();
}

fn hold(crew: &Crew<'_>, peer: &'static Peer, locks: usize, figures: &mut Figures) -> Result<(), String> {
    let mut worker = crew.start(peer)?;
    let case = format!("{} locks", number_of(locks));
    let idle = crew.server.ping(Duration::from_secs(1))?;
    let answer = worker.ask(&format!("hold bench:held:{} {locks}", peer.library))?;
    figures.add(Row::Held, &case, peer.name, &BYTES, figure(&answer, "bytes")? / count(locks));
    let Renewals::Watched { settle, period, periods } = crew.plan.renewals else { return Ok(()) };
    thread::sleep(settle);
    for _ in 0..periods {
        let before = crew.server.reading();
        let stalled = crew.server.ping(period)?;
        let done = crew.server.reading().since(&before, peer.sends);
        let each = [
            (&SHARE, done.micros / 1e4 / period.as_secs_f64()),
            (&STALL, stalled / idle),
            (&KEPT, (crew.server.keys() / count(locks) * 100.0).min(100.0)),
        ];
        for (metric, value) in each {
            figures.add(Row::Held, &case, peer.name, metric, value);
        }
    }
    Ok(())
}

/// The memory of waiters.
pub(crate) fn waiters(crew: &mut Crew<'_>, figures: &mut Figures) {
    for waiters in crew.plan.waiters {
        for peer in crew.of(Row::Waiters) {
            crew.dismiss();
            crew.with(Row::Waiters, peer, |crew| {
                let answer = crew.start(peer)?.ask(&format!("wait bench:waiters:{} {waiters}", peer.library))?;
                let bytes = figure(&answer, "bytes")? / count(*waiters);
                figures.add(Row::Waiters, &format!("{} waiters", number_of(*waiters)), peer.name, &BYTES, bytes);
                Ok(())
            });
        }
    }
    crew.dismiss();
}

#[expect(clippy::cast_precision_loss, reason = "a mean is made of it")]
fn count(number: usize) -> f64 {
    number as f64
}

fn number_of(size: usize) -> String {
    if size < 100 { size.to_string() } else { number(count(size)) }
}
