//! A fenced lock that moves between processes by tickets, while these are killed and stopped. `LEASEHOLD_ROUNDS=1000` makes more hand-overs.
//!
//! At most one process adopts a hold and finds it held. Each grant and each adoption has a greater fencing token than all before it.

use crate::child::{Child, say};
use leasehold::kind::Fenced;
use leasehold::{ClientBuilder, Error, Guard, Ticket};
use leasehold_test_support::{Server, until};
use std::time::Duration;

const LEASE: Duration = Duration::from_millis(1_000);

/// Longer than the lease.
const STOPPED: Duration = Duration::from_millis(1_200);

/// Obeys `take`, `offer`, `adopt ticket`, `release`, and `look`, whether it believes in its guard.
pub(crate) fn child(builder: ClientBuilder, url: &str) {
    let runtime = crate::support::runtime();
    let client = runtime.block_on(builder.connect(url)).expect("a client");
    let lock = client.fenced_lock("order");
    let mut held: Option<Guard<Fenced>> = None;
    say(format_args!("ready"));
    for line in std::io::stdin().lines() {
        let line = line.expect("an order");
        let (verb, ticket) = line.split_once(' ').unwrap_or((&line, ""));
        match verb {
            "take" => match runtime.block_on(lock.acquire().wait(Duration::from_secs(20)).into_future()) {
                Ok(guard) => {
                    say(format_args!("held {} {}", guard.fencing_token(), guard.is_held()));
                    held = Some(guard);
                }
                Err(error) => say(format_args!("failed {error}")),
            },
            "offer" => match runtime.block_on(held.take().expect("a guard").into_ticket(LEASE)) {
                Ok(ticket) => say(format_args!("ticket {ticket}")),
                Err(error) => say(format_args!("failed {error}")),
            },
            "adopt" => {
                let ticket: Ticket<Fenced> = ticket.parse().expect("a ticket");
                match runtime.block_on(client.adopt(ticket).into_future()) {
                    Ok(guard) => {
                        say(format_args!("held {} {}", guard.fencing_token(), guard.is_held()));
                        held = Some(guard);
                    }
                    Err(Error::TicketSpent { .. }) => say(format_args!("spent")),
                    Err(error) => say(format_args!("failed {error}")),
                }
            }
            "release" => match runtime.block_on(held.take().expect("a guard").release()) {
                Ok(()) => say(format_args!("released")),
                Err(error) => say(format_args!("failed {error}")),
            },
            "look" => say(format_args!("believes {}", held.as_ref().is_some_and(Guard::is_held))),
            verb => panic!("no order {verb:?}"),
        }
    }
}

/// What a process says of an attempt: the token, and whether it believes in its guard.
fn held(said: &str) -> Option<(u64, bool)> {
    let (token, believes) = said.strip_prefix("held ")?.split_once(' ')?;
    Some((token.parse().expect("a token"), believes.parse().expect("a truth value")))
}

struct Fleet {
    server: Server,
    processes: Vec<Child>,
    last_token: u64,
}

impl Fleet {
    fn start(&self) -> Child {
        let child = Child::start("tickets", &self.server.url(), LEASE);
        child.hear("ready");
        child
    }

    fn replace(&mut self, at: usize) {
        self.processes[at].kill();
        self.processes[at] = self.start();
    }

    /// A process takes the lock, which is free, or free when a lease ends.
    fn take(&mut self, at: usize) {
        self.processes[at].order("take");
        let said = self.processes[at].said();
        let (token, believes) = held(&said).unwrap_or_else(|| panic!("the lock: {said}"));
        assert!(believes && token > self.last_token, "{token} after {}", self.last_token);
        self.last_token = token;
    }
}

