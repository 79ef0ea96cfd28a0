//! One name that many tasks want at once.

use crate::{
    crew::Crew,
    figures::Figures,
    peer::Peer,
    plan::Rounds,
    row::{CLIENT, COMMANDS, GAP, GRANTS, Row, SHARES},
    server::Done,
    worker::{Answer, Worker, figure},
};
use std::time::{Duration, SystemTime};

const PROCESSES: usize = 4;

pub(crate) fn in_one_process(crew: &mut Crew<'_>, figures: &mut Figures) {
    let Rounds { rounds, window } = crew.plan.hot;
    for round in 0..=rounds {
        for peer in crew.of(Row::Hot) {
            crew.with(Row::Hot, peer, |crew| {
                crew.worker(peer)?;
                let before = crew.server.reading();
                let task = format!("hot bench:hot:{}:{round} 64 {} {}", peer.library, soon()?, window.as_millis());
                let answer = crew.worker(peer)?.ask(&task)?;
                let done = crew.server.reading().since(&before, peer.sends);
                let seen = Seen::of(&[answer], &done)?;
                if round > 0 {
                    seen.write(Row::Hot, "64 tasks", peer, window, figures);
                }
                Ok(())
            });
        }
    }
}

pub(crate) fn in_four_processes(crew: &mut Crew<'_>, figures: &mut Figures) {
    // The processes of other rows do not take time from these, of which one peer's are there at a time.
    crew.dismiss();
    let Rounds { rounds, window } = crew.plan.contended;
    for peer in crew.of(Row::Contended) {
        crew.with(Row::Contended, peer, |crew| {
            let mut workers = crew.start_several(peer, PROCESSES)?;
            for round in 0..=rounds {
                let before = crew.server.reading();
                let task =
                    format!("hot bench:contended:{}:{round} 16 {} {}", peer.library, soon()?, window.as_millis());
                workers.iter_mut().try_for_each(|worker| worker.tell(&task))?;
                let answers: Vec<_> = workers.iter_mut().map(Worker::answer).collect::<Result<_, _>>()?;
                let done = crew.server.reading().since(&before, peer.sends);
                let seen = Seen::of(&answers, &done)?;
                if round > 0 {
                    seen.write(Row::Contended, "4 x 16 tasks", peer, window, figures);
                }
            }
            Ok(())
        });
    }
}

/// A time of the wall clock at which every process has read its task.
fn soon() -> Result<u128, String> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_err(|error| error.to_string())?;
    Ok(now.as_millis() + 30)
}

/// The figures of one round.
#[derive(Debug, PartialEq)]
struct Seen {
    grants: f64,
    /// The greatest share for each of the least: of a task where there is one process, of a process otherwise.
    shares: f64,
    gap: f64,
    client: f64,
    commands: f64,
}

impl Seen {
    fn of(answers: &[Answer], done: &Done) -> Result<Self, String> {
        let all = |name: &str| answers.iter().map(|answer| figure(answer, name)).collect::<Result<Vec<_>, _>>();
        let (each, after) = (all("grants")?, all("after")?);
        let (least, most) = if answers.len() == 1 {
            (all("least")?[0], all("most")?[0])
        } else {
            (each.iter().copied().fold(f64::INFINITY, f64::min), each.iter().copied().fold(0.0, f64::max))
        };
        let grants: f64 = each.iter().sum();
        Ok(Self {
            grants,
            // A task that was granted nothing counts as if it was granted the lock once.
            shares: most / least.max(1.0),
            gap: all("gap")?.into_iter().fold(0.0, f64::max) / 1e6,
            // A round without a grant has no cost of one: what is divided by nothing is never claimed.
            client: all("cpu")?.into_iter().sum::<f64>() / 1e3 / grants,
            // The line is emptied after the window, by more commands and grants.
            commands: done.calls / (grants + after.into_iter().sum::<f64>()),
        })
    }

    fn write(&self, row: Row, case: &str, peer: &'static Peer, window: Duration, figures: &mut Figures) {
        let each = [
            (&GRANTS, self.grants / window.as_secs_f64()),
            (&SHARES, self.shares),
            (&GAP, self.gap),
            (&COMMANDS, self.commands),
            (&CLIENT, self.client),
        ];
        for (metric, value) in each {
            figures.add(row, case, peer.name, metric, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::PEERS;

    fn answer(grants: f64, gap: f64) -> Answer {
        let figures =
            [("grants", grants), ("after", 1.0), ("least", 0.0), ("most", 6.0), ("gap", gap), ("cpu", 8_000.0)];
        figures.map(|(name, value)| (name.to_owned(), value)).into()
    }

    const DONE: Done = Done { calls: 26.0, micros: 0.0, processor: 0.0 };

    #[test]
    fn shares_are_of_processes_where_there_are_several() {
        let seen = Seen::of(&[answer(8.0, 2e6), answer(2.0, 7e6)], &Done { calls: 24.0, ..DONE }).expect("figures");
        assert_eq!(seen, Seen { grants: 10.0, shares: 4.0, gap: 7.0, client: 1.6, commands: 2.0 });
    }

    #[test]
    fn shares_are_of_tasks_where_there_is_one_process() {
        let seen = Seen::of(&[answer(12.0, 2e6)], &DONE).expect("figures");
        assert_eq!((seen.shares, seen.commands), (6.0, 2.0));
    }

    #[test]
    fn round_without_a_grant_has_no_cost_of_a_grant() {
        let mut figures = Figures::default();
        let (peer, base) = (&PEERS[3], Row::Hot.base());
        for (name, grants) in [(base, 8.0), (peer.name, 0.0)] {
            let peer = PEERS.iter().find(|peer| peer.name == name).expect("a peer");
            let seen = Seen::of(&[answer(grants, 1e6)], &DONE).expect("figures");
            seen.write(Row::Hot, "64 tasks", peer, Duration::from_secs(1), &mut figures);
        }
        let claim = |metric| figures.claim(Row::Hot, "64 tasks", peer.name, metric);
        assert_eq!(claim(&GRANTS).map(|claim| claim.middle), Some(0.0));
        assert_eq!(claim(&CLIENT), None);
    }
}
