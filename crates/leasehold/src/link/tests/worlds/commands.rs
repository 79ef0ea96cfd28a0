//! The server commands that the link uses.

use super::batch;
use super::servers::State;
use super::slots::Place;
use super::tally::Happened;
use super::trace::{Event, Number};
use leasehold_core::script::{self, Script};
use leasehold_test_support::Resp;
use std::time::Duration;
use tokio::time::Instant;

/// The arguments before the number of a call.
pub(super) const CALL: &str = "call:";

pub(super) fn text(text: impl Into<String>) -> Resp {
    Resp::Bulk(text.into().into_bytes())
}

pub(super) fn error(text: impl Into<String>) -> Resp {
    Resp::Error(text.into())
}

fn ok() -> Resp {
    Resp::Simple("OK".to_owned())
}

fn words(request: &[Vec<u8>]) -> Vec<String> {
    request.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

impl State {
    /// Executes a request, and sends the reply.
    pub(super) fn perform(&mut self, connection: i64, request: &[Vec<u8>]) {
        let words = words(request);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut at = Instant::now() + self.delay();
        let Some(peer) = self.peers.get_mut(&connection) else { return };
        let (node, asking) = (peer.node, std::mem::take(&mut peer.asking));
        let reply = match words.as_slice() {
            ["HELLO", ..] => self.hello(connection),
            ["CLIENT", "ID"] => Resp::Int(connection),
            ["CLIENT", "INFO"] => {
                let port = self.nodes[node].port;
                text(format!("id={connection} addr=127.0.0.1:1 laddr=127.0.0.1:{port} name="))
            }
            ["CLIENT", "KILL", "ID", id] => self.killed(id),
            ["CLIENT", ..] => ok(),
            ["INFO", what, ..] => {
                // The last command of a handshake.
                peer.introduced |= *what == "replication";
                text(self.info(node, what))
            }
            ["PING"] => Resp::Simple("PONG".to_owned()),
            ["CONFIG", ..] => Resp::Array(Vec::new()),
            ["PUBSUB", ..] if !self.sharded => error("ERR unknown subcommand"),
            ["PUBSUB", ..] => Resp::Array(Vec::new()),
            ["CLUSTER", "SLOTS"] => self.cluster_slots(),
            ["ASKING"] => {
                peer.asking = true;
                ok()
            }
            ["SCRIPT", "EXISTS", hashes @ ..] => {
                let known = &self.nodes[node].scripts;
                Resp::Array(hashes.iter().map(|hash| Resp::Int(i64::from(known.contains(hash)))).collect())
            }
            ["SCRIPT", "LOAD", source] => match by_source(source) {
                Some(script) => {
                    self.nodes[node].scripts.insert(script.sha1());
                    text(script.sha1())
                }
                None if source.contains("local scripts = {") => {
                    self.nodes[node].batches = true;
                    text("the hash of a batch")
                }
                None => error("ERR an unknown script"),
            },
            ["EVALSHA" | "EVAL", ..] => self.run(connection, node, asking, &words),
            ["WAIT", _, limit] => {
                let limit = limit.parse().unwrap_or(1).min(15);
                let last = Resp::Int(peer.last_call);
                at = at.max(Instant::now() + Duration::from_millis(self.rng.u64(..=limit)));
                // The server reads nothing from a blocked connection.
                if let Some(peer) = self.peers.get_mut(&connection) {
                    peer.requests_from = peer.requests_from.max(at);
                }
                last
            }
            [verb @ ("SUBSCRIBE" | "UNSUBSCRIBE" | "SSUBSCRIBE" | "SUNSUBSCRIBE"), channels @ ..] => {
                for channel in channels {
                    let reply = self.subscribe(connection, node, verb, channel);
                    self.send(connection, at, &reply);
                }
                return;
            }
            other => error(format!("ERR unknown command {other:?}")),
        };
        self.send(connection, at, &reply);
    }

    fn send(&mut self, connection: i64, at: Instant, reply: &Resp) {
        if let Some(peer) = self.peers.get_mut(&connection) {
            peer.reply(at, reply.to_wire());
        }
    }

    fn hello(&self, connection: i64) -> Resp {
        let pairs = [
            ("server", text("redis")),
            ("version", text("7.2.0")),
            ("proto", Resp::Int(3)),
            ("id", Resp::Int(connection)),
            ("mode", text(if self.slots.is_some() { "cluster" } else { "standalone" })),
            ("role", text("master")),
            ("modules", Resp::Array(Vec::new())),
        ];
        Resp::Map(pairs.into_iter().map(|(name, value)| (text(name), value)).collect())
    }

    fn info(&self, node: usize, what: &str) -> String {
        match what {
            "server" => {
                let mode = if self.slots.is_some() { "cluster" } else { "standalone" };
                let run = format!("{node}:{}", self.nodes[node].process);
                format!("# Server\r\nredis_version:7.2.0\r\nredis_mode:{mode}\r\nrun_id:{run}\r\n")
            }
            "replication" => "# Replication\r\nrole:master\r\n".to_owned(),
            _ => "# Memory\r\nmaxmemory_policy:noeviction\r\n".to_owned(),
        }
    }

    fn killed(&mut self, id: &str) -> Resp {
        if self.kill_forbidden {
            self.tally.note(Happened::KillForbidden);
            return error("NOPERM User default has no permissions to run the 'client|kill' command");
        }
        let id = id.parse().unwrap_or_default();
        Resp::Int(i64::from(self.kill(id)))
    }

    fn cluster_slots(&self) -> Resp {
        let Some(slots) = &self.slots else { return error("ERR This instance has cluster support disabled") };
        let range = |(first, last, node): (u16, u16, usize)| {
            let address = vec![text("127.0.0.1"), Resp::Int(self.nodes[node].port.into()), text(format!("node{node}"))];
            Resp::Array(vec![Resp::Int(first.into()), Resp::Int(last.into()), Resp::Array(address)])
        };
        Resp::Array(slots.ranges().into_iter().map(range).collect())
    }

    /// The refusal of a command with this key by this node, if any.
    fn elsewhere(&mut self, node: usize, key: &[u8], asking: bool) -> Option<Resp> {
        let slots = self.slots.as_ref()?;
        let slot = leasehold_core::name::slot(key);
        let (what, word, to) = match slots.place(slot, node, asking) {
            Place::Here => return None,
            Place::Moved(to) => (Happened::Moved, "MOVED", to),
            Place::Ask(to) => (Happened::Asked, "ASK", to),
        };
        self.tally.note(what);
        Some(error(format!("{word} {slot} 127.0.0.1:{}", self.nodes[to].port)))
    }

    fn run(&mut self, connection: i64, node: usize, asking: bool, words: &[&str]) -> Resp {
        let [command, script, _, key, ..] = words else { return error("ERR too few arguments") };
        if let Some(calls) = batch::calls(words) {
            return self.run_batch(connection, (node, asking), script, &calls);
        }
        let call = words.last().and_then(|word| word.strip_prefix(CALL)?.parse().ok());
        if let Some(call) = call {
            let command = (*command).to_owned();
            self.trace.say(Event::Arrived { call, node, connection, command });
        }
        let refusal = self.elsewhere_or_moving(node, asking, key, call.is_some());
        let refusal = refusal.or_else(|| self.unknown(node, command, script));
        let refusal = refusal.or_else(|| self.out_of_memory().filter(|_| call.is_some()));
        match (call, refusal) {
            (Some(call), Some(refusal)) => self.refused(call, refusal),
            (None, Some(refusal)) => {
                self.trace.say(Event::MarkRefused { connection });
                refusal
            }
            (None, None) => Resp::Int(1),
            (Some(call), None) => self.executed(connection, node, call),
        }
    }

    /// Runs the calls of a batch, or refuses all of them.
    fn run_batch(
        &mut self,
        connection: i64,
        (node, asking): (usize, bool),
        script: &str,
        calls: &[(Number, &str)],
    ) -> Resp {
        for (call, _) in calls {
            self.trace.say(Event::Arrived { call: *call, node, connection, command: "EVALSHA".to_owned() });
        }
        let refusal = calls.first().and_then(|(_, key)| self.elsewhere_or_moving(node, asking, key, true));
        let refusal = refusal.or_else(|| self.unknown(node, "EVALSHA", script));
        if let Some(refusal) = refusal {
            self.tally.note(Happened::BatchRefused);
            let code = format!("{} of the batch", code(&refusal));
            calls.iter().for_each(|(call, _)| self.trace.say(Event::Refused { call: *call, code: code.clone() }));
            return refusal;
        }
        self.tally.note(Happened::BatchExecuted);
        let replies = calls.iter().map(|(call, _)| match self.out_of_memory() {
            Some(refusal) => self.refused(*call, refusal),
            None => self.executed(connection, node, *call),
        });
        Resp::Array(replies.collect())
    }

    fn refused(&self, call: Number, refusal: Resp) -> Resp {
        self.trace.say(Event::Refused { call, code: code(&refusal) });
        refusal
    }

    fn executed(&mut self, connection: i64, node: usize, call: Number) -> Resp {
        self.trace.say(Event::Executed { call, node });
        let number = i64::try_from(call).unwrap_or_default();
        if let Some(peer) = self.peers.get_mut(&connection) {
            peer.last_call = number;
            if peer.cut.is_cancelled() {
                self.tally.note(Happened::CallOfLostConnection);
            }
        }
        if self.fails == Some(Happened::ScriptFailed) {
            self.fails = None;
            self.tally.note(Happened::ScriptFailed);
            return error(format!("ERR the script of call {call} failed in its middle"));
        }
        Resp::Int(number)
    }

    /// The refusal of a key whose slot is not served here now.
    fn elsewhere_or_moving(&mut self, node: usize, asking: bool, key: &str, is_call: bool) -> Option<Resp> {
        if let Some(elsewhere) = self.elsewhere(node, key.as_bytes(), asking) {
            return Some(elsewhere);
        }
        let slot = leasehold_core::name::slot(key.as_bytes());
        if is_call && self.slots.as_ref().is_some_and(|slots| slots.is_moving(slot)) && self.rng.u8(..8) == 0 {
            self.tally.note(Happened::TriedAgain);
            return Some(error("TRYAGAIN Multiple keys request during rehashing of slot"));
        }
        None
    }

    /// The refusal of an unknown hash. A script sent as source becomes known.
    fn unknown(&mut self, node: usize, command: &str, script: &str) -> Option<Resp> {
        let node = &mut self.nodes[node];
        if command == "EVAL" {
            node.scripts.extend(by_source(script).map(Script::sha1));
            return None;
        }
        let is_of_a_batch = script::ALL.iter().all(|other| other.sha1() != script);
        if node.scripts.contains(script) || (is_of_a_batch && node.batches) {
            return None;
        }
        self.tally.note(Happened::ScriptUnknown);
        Some(error("NOSCRIPT No matching script. Please use EVAL."))
    }

    /// The refusal of a call for lack of memory.
    fn out_of_memory(&mut self) -> Option<Resp> {
        self.fails.take_if(|fails| *fails == Happened::OutOfMemory)?;
        self.tally.note(Happened::OutOfMemory);
        Some(error("OOM command not allowed when used memory > 'maxmemory'."))
    }
}

/// The code of a refusal.
fn code(refusal: &Resp) -> String {
    refusal.as_str().and_then(|text| text.split(' ').next()).unwrap_or_default().to_owned()
}

fn by_source(source: &str) -> Option<&'static Script> {
    script::ALL.iter().copied().find(|script| script.source() == source)
}
