//! The faults, made on purpose.

mod server;

use crate::client::LEASE;
use crate::fleet::Fleet;
use crate::lineage::Cause;
use crate::place::{Place, PlaceName, is_replica_in_step, role_of, within};
use crate::work::naive;
use fastrand::Rng;
use leasehold_test_support::{After, Cluster, Proxy, Resp, Sentinel, Server, Way};
use std::time::Duration;

/// A sort of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    ClientKilled,
    ClientStopped,
    ClientsStopped,
    ConnectionsKilled,
    SubscribersKilled,
    ClientPause,
    ClientPauseWrite,
    DebugSleep,
    ServerStopped,
    ScriptFlush,
    MemoryFull,
    ReplicasWanting,
    ServerRestarted,
    ServerEmptied,
    ServerEmptiedAway,
    LinkDelayed,
    LinkFrozen,
    LinkCut,
    LinkRefused,
    ReplySwallowed,
    RequestLate,
    FailoverPlanned,
    PrimaryKilledCutOff,
    PrimaryStopped,
    SlotMoved,
    ReplicaPromoted,
    NetworkCut,
    ClockStepped,
    Evicted,
    FileTorn,
    PathDelayed,
    PathSilent,
    PathCut,
    BackgroundStalled,
}

use Fault::{
    BackgroundStalled, ClientKilled, ClientPause, ClientPauseWrite, ClientStopped, ClientsStopped, ClockStepped,
    ConnectionsKilled, DebugSleep, Evicted, FailoverPlanned, FileTorn, LinkCut, LinkDelayed, LinkFrozen, LinkRefused,
    MemoryFull, NetworkCut, PathCut, PathDelayed, PathSilent, PrimaryKilledCutOff, PrimaryStopped, ReplicaPromoted,
    ReplicasWanting, ReplySwallowed, RequestLate, ScriptFlush, ServerEmptied, ServerEmptiedAway, ServerRestarted,
    ServerStopped, SlotMoved, SubscribersKilled,
};

/// The locks whose slots are moved.
const MOVED: [&str; 14] = [
    "bank:0",
    "bank:1",
    "stock:0",
    "stock:1",
    "plain:0",
    "plain:1",
    "plain:2",
    "halves:0",
    "permits:0",
    "fair:0",
    "simple:0",
    "spin:0",
    "multi:0",
    "stripes:0",
];

