//! Calls, settling and notices on a cluster.

use super::*;
use crate::PublishCommand;
use leasehold_core::call::Replicas;
use leasehold_test_support::{Cluster, Proxy, Server, until};

/// A lock on each of the three nodes.
fn locks(cluster: &Cluster) -> [String; 3] {
    [0, 1, 2].map(|at| lock_on(cluster, cluster.nodes().get(at).expect("three nodes")))
}

fn lock_on(cluster: &Cluster, node: &Server) -> String {
    let mut names = (0..).map(|number| format!("lock:{number}"));
    names.find(|name| cluster.node_of(name).port() == node.port()).expect("a name")
}

fn another<'a>(cluster: &'a Cluster, than: &str) -> &'a Server {
    let owner = cluster.node_of(than).port();
    cluster.nodes().iter().find(|node| node.port() != owner).expect("another node")
}

#[test]
fn calls_go_to_the_node_of_their_slot() {
    on_each(|binary| {
        let cluster = Cluster::builder().binary(binary).start();
        let before: Vec<_> = cluster.nodes().iter().map(|node| node.client_list().len()).collect();
        let world = World::new(&cluster.url());
        assert!(world.link.server().cluster && world.link.server().sharded_notices);
        for lock in locks(&cluster) {
            world.call(acquire(&lock)).expect("a reply");
        }
        for (node, before) in cluster.nodes().iter().zip(&before) {
            assert_eq!(node.client_list().len() - before, 1);
        }
        let channel = lock_on(&cluster, cluster.nodes().first().expect("a node"));
        world.block_on(world.link.subscribe(key(&channel))).expect("a subscription");
        let after: Vec<_> = cluster.nodes().iter().map(|node| node.client_list().len()).collect();
        let more: Vec<_> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
        assert_eq!(more, [2, 1, 1]);
    });
}

#[test]
fn cluster_with_new_addresses_is_found_by_the_url() {
    on_each(|binary| {
        let before = Cluster::builder().binary(binary).start();
        // A host name of the cluster that stays while its nodes move.
        let name = Proxy::start(before.nodes().first().expect("a node").addr());
        let world = World::new(&format!("redis-cluster://{}", name.addr()));
        let lock = lock_on(&before, before.nodes().first().expect("a node"));
        world.call(inspect(&lock)).expect("a reply");
        before.nodes().iter().for_each(Server::kill);
        name.cut();
        let after = Cluster::builder().binary(binary).start();
        name.retarget(after.nodes().first().expect("a node").addr());
        world.call_until_answered(&inspect(&lock));
        let settled = world.block_on(world.settled(&lock));
        assert_eq!(settled, Ok(Settled::Proven));
        world.wait_for_all(vec![LinkEvent::NoticesReset, LinkEvent::CallsReset]);
        world.block_on(world.link.subscribe(key(&lock))).expect("a subscription");
    });
}

#[test]
fn fr4_a_moved_slot_is_followed() {
    on_each(|binary| {
        let cluster = Cluster::builder().binary(binary).start();
        let world = World::with(&cluster.url(), patient());
        let lock = lock_on(&cluster, cluster.nodes().first().expect("a node"));
        world.call(acquire(&lock)).expect("a reply");
        let to = another(&cluster, &lock);
        cluster.migrate_slot(cluster.slot_of(&lock), to);
        let held = world.call(inspect(&lock)).expect("a reply, by way of MOVED");
        assert!(is_granted(&held), "{held:?}");
        assert_eq!(world.call(release(&lock)), Ok(Reply::Int(1)));
    });
}

#[test]
fn fr4_a_slot_on_its_way_is_asked_for() {
    on_each(|binary| {
        let cluster = Cluster::builder().binary(binary).start();
        let world = World::new(&cluster.url());
        let lock = lock_on(&cluster, cluster.nodes().first().expect("a node"));
        let to = another(&cluster, &lock);
        cluster.begin_migration(cluster.slot_of(&lock), to);
        let granted = world.call(acquire(&lock)).expect("a reply, by way of ASK");
        assert!(is_granted(&granted), "{granted:?}");
        let pings = to.commandstats("ping");
        let settled = world.block_on(world.settled(&lock));
        assert_eq!(settled, Ok(Settled::Proven));
        assert!(to.commandstats("ping") > pings, "the node to which the call was led was asked as well");
        cluster.move_keys(cluster.slot_of(&lock), to);
        cluster.finish_migration(cluster.slot_of(&lock), to);
        assert!(is_granted(&world.call_until_answered(&inspect(&lock))));
    });
}