#[test]
fn a_lock_that_moves_between_processes_has_one_holder() {
    let rounds = std::env::var("LEASEHOLD_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(60_u32);
    let seed = std::env::var("LEASEHOLD_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut fleet = Fleet { server: Server::start(), processes: Vec::new(), last_token: 0 };
    fleet.processes = (0..4).map(|_| fleet.start()).collect();
    fleet.take(0);
    let (mut holder, mut moved, mut spent, mut kills, mut stops) = (0, 0, 0, 0, 0);
    while moved < rounds {
        let (one, other) = ((holder + 1) % 4, (holder + 2) % 4);
        let fault = rng.u8(..40);
        fleet.processes[holder].order("offer");
        if fault == 0 {
            // The offer, or its reply, waits for longer than the lease.
            fleet.processes[holder].stop();
            stops += 1;
            fleet.take(other);
            fleet.processes[holder].resume();
            let said = fleet.processes[holder].said();
            if let Some(ticket) = said.strip_prefix("ticket ") {
                fleet.processes[one].order(&format!("adopt {ticket}"));
                assert_eq!(fleet.processes[one].said(), "spent", "a ticket of a hold that has ended");
            }
            holder = other;
            continue;
        }
        if fault == 1 {
            // It dies during the offer: nobody has the ticket.
            fleet.replace(holder);
            kills += 1;
            fleet.take(other);
            holder = other;
            continue;
        }
        let said = fleet.processes[holder].said();
        let Some(ticket) = said.strip_prefix("ticket ") else {
            // A machine that is held up may take longer than the lease.
            assert!(said.starts_with("failed "), "{said}");
            fleet.take(holder);
            continue;
        };
        if fault < 4 {
            // The ticket outlives the process that created it.
            fleet.replace(holder);
            kills += 1;
        }
        let adopters = if rng.bool() { vec![one, other] } else { vec![one] };
        for at in &adopters {
            fleet.processes[*at].order(&format!("adopt {ticket}"));
        }
        let (killed, stopped) = (fault == 4, fault == 5);
        if killed {
            std::thread::sleep(Duration::from_micros(rng.u64(..3_000)));
            fleet.replace(one);
            kills += 1;
        }
        if stopped {
            fleet.processes[one].stop();
            stops += 1;
            std::thread::sleep(STOPPED);
        }
        let late = if stopped { adopters.get(1).copied() } else { None };
        let early = adopters.iter().copied().filter(|at| !(*at == one && (killed || stopped)));
        let mut believers = Vec::new();
        for at in early.collect::<Vec<_>>() {
            let said = fleet.processes[at].said();
            match held(&said) {
                Some((token, true)) => {
                    assert!(token > fleet.last_token, "{token} after {}", fleet.last_token);
                    fleet.last_token = token;
                    believers.push(at);
                }
                Some((_, false)) => {}
                None => assert!(said == "spent" || said.starts_with("failed "), "{said}"),
            }
            spent += u32::from(said == "spent");
        }
        assert!(believers.len() < 2, "two processes adopted one hold");
        assert!(late.is_none() || fleet.server.command(&["HLEN", "order"]).as_int() <= Some(1));
        let next = match believers.first() {
            Some(at) => {
                moved += 1;
                *at
            }
            None => {
                let at = (holder + 3) % 4;
                fleet.take(at);
                at
            }
        };
        if stopped {
            fleet.processes[one].resume();
            // It may have said so before it was stopped.
            let said = fleet.processes[one].said();
            fleet.processes[one].order("look");
            let believes = fleet.processes[one].said();
            assert_eq!(believes, "believes false", "the process that was stopped beyond its lease said {said:?}");
            // Its client forgets what it had.
            fleet.replace(one);
        }
        holder = next;
    }
    fleet.processes[holder].order("release");
    assert_eq!(fleet.processes[holder].said(), "released");
    for process in &mut fleet.processes {
        process.kill();
    }
    let left = ["redisson_lock_token:{order}"];
    until("nothing is left but the token", || {
        let keys = fleet.server.command(&["KEYS", "*"]);
        keys.elements().iter().map(|key| key.as_str().unwrap_or_default()).eq(left)
    });
    eprintln!("{moved} hand-overs, {spent} spent tickets, {kills} kills, {stops} stops");
}
