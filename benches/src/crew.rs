//! The peers that take part: their processes, and those that are left out.

use crate::{
    peer::{Language, PEERS, Peer},
    plan::Plan,
    programs::Programs,
    row::Row,
    server::BenchServer,
    worker::Worker,
};
use std::collections::BTreeMap;

/// The peers of a run.
pub(crate) struct Crew<'r> {
    programs: &'r Programs,
    pub(crate) server: &'r BenchServer,
    pub(crate) plan: Plan,
    workers: BTreeMap<&'static str, Worker>,
    absent: BTreeMap<&'static str, Absence>,
}

/// The reason why a peer does not take part, or no longer.
enum Absence {
    /// Its language, or its library, cannot be had here.
    Missing(String),
    /// It was started, and did not do its work.
    Failed { row: Row, why: String },
}

impl<'r> Crew<'r> {
    pub(crate) fn new(programs: &'r Programs, server: &'r BenchServer, plan: Plan) -> Self {
        Self { programs, server, plan, workers: BTreeMap::new(), absent: BTreeMap::new() }
    }

    /// Notes whether the peer can be had.
    pub(crate) fn look_for(&mut self, peer: &'static Peer) {
        if let Err(why) = self.programs.command(peer, "") {
            eprintln!("SKIPPED: {}: {why}", peer.name);
            self.absent.insert(peer.name, Absence::Missing(why));
        }
    }

    /// The peers that take part in a row.
    pub(crate) fn of(&self, row: Row) -> Vec<&'static Peer> {
        let present = |peer: &&Peer| peer.rows.contains(&row) && !self.absent.contains_key(peer.name);
        PEERS.iter().filter(present).collect()
    }

    /// Has a peer do its part of a row. A failure ends its part in the run.
    pub(crate) fn with(&mut self, row: Row, peer: &'static Peer, part: impl FnOnce(&mut Self) -> Result<(), String>) {
        if self.absent.contains_key(peer.name) {
            return;
        }
        if let Err(why) = part(self) {
            eprintln!("FAILED: {}: {why}", peer.name);
            self.workers.remove(peer.name);
            self.absent.insert(peer.name, Absence::Failed { row, why });
        }
    }

    /// The process of a peer, which is started when it is first needed and then stays.
    pub(crate) fn worker(&mut self, peer: &'static Peer) -> Result<&mut Worker, String> {
        if !self.workers.contains_key(peer.name) {
            let worker = self.start(peer)?;
            self.workers.insert(peer.name, worker);
        }
        self.workers.get_mut(peer.name).ok_or_else(|| "it is not there".to_owned())
    }

    /// One more process of a peer.
    pub(crate) fn start(&self, peer: &'static Peer) -> Result<Worker, String> {
        self.start_several(peer, 1)?.pop().ok_or_else(|| "it is not there".to_owned())
    }

    /// More processes of a peer, which warm up at the same time.
    pub(crate) fn start_several(&self, peer: &'static Peer, count: usize) -> Result<Vec<Worker>, String> {
        let mut command = self.programs.command(peer, &self.server.url())?;
        let mut workers = (0..count).map(|_| Worker::start(&mut command)).collect::<Result<Vec<_>, _>>()?;
        if peer.language == Language::Java {
            for (number, worker) in workers.iter_mut().enumerate() {
                worker.tell(&format!("pairs bench:warm-up:{number} 16 {}", self.plan.warm_up.as_millis()))?;
            }
            workers.iter_mut().try_for_each(|worker| worker.answer().map(drop))?;
        }
        Ok(workers)
    }

    /// Ends all processes, so that they do not take time from others.
    pub(crate) fn dismiss(&mut self) {
        self.workers.clear();
        self.server.empty();
    }

    /// The peers that are not in the tables, or not in all of them, with the reason.
    pub(crate) fn left_out(&self) -> Vec<String> {
        let told = |(name, absence): (&&str, &Absence)| match absence {
            Absence::Missing(why) => format!("{name}: {why}"),
            Absence::Failed { row, why } => format!("{name} failed in \"{}\": {why}", row.title()),
        };
        self.absent.iter().map(told).collect()
    }

    /// The peers that failed.
    pub(crate) fn failed(&self) -> Vec<String> {
        let failed = self.absent.iter().filter(|(_, absence)| matches!(absence, Absence::Failed { .. }));
        failed.map(|(name, _)| (*name).to_owned()).collect()
    }
}