impl Fault {
    /// Its name in the table of figures.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            ClientKilled => "client: SIGKILL",
            ClientStopped => "client: SIGSTOP, SIGCONT",
            ClientsStopped => "all clients: SIGSTOP, SIGCONT",
            ConnectionsKilled => "CLIENT KILL TYPE normal",
            SubscribersKilled => "CLIENT KILL TYPE pubsub",
            ClientPause => "CLIENT PAUSE ALL",
            ClientPauseWrite => "CLIENT PAUSE WRITE",
            DebugSleep => "DEBUG SLEEP",
            ServerStopped => "server: SIGSTOP, SIGCONT",
            ScriptFlush => "SCRIPT FLUSH",
            MemoryFull => "writes refused: maxmemory",
            ReplicasWanting => "writes refused: min-replicas-to-write",
            ServerRestarted => "server: SIGKILL, back with its data",
            ServerEmptied => "server: SIGKILL, back without its data",
            ServerEmptiedAway => "server: SIGKILL, back without its data after a lease",
            LinkDelayed => "proxy: delay",
            LinkFrozen => "proxy: silence",
            LinkCut => "proxy: all connections cut",
            LinkRefused => "proxy: connections refused",
            ReplySwallowed => "proxy: a reply swallowed",
            RequestLate => "proxy: a request late",
            FailoverPlanned => "SENTINEL FAILOVER",
            PrimaryKilledCutOff => "primary: cut off from its replica, SIGKILL",
            PrimaryStopped => "primary: SIGSTOP until it is replaced, SIGCONT",
            SlotMoved => "slot migration",
            ReplicaPromoted => "CLUSTER FAILOVER",
            NetworkCut => "network cut in two",
            ClockStepped => "server: clock stepped and put back",
            Evicted => "server: keys evicted, FLUSHALL",
            FileTorn => "server: SIGKILL, back with a torn file (everysec)",
            PathDelayed => "client to a server: delay",
            PathSilent => "client to a server: silence",
            PathCut => "client to a server: connections cut",
            BackgroundStalled => "client: background thread held up",
        }
    }

    /// What it does to the data of the servers.
    pub(crate) const fn cause(self) -> Cause {
        match self {
            ServerEmptied | FailoverPlanned | PrimaryKilledCutOff | PrimaryStopped | NetworkCut | FileTorn => {
                Cause::Replaces(self.word())
            }
            ClockStepped | Evicted => Cause::LosesInPlace(self.word()),
            SlotMoved => Cause::Moves,
            _ => Cause::Keeps,
        }
    }

    /// Why it cannot be done at a place, if so.
    pub(crate) fn cannot(self, place: &Place) -> Option<&str> {
        match place {
            Place::Standalone { clock: Err(why), .. } if self == ClockStepped => Some(why),
            _ => None,
        }
    }

    /// The faults of a place; one that is there more than once is more frequent.
    pub(crate) fn of(place: PlaceName) -> Vec<Self> {
        let mut all = vec![
            ClientKilled,
            ClientKilled,
            ClientStopped,
            ClientStopped,
            ClientsStopped,
            ConnectionsKilled,
            SubscribersKilled,
            ClientPause,
            ClientPauseWrite,
            DebugSleep,
            ServerStopped,
            ScriptFlush,
            MemoryFull,
            ReplicasWanting,
            BackgroundStalled,
        ];
        if place != PlaceName::Standalone {
            all.extend([PathDelayed, PathSilent, PathCut]);
        }
        all.extend_from_slice(match place {
            PlaceName::Standalone => &[
                ServerRestarted,
                ServerRestarted,
                ServerEmptied,
                ClockStepped,
                Evicted,
                FileTorn,
                LinkDelayed,
                LinkFrozen,
                LinkFrozen,
                LinkCut,
                LinkRefused,
                ReplySwallowed,
                ReplySwallowed,
                RequestLate,
                RequestLate,
            ][..],
            PlaceName::Sentinel => {
                &[FailoverPlanned, FailoverPlanned, PrimaryKilledCutOff, PrimaryKilledCutOff, PrimaryStopped]
            }
            // Those who hold on a bare majority have lost their lock before a member of it forgets.
            PlaceName::Quorum => &[ServerRestarted, ServerRestarted, ServerEmptiedAway, ServerEmptiedAway],
            PlaceName::Divided => &[NetworkCut, NetworkCut, NetworkCut, NetworkCut, FailoverPlanned],
            PlaceName::Cluster => &[
                SlotMoved,
                SlotMoved,
                SlotMoved,
                ReplicaPromoted,
                ReplicaPromoted,
                PrimaryKilledCutOff,
                PrimaryStopped,
            ],
        });
        all
    }

    /// Does it, and takes it back. When this returns, the servers may still be healing. Whether it could be done.
    pub(crate) fn inflict(self, place: &Place, fleet: &mut Fleet, rng: &mut Rng) -> bool {
        let millis = |rng: &mut Rng, range: std::ops::Range<u64>| Duration::from_millis(rng.u64(range));
        let primaries: Vec<_> = place.primaries().into_iter().collect();
        let Some(&port) = rng.choice(&primaries) else { return false };
        let node = place.node(port);
        // Short enough for the server not to be called dead, on a machine that is not too busy.
        let short = match place {
            Place::Standalone { .. } | Place::Quorum(_) => millis(rng, 50..3_000),
            Place::Sentinel { .. } => millis(rng, 50..250),
            Place::Cluster(_) => millis(rng, 50..800),
        };
        // The first client is never killed, so that its memory can be watched.
        let client = rng.usize(1..fleet.len());
        let everywhere = |command: &[&str]| place.nodes().into_iter().for_each(|node| tell(node, command));
        match self {
            ClientKilled => fleet.replace(client),
            ClientStopped => fleet.pause(&[client], millis(rng, 100..4_500)),
            ClientsStopped => {
                let all: Vec<_> = (0..fleet.len()).collect();
                fleet.pause(&all, millis(rng, 100..3_000));
            }
            ConnectionsKilled => everywhere(&["CLIENT", "KILL", "TYPE", "normal"]),
            SubscribersKilled => everywhere(&["CLIENT", "KILL", "TYPE", "pubsub"]),
            ClientPause => pause(node, "ALL", millis(rng, 50..1_500)),
            ClientPauseWrite => pause(node, "WRITE", millis(rng, 50..1_500)),
            DebugSleep => sleeps(node, short.min(Duration::from_millis(1_500))),
            ServerStopped => {
                node.stop();
                std::thread::sleep(short);
                node.resume();
            }
            ScriptFlush => everywhere(&["SCRIPT", "FLUSH"]),
            MemoryFull => {
                everywhere(&["CONFIG", "SET", "maxmemory", "1"]);
                std::thread::sleep(millis(rng, 100..1_500));
                everywhere(&["CONFIG", "SET", "maxmemory", "0"]);
            }
            ReplicasWanting => {
                everywhere(&["CONFIG", "SET", "min-replicas-to-write", "5"]);
                std::thread::sleep(millis(rng, 100..1_500));
                everywhere(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
            }
            PrimaryKilledCutOff => {
                cut_off(place, port);
                std::thread::sleep(millis(rng, 300..1_500));
                replaced(place, port, Server::kill);
                let_in(place.partner(port));
                rejoin(place, node);
            }
            PrimaryStopped => {
                replaced(place, port, Server::stop);
                // It goes on for a moment as if nothing had happened.
                node.resume();
            }
            ServerRestarted => {
                node.kill();
                std::thread::sleep(millis(rng, 0..1_500));
                node.restart();
            }
            ServerEmptied => node.restart_empty(&[]),
            ServerEmptiedAway => {
                node.kill();
                std::thread::sleep(LEASE);
                node.restart_empty(&[]);
            }
            PathDelayed | PathSilent | PathCut => self.inflict_on_paths(fleet, port, rng),
            BackgroundStalled => {
                // It takes hold when the background wakes a waiter next.
                let time = millis(rng, 300..4_500);
                fleet.stall(client, time);
                std::thread::sleep(LEASE / 2 + time);
            }
            ClockStepped => return place.clock().is_some_and(|clock| server::step(clock, rng)),
            Evicted => return server::evict(node, rng),
            FileTorn => return server::tear(node, rng),
            _ => self.inflict_by_place(place, port, rng),
        }
        true
    }

    /// Breaks the ways of one client or of all to one server.
    fn inflict_on_paths(self, fleet: &mut Fleet, port: u16, rng: &mut Rng) {
        let all: Vec<_> = (0..fleet.len()).collect();
        let some = if rng.bool() { all } else { vec![rng.usize(0..fleet.len())] };
        let direction = ["requests", "replies", "both"][rng.usize(0..3)];
        let time = Duration::from_millis(rng.u64(100..3_000));
        match self {
            PathDelayed => fleet.link(&some, port, "delay 120"),
            PathSilent => fleet.link(&some, port, &format!("silence {direction}")),
            _ => return fleet.link(&some, port, "cut"),
        }
        std::thread::sleep(time);
        fleet.link(&some, port, "heal");
    }

    fn inflict_by_place(self, place: &Place, port: u16, rng: &mut Rng) {
        match place {
            Place::Standalone { proxy, .. } => self.inflict_on_link(proxy, rng),
            Place::Sentinel { divide: Some(divide), .. } if self == NetworkCut => {
                divide.cut();
                std::thread::sleep(Duration::from_millis(rng.u64(500..9_000)));
                divide.heal();
            }
            Place::Sentinel { sentinel, .. } => planned(sentinel),
            Place::Cluster(cluster) if self == SlotMoved => {
                let name = rng.choice(MOVED).unwrap_or_default();
                migrate(cluster, place, name, rng);
            }
            Place::Cluster(cluster) => cluster.promote(place.partner(port)),
            // It has no faults of its own.
            Place::Quorum(_) => {}
        }
    }

    fn inflict_on_link(self, proxy: &Proxy, rng: &mut Rng) {
        let (way, hangs) = (rng.usize(0..3), rng.bool());
        let mut sleep = |range: std::ops::Range<u64>| std::thread::sleep(Duration::from_millis(rng.u64(range)));
        match self {
            LinkDelayed => {
                proxy.delay(Way::Both, Duration::from_millis(120));
                sleep(300..2_000);
                proxy.delay(Way::Both, Duration::ZERO);
            }
            LinkFrozen => {
                proxy.freeze([Way::ToServer, Way::ToClient, Way::Both][way]);
                sleep(100..3_000);
                proxy.thaw(Way::Both);
            }
            LinkCut => proxy.cut(),
            LinkRefused => {
                proxy.refuse(true);
                proxy.cut();
                sleep(100..2_500);
                proxy.refuse(false);
            }
            ReplySwallowed => {
                let after = if hangs { After::Hang } else { After::Close };
                let trap = proxy.swallow_reply_to("EVALSHA", after);
                let _ = trap.wait_for(Duration::from_secs(1));
            }
            RequestLate => {
                let trap = proxy.hold_request("EVALSHA");
                let _ = trap.wait_for(Duration::from_secs(1));
                proxy.cut();
                sleep(50..1_500);
                proxy.deliver_held();
            }
            _ => {}
        }
        proxy.clear_requests();
    }
}

