//! The client processes of a place: started, given work, stopped, killed and replaced.

use crate::client::{self, HABITS, REST, SERVERS, STORE};
use crate::history::{self, Op};
use crate::moment::now;
use crate::place::Seat;
use crate::store::Store;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// The clients of a place.
pub(crate) struct Fleet {
    place: &'static str,
    /// Each with the address of the store, as it is seen from there.
    seats: Vec<(Seat, SocketAddr)>,
    processes: Vec<Process>,
    started: u32,
    round: Option<Round>,
}

/// A client process. Dropping it kills it.
struct Process {
    name: String,
    child: Child,
    orders: ChildStdin,
    lines: Receiver<String>,
}

/// The round that is under way.
struct Round {
    dir: PathBuf,
    workload: &'static str,
    seed: u64,
    /// The processes that took part, and when each that was killed was still alive.
    members: Vec<(String, Option<u64>)>,
}

/// The facts that the histories of a round tell.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) ops: Vec<Op>,
    /// When each process did not run.
    pub(crate) stalls: BTreeMap<String, Vec<(u64, u64)>>,
    /// How often a background was held up.
    pub(crate) stuck: u64,
    /// How many calls went to a server as one, each time.
    pub(crate) batches: Vec<u64>,
}

/// How a client came to rest.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    pub(crate) name: String,
    /// Whether all its tasks ended.
    pub(crate) ended: bool,
    /// Whether nothing is left of what it did.
    pub(crate) clean: bool,
    /// Its memory in KiB.
    pub(crate) resident: u64,
    /// Its words about itself.
    pub(crate) census: String,
}

impl Fleet {
    /// Starts a client on each seat.
    pub(crate) fn start(place: &'static str, seats: Vec<Seat>, store: &Store) -> Self {
        let store_of = |seat: &Seat| seat.side.as_ref().map_or_else(|| store.addr(), |side| store.listen(side.home));
        let seats: Vec<_> = seats.into_iter().map(|seat| (seat.clone(), store_of(&seat))).collect();
        let mut fleet = Self { place, seats, processes: Vec::new(), started: 0, round: None };
        for index in 0..fleet.seats.len() {
            let process = fleet.launch(index);
            fleet.processes.push(process);
        }
        fleet
    }

    pub(crate) fn len(&self) -> usize {
        self.processes.len()
    }

    /// Has every client work.
    pub(crate) fn begin(&mut self, dir: &Path, workload: &'static str, seed: u64) {
        std::fs::create_dir_all(dir).expect("a directory for histories");
        self.round = Some(Round { dir: dir.to_owned(), workload, seed, members: Vec::new() });
        for index in 0..self.processes.len() {
            self.order_round(index);
        }
    }

    /// Stops clients for a time, with all their threads.
    pub(crate) fn pause(&self, indices: &[usize], time: Duration) {
        indices.iter().for_each(|&index| self.stop(index));
        std::thread::sleep(time);
        indices.iter().for_each(|&index| self.resume(index));
    }

    /// Stops a client (SIGSTOP).
    pub(crate) fn stop(&self, index: usize) {
        self.signal(index, Signal::STOP);
    }

    /// Lets it go on (SIGCONT).
    pub(crate) fn resume(&self, index: usize) {
        self.signal(index, Signal::CONT);
    }

    /// Breaks or mends the way of some clients to the server at a port.
    pub(crate) fn link(&mut self, indices: &[usize], port: u16, order: &str) {
        indices.iter().for_each(|&index| self.processes[index].order(&format!("link {port} {order}")));
    }

    /// Holds up the background of a client.
    pub(crate) fn stall(&mut self, index: usize, time: Duration) {
        self.processes[index].order(&format!("stall {}", time.as_millis()));
    }

