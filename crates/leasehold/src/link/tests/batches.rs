//! Calls that are sent as one command.

use super::*;
use leasehold_core::batch::Batch;
use leasehold_test_support::{After, Cluster, Proxy, Server, Way, until};

/// Settings that send even a single call as a batch.
fn batched() -> LinkSettings {
    LinkSettings { batch_from: Some(1), ..patient() }
}

/// A server that has the scripts and their batch, and a link to it.
struct Scene {
    server: Server,
    proxy: Proxy,
    world: World,
}

impl Scene {
    fn new(binary: &Binary) -> Self {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        let world = World::with(&proxy.url(), batched());
        let scene = Self { server, proxy, world };
        scene.assert_batches();
        scene.proxy.clear_requests();
        scene
    }

    /// Sends calls twice, because the first batch loads its script. Asserts that the server has it.
    fn assert_batches(&self) {
        let batch = Batch::of(&ACQUIRE).expect("a batch").script();
        for _ in 0..2 {
            for lock in ["x", "y"] {
                self.world
                    .start_all([acquire(lock), release(lock)])
                    .into_iter()
                    .for_each(|reply| drop(reply.expect("a reply")));
            }
        }
        assert_eq!(self.server.command(&["SCRIPT", "EXISTS", batch.sha1()]).elements()[0].as_int(), Some(1));
    }

    fn exists(&self, lock: &str) -> bool {
        self.server.command(&["EXISTS", lock]).as_int() == Some(1)
    }
}

/// Runs a test on each server.
fn on_each_scene(test: impl Fn(&Scene)) {
    on_each(|binary| test(&Scene::new(binary)));
}

#[test]
fn calls_that_replies_bring_together_are_few_commands() {
    const TASKS: usize = 64;
    const PAIRS: usize = 20;
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let home = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let world = Arc::new(World::on(&server.url(), patient(), home));
        let home = world.home.as_ref().expect("a home");
        let pairs = (0..TASKS).map(|task| {
            let world = Arc::clone(&world);
            home.spawn(async move {
                let lock = format!("many:{task}");
                for _ in 0..PAIRS {
                    assert!(is_granted(&world.start(acquire(&lock)).await.expect("an outcome").expect("a reply")));
                    assert_eq!(world.start(release(&lock)).await.expect("an outcome"), Ok(Reply::Int(1)));
                }
            })
        });
        for done in home.block_on(futures_util::future::join_all(pairs)) {
            done.expect("no panic");
        }
        let commands = server.commandstats("evalsha");
        let calls = 2 * (TASKS * PAIRS) as u64;
        assert!(commands * 2 < calls, "{commands} commands for {calls} calls");
    });
}

#[test]
fn collected_calls_leave_while_home_is_blocked() {
    const FILL: usize = 40;
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        let world = World::with(&proxy.url(), patient());
        world.call(acquire("a")).expect("a reply");
        proxy.freeze(Way::ToClient);
        let in_flight: Vec<_> = (0..FILL).map(|at| world.start(inspect(&format!("fill:{at}")))).collect();
        let link = world.link.clone();
        let (unblock, blocked) = mpsc::channel::<()>();
        world.home.as_ref().expect("a home").spawn(async move {
            let known = link.start(link.settlings(false), CallId::new(1_000), acquire("b"));
            assert!(matches!(known, Ok(None)), "it was sent");
            // Blocks the thread.
            let _ = blocked.recv();
        });
        until("the call has left", || server.command(&["EXISTS", "b"]).as_int() == Some(1));
        proxy.thaw(Way::ToClient);
        for answered in world.ends(futures_util::future::join_all(in_flight)) {
            answered.expect("an outcome").expect("a reply");
        }
        drop(unblock);
    });
}

#[test]
fn calls_of_a_batch_take_effect_in_their_order() {
    on_each_scene(|scene| {
        let replies = scene.world.start_all([acquire("o"), release("o"), acquire("o"), release("o")]);
        let replies = replies.into_iter().map(|reply| reply.expect("a reply")).collect::<Vec<_>>();
        assert!(is_granted(&replies[0]) && is_granted(&replies[2]), "{replies:?}");
        assert_eq!([&replies[1], &replies[3]], [&Reply::Int(1); 2]);
    });
}