/// Stops a client for longer than a lease of [`naive`] lasts, and shorter than it and the work of the next holder.
pub(crate) fn pause_beyond_lease(fleet: &mut Fleet, rng: &mut Rng) {
    let client = rng.usize(0..fleet.len());
    fleet.pause(&[client], naive::LEASE * 4 / 5 + Duration::from_millis(rng.u64(0..300)));
}

/// Sends a command to a server that need not answer.
fn tell(node: &Server, command: &[&str]) {
    let _ = node.try_command(command);
}

fn pause(node: &Server, what: &str, time: Duration) {
    tell(node, &["CLIENT", "PAUSE", &time.as_millis().to_string(), what]);
    std::thread::sleep(time);
}

fn sleeps(node: &Server, time: Duration) {
    if let Ok(mut connection) = node.connect() {
        let _ = connection.set_read_timeout(time + Duration::from_secs(5));
        let answer = connection.command(&["DEBUG", "SLEEP", &format!("{:.3}", time.as_secs_f64())]);
        // A user who is not allowed to ask for it would have nothing happen.
        assert!(!matches!(answer, Ok(Resp::Error(_))), "the server does not sleep: {answer:?}");
    }
}

/// Keeps the replica of a primary from reading any further, while the primary's clients notice nothing.
fn cut_off(place: &Place, port: u16) {
    // It presents a password that was never set. Calls that are under way already are lost with their connection.
    tell(place.partner(port), &["CONFIG", "SET", "masterauth", "nobody-has-set-it"]);
    tell(place.node(port), &["CLIENT", "KILL", "TYPE", "replica"]);
}