    /// Kills a client (SIGKILL), and has another take its place.
    pub(crate) fn replace(&mut self, index: usize) {
        let alive = now();
        let process = &mut self.processes[index];
        process.child.kill().expect("a process that runs");
        process.child.wait().expect("its end");
        let name = process.name.clone();
        if let Some(round) = &mut self.round {
            let member = round.members.iter_mut().find(|(member, _)| *member == name).expect("a member of the round");
            member.1 = Some(alive);
        }
        self.processes[index] = self.launch(index);
        if self.round.is_some() {
            self.order_round(index);
        }
    }

    /// Has every client come to rest.
    pub(crate) fn rest(&mut self) -> Vec<Rest> {
        for process in &mut self.processes {
            process.order("rest");
        }
        let patience = REST * 2 + Duration::from_secs(10);
        self.processes.iter().map(|process| Rest::parse(process, &process.hear("quiet", patience))).collect()
    }

    /// The facts of the round, which ends with this.
    pub(crate) fn history(&mut self) -> Result<Told, String> {
        let round = self.round.take().expect("a round");
        let mut told = Told::default();
        for (name, died) in round.members {
            let path = history_of(&round.dir, &name);
            let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let history = history::read(&name, &text, died)?;
            told.ops.extend(history.ops);
            told.stuck += history.stuck.len() as u64;
            told.batches.extend(history.batches);
            told.stalls.insert(name, history.stalls);
        }
        Ok(told)
    }

    fn order_round(&mut self, index: usize) {
        let round = self.round.as_mut().expect("a round");
        let process = &mut self.processes[index];
        round.members.push((process.name.clone(), None));
        let path = history_of(&round.dir, &process.name);
        // Every process has a seed of its own, the replacements included.
        let seed = round.seed.wrapping_add(round.members.len() as u64 * 0x9E37_79B9);
        process.order(&format!("round {} {} {seed}", path.display(), round.workload));
        process.hear("began", Duration::from_secs(30));
    }

    fn launch(&mut self, index: usize) -> Process {
        let name = format!("{}-{index}.{}", self.place, self.started);
        self.started += 1;
        let (seat, store) = &self.seats[index];
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.env(SERVERS, seat.urls.join(" ")).env(STORE, store.to_string()).env(HABITS, client::habits(index));
        if let Some(side) = &seat.side {
            command = side.run(&command);
        }
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("this program, once more");
        let orders = child.stdin.take().expect("its input");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let (heard, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if heard.send(line).is_err() {
                    return;
                }
            }
        });
        let process = Process { name, child, orders, lines };
        process.hear("ready", Duration::from_secs(60));
        process
    }

    fn signal(&self, index: usize, signal: Signal) {
        let pid = Pid::from_child(&self.processes[index].child);
        kill_process(pid, signal).expect("a signal to a process of ours");
    }
}

fn history_of(dir: &Path, process: &str) -> PathBuf {
    dir.join(format!("{process}.history"))
}

impl Process {
    fn order(&mut self, order: &str) {
        let sent = writeln!(self.orders, "{order}").and_then(|()| self.orders.flush());
        sent.unwrap_or_else(|error| panic!("{} does not listen: {error}", self.name));
    }

    /// The rest of the next line that it says, which must begin with this word.
    fn hear(&self, word: &str, patience: Duration) -> String {
        let line = self.lines.recv_timeout(patience);
        let line = line.unwrap_or_else(|error| panic!("{} did not say {word:?} in {patience:?}: {error}", self.name));
        let rest = line.strip_prefix(word);
        rest.unwrap_or_else(|| panic!("{} said {line:?} and not {word:?}", self.name)).trim().to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl fmt::Display for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: all tasks ended: {}; {}", self.name, self.ended, self.census)
    }
}

impl Rest {
    fn parse(process: &Process, text: &str) -> Self {
        let mut words = text.splitn(4, ' ');
        let mut word = || words.next().unwrap_or_default();
        Self {
            name: process.name.clone(),
            ended: word() == "true",
            clean: word() == "true",
            resident: word().parse().unwrap_or_default(),
            census: word().to_owned(),
        }
    }
}