#[test]
fn fr11_a_frozen_node_does_not_stall_the_others() {
    on_each(|binary| {
        // The other nodes serve their slots, however long this node is silent.
        let cluster = Cluster::builder().binary(binary).arg("cluster-require-full-coverage", "no");
        let cluster = cluster.arg("cluster-node-timeout", "60000").start();
        let [frozen, healthy, other] = locks(&cluster);
        let (quick, slow) = (World::new(&cluster.url()), World::with(&cluster.url(), patient()));
        for world in [&quick, &slow] {
            world.call(inspect(&frozen)).expect("a reply");
        }
        cluster.node_of(&frozen).stop();
        // No call waits behind a call without a reply.
        let mut stuck = Box::pin(slow.link.call(inspect(&frozen)));
        begin(stuck.as_mut());
        looks_at_free_locks(&slow, [&healthy, &other], || std::thread::sleep(Duration::from_millis(5)));
        begin(stuck.as_mut());
        drop(stuck);
        // No call waits for the fate of a node that is known to be silent.
        let (mut ended, until) = (0, Instant::now() + TIMEOUT * 4);
        while Instant::now() < until || ended == 0 {
            looks_at_free_locks(&quick, [&healthy, &other], || {
                let mut call = pin!(quick.link.call(inspect(&frozen)));
                ended += u32::from(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
                std::thread::sleep(Duration::from_millis(5));
            });
            assert!(Instant::now() < until + HUNG, "the frozen node was never noticed");
        }
        cluster.nodes().iter().for_each(Server::resume);
        quick.call_until_answered(&inspect(&frozen));
    });
}

#[test]
fn fr11_a_dead_node_does_not_stall_the_others() {
    on_each(|binary| {
        let cluster = Cluster::builder().binary(binary).arg("cluster-require-full-coverage", "no").start();
        // A call that waits for the node hangs for half a minute.
        let world = World::with(
            &cluster.url(),
            LinkSettings { command_timeout: HUNG * 2, connect_deadline: HUNG * 2, ..settings() },
        );
        let [dead, healthy, other] = locks(&cluster);
        world.call(acquire(&dead)).expect("a reply");
        cluster.node_of(&dead).kill();
        let until = Instant::now() + TIMEOUT * 6;
        while Instant::now() < until {
            looks_at_free_locks(&world, [&healthy, &other], || {
                world.call(inspect(&dead)).expect_err("it is dead");
            });
        }
    });
}

/// Inspects free locks repeatedly, and runs a step in between.
fn looks_at_free_locks(world: &World, locks: [&str; 2], mut between: impl FnMut()) {
    for _ in 0..20 {
        between();
        for lock in locks {
            assert_eq!(world.call(inspect(lock)), Ok(nobody()));
        }
    }
}

#[test]
fn a_failover_is_followed() {
    on_each(|binary| {
        let cluster = Cluster::builder().binary(binary).replicas().start();
        let world = World::new(&cluster.url());
        let [lock, ..] = locks(&cluster);
        world.call(acquire(&lock)).expect("a reply");
        let primary = cluster.node_of(&lock);
        cluster.replica_of(primary).expect("a replica");
        primary.kill();
        world.call_until_answered(&inspect(&lock));
        // The dead node is unreachable, and need not reply.
        let settled = world.block_on(world.settled(&lock));
        assert_eq!(settled, Ok(Settled::Proven));
    });
}

#[test]
fn a_call_at_an_earlier_owner_is_settled_there() {
    on_each(|binary| {
        let cluster = Cluster::builder().binary(binary).start();
        let world = World::new(&cluster.url());
        let lock = lock_on(&cluster, cluster.nodes().first().expect("a node"));
        let slot = cluster.slot_of(&lock);
        world.call(inspect(&lock)).expect("a reply");
        let old = cluster.node_of(&lock);
        cluster.migrate_slot(slot, another(&cluster, &lock));
        // The link notices it by another call.
        world.call(inspect(&lock)).expect("a reply, by way of MOVED");
        let pings = old.commandstats("ping");
        let settled = world.block_on(world.settled(&lock));
        assert_eq!(settled, Ok(Settled::Proven));
        assert!(old.commandstats("ping") > pings, "the old owner was asked as well");
    });
}

#[test]
fn call_to_an_old_address_is_settled_at_the_new_one() {
    on_each(|binary| {
        let cluster = Cluster::builder().binary(binary).start();
        let node = cluster.nodes().first().expect("a node");
        let lock = lock_on(&cluster, node);
        let (before, after) = (Proxy::to(node), Proxy::to(node));
        let goes_by = |proxy: &Proxy| {
            let port = proxy.addr().port();
            node.command(&["CONFIG", "SET", "cluster-announce-port", &port.to_string()]);
            until("the other nodes know the address", || {
                let said =
                    cluster.nodes()[1..].iter().map(|other| format!("{:?}", other.command(&["CLUSTER", "SLOTS"])));
                said.into_iter().all(|said| said.contains(&port.to_string()))
            });
        };
        goes_by(&before);
        let url = format!("redis-cluster://{}", cluster.nodes()[1].addr());
        let world = World::new(&url);
        world.call_until_answered(&acquire(&lock));
        let trap = before.hold_request("EVALSHA");
        {
            let mut call = pin!(world.link.call(release(&lock)));
            begin(call.as_mut());
            trap.wait();
        }
        goes_by(&after);
        until("the client connects to the new address", || after.accepted() >= 1);
        let settled = world.block_on(world.settled(&lock));
        assert_eq!(settled, Ok(Settled::Proven));
        assert_eq!(before.deliver_held(), [None], "the node read what was held up on the way to its earlier address");
        assert_eq!(node.command(&["EXISTS", &lock]).as_int(), Some(1));
    });
}

#[test]
fn call_to_an_abandoned_address_dies_in_time() {
    on_each(|binary| {
        let cluster = Cluster::builder().binary(binary).start();
        let world = World::new(&cluster.url());
        let node = cluster.nodes().first().expect("a node");
        let lock = lock_on(&cluster, node);
        world.call(acquire(&lock)).expect("a reply");
        let pool = &world.link.0.pool;
        let kills = node.commandstats("client|kill");
        let primaries = world.link.shared().slots.as_ref().expect("a cluster").primaries();
        let here = pool.shared.slots.as_ref().and_then(|slots| slots.owner(cluster.slot_of(&lock))).expect("an owner");
        let others: Vec<_> = primaries.into_iter().filter(|other| *other != here).collect();
        pool.prune(&others);
        until("its connection is killed", || node.commandstats("client|kill") > kills);
    });
}

#[test]
fn call_to_a_gone_process_is_forgotten() {
    on_each(|binary| {
        let cluster = Cluster::builder().binary(binary).start();
        let gone = Server::builder().binary(binary).arg("cluster-enabled", "yes").start();
        let world = World::new(&cluster.url());
        retire(&world, &gone, 1);
        until("the connection is forgotten", || world.link.0.pool.retired().list.is_empty());
    });
}

#[test]
fn an_address_that_had_to_be_forgotten_is_never_proven_dead() {
    on_each(|binary| {
        let cluster = Cluster::builder().binary(binary).start();
        // No unrelated connection is killed.
        let settings = LinkSettings { audit_interval: Duration::from_secs(600), ..patient() };
        let node = cluster.nodes().first().expect("a node");
        let lock = lock_on(&cluster, node);
        for (addresses, told) in [(64, Settled::Proven), (65, Settled::Unproven)] {
            let world = World::with(&cluster.url(), settings.clone());
            retire(&world, node, addresses);
            assert_eq!(world.block_on(world.settled(&lock)), Ok(told), "{addresses}");
        }
    });
}

/// A primary without slots that has joined the cluster, behind its proxy.
fn newcomer(cluster: &Cluster, binary: &Binary) -> (Server, Proxy) {
    let witness = cluster.nodes().first().expect("a node");
    let proxy = Proxy::start(witness.addr());
    let announced = proxy.addr().port().to_string();
    let settings = ["cluster-enabled", "yes", "cluster-node-timeout", "1500", "cluster-announce-port", &announced];
    let (settings, _) = settings.as_chunks::<2>();
    let server =
        settings.iter().fold(Server::builder().binary(binary), |server, [name, value]| server.arg(name, value));
    let server = server.start();
    proxy.retarget(server.addr());
    let (port, bus) = (server.port().to_string(), (server.port() + 10_000).to_string());
    for node in cluster.nodes() {
        node.command(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
    }
    let id = server.command(&["CLUSTER", "MYID"]).as_str().unwrap_or_default().to_owned();
    let known = |node: &Server| {
        let nodes = node.command(&["CLUSTER", "NODES"]);
        let nodes = nodes.as_str().unwrap_or_default().to_owned();
        let line = |line: &str| {
            line.starts_with(&id) && line.contains(&format!(":{announced}@")) && !line.contains("handshake")
        };
        nodes.lines().any(line)
    };
    let knows = |node: &Server| {
        server.command(&["CLUSTER", "NODES"]).as_str().is_some_and(|nodes| {
            let port = format!(":{}@", node.port());
            nodes.lines().any(|line| line.contains(&port) && !line.contains("handshake"))
        })
    };
    until("the cluster knows the newcomer", || cluster.nodes().iter().all(|node| known(node) && knows(node)));
    server.command(&["SCRIPT", "LOAD", ACQUIRE.source()]);
    (server, proxy)
}

/// A cluster, a slot that moves to a new node, and a lock in that slot.
fn scale_out(binary: &Binary) -> (Cluster, Server, Proxy, String) {
    let cluster = Cluster::builder().binary(binary).start();
    let (server, proxy) = newcomer(&cluster, binary);
    let lock = lock_on(&cluster, cluster.nodes().first().expect("a node"));
    cluster.begin_migration(cluster.slot_of(&lock), &server);
    (cluster, server, proxy, lock)
}

/// Holds a call after the `ASK` that redirects it to the new node.
fn hold_up(world: &World, proxy: &Proxy, lock: &str) {
    let trap = proxy.hold_request(HOLD);
    let (link, call) = (world.link.clone(), acquire(lock));
    drop(world.test.spawn(async move { link.call(call).await }));
    trap.wait();
}

#[test]
fn settled_call_behind_an_ask_to_a_slotless_node_is_dead() {
    on_each(|binary| {
        let (cluster, _server, proxy, lock) = scale_out(binary);
        // No unrelated connection is killed.
        let world =
            World::with(&cluster.url(), LinkSettings { audit_interval: Duration::from_secs(600), ..settings() });
        hold_up(&world, &proxy, &lock);
        assert_eq!(world.block_on(world.settled(&lock)), Ok(Settled::Proven));
        assert_eq!(proxy.deliver_held(), [None], "the server read it");
    });
}

#[test]
fn slotless_ask_target_outlives_the_next_slot_map() {
    on_each(|binary| {
        let (cluster, _server, proxy, lock) = scale_out(binary);
        let world =
            World::with(&cluster.url(), LinkSettings { audit_interval: Duration::from_secs(600), ..settings() });
        let reads = || cluster.nodes().iter().map(|node| node.commandstats("cluster|slots")).sum::<u64>();
        hold_up(&world, &proxy, &lock);
        // The second reply is processed when the third is requested.
        for _ in 0..3 {
            let before = reads();
            world.link.shared().slots.as_ref().expect("a cluster").doubted.notify_one();
            until("the slot map is read", || reads() > before);
        }
        assert_eq!(world.block_on(world.settled(&lock)), Ok(Settled::Proven));
        assert_eq!(proxy.deliver_held(), [None], "the server read it");
    });
}

#[test]
fn call_to_a_node_that_never_took_the_slot_dies_in_time() {
    on_each(|binary| {
        let (cluster, _server, proxy, lock) = scale_out(binary);
        let world = World::new(&cluster.url());
        let slots = world.link.shared().slots.as_ref().expect("a cluster");
        hold_up(&world, &proxy, &lock);
        until("the node is given up", || slots.in_use() == slots.primaries());
        assert_eq!(proxy.deliver_held(), [None], "the server read it");
    });
}

/// Connects to a server by many addresses, and abandons them.
fn retire(world: &World, server: &Server, addresses: usize) {
    let pool = &world.link.0.pool;
    let slots = pool.shared.slots.as_ref().expect("a cluster");
    let primaries = slots.primaries();
    let seed = ServerTarget::parse(&server.url()).expect("a target").servers.remove(0);
    world.block_on(async {
        for number in 0..addresses {
            let manager = pool.manager(seed.clone());
            manager.open().await.expect("a connection");
            pool.adopt(slots.node(&format!("given-up:{number}")), &manager);
        }
    });
    pool.prune(&primaries);
}

#[test]
fn durable_call_in_a_migration_loads_both_its_scripts() {
    on_each(|binary| {
        let cluster = Cluster::builder().binary(binary).replicas().start();
        let world = World::with(&cluster.url(), patient());
        let lock = lock_on(&cluster, cluster.nodes().first().expect("a node"));
        let to = another(&cluster, &lock);
        cluster.begin_migration(cluster.slot_of(&lock), to);
        let replicas = Replicas { at_least: 1, within: Duration::from_secs(10) };
        let reply = world.call(acquire(&lock).with_replicas(Some(replicas))).expect("a reply");
        let acknowledged = reply.array().expect("an array of two")[1].int();
        assert_eq!(acknowledged, Ok(1), "the mark was written at the new node as well: {reply:?}");
    });
}

#[test]
fn fr7_many_sharded_subscriptions_at_once_are_each_confirmed() {
    on_each(|binary| {
        let cluster = Cluster::builder().binary(binary).start();
        let world = World::new(&cluster.url());
        let channels: Vec<_> = (0..60).map(|number| format!("c:{number}")).collect();
        world.block_on(async {
            let all = channels.iter().map(|channel| world.link.subscribe(key(channel)));
            for one in futures_util::future::join_all(all).await {
                one.expect("a subscription");
            }
        });
        for channel in &channels {
            let heard = cluster.node_of(channel).command(&["SPUBLISH", channel, "0"]).as_int();
            assert_eq!(heard, Some(1), "{channel}");
            assert_eq!(world.next_event(), Some(LinkEvent::Notice { channel: key(channel) }));
        }
        for channel in &channels {
            world.block_on(world.link.unsubscribe(key(channel))).expect("the end of it");
            let heard = cluster.node_of(channel).command(&["SPUBLISH", channel, "0"]).as_int();
            assert_eq!(heard, Some(0), "{channel}");
        }
    });
}

#[test]
fn fr8_sharded_subscription_dropped_by_migration_is_noticed() {
    on_each(|binary| {
        let cluster = Cluster::builder().binary(binary).start();
        let world = World::new(&cluster.url());
        let channel = lock_on(&cluster, cluster.nodes().first().expect("a node"));
        world.block_on(world.link.subscribe(key(&channel))).expect("a subscription");
        cluster.migrate_slot(cluster.slot_of(&channel), another(&cluster, &channel));
        // There are no calls.
        world.wait_for(&LinkEvent::NoticesReset);
        world.block_on(world.link.subscribe(key(&channel))).expect("a subscription");
        let heard = cluster.node_of(&channel).command(&["SPUBLISH", &channel, "0"]).as_int();
        assert_eq!(heard, Some(1));
    });
}

#[test]
fn an_audit_subscribes_to_nothing_that_nobody_wants_any_more() {
    on_each(|binary| {
        let cluster = Cluster::builder().binary(binary).start();
        let world = World::new(&cluster.url());
        let node = cluster.nodes().first().expect("a node");
        let mut names =
            (0..).map(|number| format!("c:{number}")).filter(|name| cluster.node_of(name).port() == node.port());
        let (wanted, left) = (names.next().expect("a name"), names.next().expect("a name"));
        for channel in [&wanted, &left] {
            world.block_on(world.link.subscribe(key(channel))).expect("a subscription");
        }
        world.block_on(world.link.unsubscribe(key(&left))).expect("the end of it");
        let before = node.commandstats("ssubscribe");
        until("there were two audits", || node.commandstats("ssubscribe") >= before + 3);
        let heard = |channel: &str| node.command(&["SPUBLISH", channel, "0"]).as_int();
        assert_eq!((heard(&wanted), heard(&left)), (Some(1), Some(0)));
    });
}

#[test]
fn fr8_a_slot_that_went_and_came_back_is_subscribed_to_again() {
    on_each(|binary| {
        let cluster = Cluster::builder().binary(binary).start();
        // Long enough for the slot to be back before the client checks.
        let settings = LinkSettings { audit_interval: Duration::from_secs(3), ..settings() };
        let world = World::with(&cluster.url(), settings);
        let channel = lock_on(&cluster, cluster.nodes().first().expect("a node"));
        world.block_on(world.link.subscribe(key(&channel))).expect("a subscription");
        let (slot, home) = (cluster.slot_of(&channel), cluster.node_of(&channel));
        cluster.migrate_slot(slot, another(&cluster, &channel));
        cluster.migrate_slot(slot, home);
        let heard = || home.command(&["SPUBLISH", &channel, "0"]).as_int();
        assert_eq!(heard(), Some(0), "the server dropped the subscription");
        until("it is subscribed to again", || heard() == Some(1));
    });
}

#[test]
fn fr1_classic_cluster_notices_are_confirmed_where_subscribed() {
    on_each(|binary| {
        let cluster = Cluster::builder().binary(binary).arg("cluster-require-full-coverage", "no").start();
        let before: Vec<_> = cluster.nodes().iter().map(|node| node.client_list().len()).collect();
        let settings = LinkSettings { publish: PublishCommand::Classic, ..settings() };
        let world = World::with(&cluster.url(), settings);
        let anchor = || {
            cluster.nodes().iter().filter(|node| node.is_up()).find(|node| {
                node.client_list().iter().any(|client| client.get("sub").is_some_and(|count| count != "0"))
            })
        };
        for number in 0..100 {
            let channel = format!("c:{number}");
            world.block_on(world.link.subscribe(key(&channel))).expect("a subscription");
            let heard = anchor().expect("a node with subscriptions").command(&["PUBLISH", &channel, "0"]).as_int();
            assert_eq!(heard, Some(1), "{channel}");
        }
        let after: Vec<_> = cluster.nodes().iter().map(|node| node.client_list().len()).collect();
        let more: usize = after.iter().zip(&before).map(|(after, before)| after - before).sum();
        assert_eq!(more, 3);
        // Another node takes over when this one dies, without a client's request.
        anchor().expect("a node with subscriptions").kill();
        world.wait_for(&LinkEvent::NoticesReset);
        until("a subscription", || world.block_on(world.link.subscribe(key("again"))).is_ok());
        let heard = anchor().expect("a node with subscriptions").command(&["PUBLISH", "again", "0"]).as_int();
        assert_eq!(heard, Some(1));
    });
}

#[test]
fn fr17_keys_of_two_slots_are_refused() {
    on_each(|binary| {
        let cluster = Cluster::builder().binary(binary).start();
        let world = World::new(&cluster.url());
        let [first, second, _] = locks(&cluster);
        let keys = vec![key(&first), key(&second)];
        let answer = world.call(Call::new(&RELEASE, keys, release_args()));
        assert!(matches!(&answer, Err(LinkError::Refused(error)) if error.code() == "CROSSSLOT"), "{answer:?}");
    });
}

#[test]
fn fr16_a_cluster_that_is_down_comes_back() {
    on_each(|binary| {
        let cluster = Cluster::builder().binary(binary).start();
        let world = World::new(&cluster.url());
        let [dead, healthy, _] = locks(&cluster);
        world.call(inspect(&healthy)).expect("a reply");
        let (down, up) = (cluster.node_of(&dead), cluster.node_of(&healthy));
        down.kill();
        let is_down = || up.command(&["GET", &healthy]).as_str().is_some_and(|text| text.starts_with("CLUSTERDOWN"));
        until("the cluster is down", is_down);
        for _ in 0..20 {
            let answer = world.call(inspect(&healthy));
            assert!(matches!(&answer, Err(LinkError::Refused(error)) if error.code() == "CLUSTERDOWN"), "{answer:?}");
        }
        down.restart();
        assert_eq!(world.call_until_answered(&inspect(&healthy)), nobody());
    });
}