/// Takes [`cut_off`] back, also from what a sentinel has had the server write down.
fn let_in(node: &Server) {
    tell(node, &["CONFIG", "SET", "masterauth", ""]);
    tell(node, &["CONFIG", "REWRITE"]);
}

/// Starts a server again that has been replaced: empty, as the replica of its successor, which no sentinel promotes before it is in step.
fn rejoin(place: &Place, node: &Server) {
    let successor = place.partner(node.port());
    match place {
        Place::Sentinel { .. } => {
            let primary = format!("{} {}", successor.peer_addr().ip(), successor.port());
            node.restart_empty(&[("replicaof", &primary), ("replica-priority", "0")]);
            within(Duration::from_secs(60), || is_replica_in_step(node));
            tell(node, &["CONFIG", "SET", "replica-priority", "100"]);
        }
        _ => node.restart_empty(&[]),
    }
}

/// Does away with a primary, and waits until its replica has taken its place.
fn replaced(place: &Place, port: u16, away: impl Fn(&Server)) {
    let successor = place.partner(port).port();
    away(place.node(port));
    let replaced = within(Duration::from_secs(60), || {
        role_of(place.node(successor)).as_deref() == Some("master") && place.primaries().contains(&successor)
    });
    if !replaced {
        println!("the server at {port} was not replaced within 60 s");
    }
}

fn planned(sentinel: &Sentinel) {
    if sentinel.has_a_replica_to_promote() {
        sentinel.failover();
    }
}

fn migrate(cluster: &Cluster, place: &Place, name: &str, rng: &mut Rng) {
    let slot = cluster.slot_of(name);
    let Some(owner) = cluster.owner_of(slot).map(Server::port) else { return };
    let others: Vec<_> = place.primaries().into_iter().filter(|port| *port != owner).collect();
    let Some(&to) = rng.choice(&others) else { return };
    let to = place.node(to);
    cluster.begin_migration(slot, to);
    std::thread::sleep(Duration::from_millis(rng.u64(0..200)));
    cluster.move_keys(slot, to);
    cluster.finish_migration(slot, to);
}