#[test]
fn call_that_fails_in_a_batch_hinders_no_other() {
    on_each_scene(|scene| {
        let lock = "bad";
        // The script fails by a comparison, not by a command that returns an error.
        let wrong = [HOLD, "1", "60000", "no number"].map(Bytes::from_static_str).to_vec();
        let wrong = Call::new(&ACQUIRE, vec![key(lock)], wrong);
        let alone = scene.world.call(wrong.clone()).expect_err("the argument is wrong");
        let replies = scene.world.start_all([acquire("1"), wrong, acquire("2")]);
        assert!([0, 2].iter().all(|at| replies[*at].as_ref().is_ok_and(is_granted)), "{replies:?}");
        assert!(matches!(&replies[1], Err(LinkError::Refused(error)) if !error.proves_nothing_done()), "{replies:?}");
        assert!(matches!(alone, LinkError::Refused(_)), "and so it is alone: {alone}");
    });
}

#[test]
fn calls_go_alone_where_the_batch_is_unknown() {
    on_each_scene(|scene| {
        scene.server.command(&["SCRIPT", "FLUSH"]);
        let replies = scene.world.start_all(["s", "t"].map(acquire));
        assert!(replies.iter().all(|reply| reply.as_ref().is_ok_and(is_granted)), "{replies:?}");
        // Later batches find their script.
        scene.assert_batches();
    });
}

#[test]
fn calls_go_alone_where_one_key_is_forbidden() {
    on_each(|binary| {
        let rule = "app on >secret ~mine:* ~c:* &* +@all";
        let server = Server::builder().binary(binary).user(rule).start();
        let proxy = Proxy::to(&server);
        let world = World::with(&format!("redis://app:secret@{}", proxy.addr()), batched());
        for _ in 0..2 {
            let replies = world.start_all(["mine:1", "other", "mine:2"].map(acquire));
            assert!([0, 2].iter().all(|at| replies[*at].is_ok()), "{replies:?}");
            assert!(matches!(&replies[1], Err(LinkError::Refused(error)) if error.code() == "NOPERM"), "{replies:?}");
        }
    });
}

#[test]
fn call_that_was_settled_is_not_started() {
    on_each_scene(|scene| {
        let link = &scene.world.link;
        let decided = link.settlings(false);
        assert_eq!(scene.world.ends(scene.world.settled("e")), Ok(Settled::Proven));
        let known = link.start(decided, CallId::new(1_000), acquire("e")).expect("a connection");
        assert!(matches!(known, Some(Err(LinkError::NotSent(_)))), "{known:?}");
        scene.world.call(acquire("later")).expect("a reply");
        assert!(!scene.exists("e"));
    });
}

#[test]
fn batch_without_a_reply_leaves_all_outcomes_unknown() {
    on_each_scene(|scene| {
        let locks = ["g", "h"];
        let trap = scene.proxy.swallow_reply_to("\r\nh\r\n", After::Close);
        scene.proxy.freeze(Way::ToClient);
        let started = locks.map(|lock| scene.world.start(acquire(lock)));
        scene.proxy.wait_for_request("\r\nh\r\n");
        scene.proxy.thaw(Way::ToClient);
        let outcomes = scene.world.ends(futures_util::future::join_all(started));
        assert!(matches!(outcomes[1], Ok(Err(LinkError::Unknown(_)))), "{outcomes:?}");
        trap.wait();
        assert!(locks.iter().all(|lock| scene.exists(lock)), "they were carried out");
        assert_eq!(scene.proxy.requests_with("\r\nh\r\n").len(), 1, "and sent once");
    });
}

#[test]
fn only_calls_of_one_slot_share_a_batch_on_a_cluster() {
    on_each(|binary| {
        let cluster = Cluster::builder().binary(binary).start();
        let world = World::with(&cluster.url(), batched());
        // `start` needs a connection to the node.
        for tag in 0..3 {
            world.call(inspect(&format!("{{tag:{tag}}}"))).expect("a reply");
        }
        for _ in 0..2 {
            let names = (0..30).map(|at| format!("{{tag:{}}}:{at}", at % 3));
            for reply in world.start_all(names.flat_map(|lock| [acquire(&lock), release(&lock)])) {
                reply.expect("no call meets another slot");
            }
        }
    });
}

#[test]
fn user_without_the_right_to_load_scripts_sends_no_batches() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).user("app on >secret ~* &* +@all -script").start();
        let proxy = Proxy::to(&server);
        let world = World::with(&format!("redis://app:secret@{}", proxy.addr()), batched());
        let batch = Batch::of(&ACQUIRE).expect("a batch").script().sha1();
        until("no batch is sent", || {
            proxy.clear_requests();
            for reply in world.start_all([acquire("a"), release("a")]) {
                reply.expect("a reply");
            }
            proxy.requests_with(batch).is_empty()
        });
        world.start_all([acquire("a"), release("a")]).into_iter().for_each(|reply| drop(reply.expect("a reply")));
        assert!(proxy.requests_with(batch).is_empty());
    });
}
