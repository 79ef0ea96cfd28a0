//! Calls that are sent as one. Where a test fills a line, no call goes out by itself, and both senders wait for a reply that the proxy
//! keeps back: so whatever is called then is queued.

use super::*;
use crate::link::server::Batching;
use leasehold_core::session::CallId;
use leasehold_test_support::{After, Cluster, Proxy, Server, Way, until};

type Pending<'a> = Pin<Box<dyn Future<Output = Result<Reply, LinkError>> + 'a>>;

/// However late an answer is, calls wait for it.
const ALWAYS_QUICK: Duration = Duration::MAX;

fn batched(direct: usize, quick: Duration) -> LinkSettings {
    let batching = Batching { direct, near: quick, quick };
    LinkSettings { batching: Some(batching), ..patient() }
}

/// Begins a call.
fn begun(world: &World, call: Call) -> Pending<'_> {
    let mut call: Pending<'_> = Box::pin(world.link.call(call));
    begin(call.as_mut());
    call
}

/// A link on which every call is queued, and its server.
struct Scene {
    server: Server,
    proxy: Proxy,
    world: World,
}

impl Scene {
    fn new(binary: &Binary) -> Self {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        let world = World::with(&proxy.url(), batched(0, ALWAYS_QUICK));
        let scene = Self { server, proxy, world };
        // The server knows the scripts, and that of a batch.
        for _ in 0..2 {
            let full = scene.fill();
            let calls: Vec<_> = ["x", "y"]
                .iter()
                .flat_map(|lock| [acquire(lock), release(lock)])
                .map(|call| begun(&scene.world, call))
                .collect();
            scene.answer_all(full);
            scene.answer_all(calls);
        }
        scene.proxy.clear_requests();
        scene
    }

    /// Has both senders wait for a reply.
    fn fill(&self) -> Vec<Pending<'_>> {
        self.proxy.freeze(Way::ToClient);
        let each = ["plug:1", "plug:2"].map(|lock| {
            self.proxy.clear_requests();
            let call = begun(&self.world, release(lock));
            self.proxy.wait_for_request(lock);
            call
        });
        each.into()
    }

    /// Lets all replies through.
    fn answer_all(&self, calls: Vec<Pending<'_>>) -> Vec<Result<Reply, LinkError>> {
        self.proxy.thaw(Way::ToClient);
        self.world.block_on(futures_util::future::join_all(calls))
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
fn queued_calls_leave_while_the_runtime_of_their_sender_is_blocked() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let world = World::with(&server.url(), batched(0, ALWAYS_QUICK));
        world.call(acquire("a")).expect("a reply");
        let link = world.link.clone();
        let (unblock, blocked) = mpsc::channel::<()>();
        world.home.as_ref().expect("a home").spawn(async move {
            let known = link.start(link.settlings(false), CallId::new(1), acquire("b"));
            assert!(matches!(known, Ok(None)), "it is queued");
            // Blocks the thread.
            let _ = blocked.recv();
        });
        until("the call has left", || server.command(&["EXISTS", "b"]).as_int() == Some(1));
        for lock in ["c", "d", "e"] {
            assert!(is_granted(&world.call(acquire(lock)).expect("a reply")));
        }
        drop(unblock);
    });
}

#[test]
fn queued_calls_are_one_command_with_a_reply_each() {
    on_each_scene(|scene| {
        let full = scene.fill();
        let before = scene.server.commandstats("evalsha");
        let calls = (0..20).map(|at| begun(&scene.world, acquire(&format!("many:{at}")))).collect();
        scene.answer_all(full);
        for reply in scene.answer_all(calls) {
            assert!(is_granted(&reply.expect("a reply")));
        }
        assert!(scene.server.commandstats("evalsha") <= before + 2, "one command, and the second plug");
    });
}

#[test]
fn calls_of_a_batch_take_effect_in_their_order() {
    on_each_scene(|scene| {
        let full = scene.fill();
        let calls = [acquire("o"), release("o"), acquire("o"), release("o")];
        let calls = calls.into_iter().map(|call| begun(&scene.world, call)).collect();
        scene.answer_all(full);
        let replies = scene.answer_all(calls).into_iter().map(|reply| reply.expect("a reply")).collect::<Vec<_>>();
        assert!(is_granted(&replies[0]) && is_granted(&replies[2]), "{replies:?}");
        assert_eq!([&replies[1], &replies[3]], [&Reply::Int(1); 2]);
    });
}

#[test]
fn call_that_fails_in_a_batch_hinders_no_other() {
    on_each_scene(|scene| {
        let lock = "bad";
        // The script fails by a comparison, and not in a command that answers with an error.
        let wrong = [HOLD, "1", "60000", "no number"].map(Bytes::from_static_str).to_vec();
        let wrong = Call::new(&ACQUIRE, vec![key(lock)], wrong);
        let alone = scene.world.call(wrong.clone()).expect_err("the argument is wrong");
        let full = scene.fill();
        let calls = [acquire("1"), wrong, acquire("2")];
        let calls = calls.into_iter().map(|call| begun(&scene.world, call)).collect();
        scene.answer_all(full);
        let replies = scene.answer_all(calls);
        assert!([0, 2].iter().all(|at| replies[*at].as_ref().is_ok_and(is_granted)), "{replies:?}");
        assert!(matches!(&replies[1], Err(LinkError::Refused(error)) if !error.proves_nothing_done()), "{replies:?}");
        assert!(matches!(alone, LinkError::Refused(_)), "and so it is by itself: {alone}");
    });
}

#[test]
fn calls_go_by_themselves_where_the_batch_is_unknown() {
    on_each_scene(|scene| {
        let full = scene.fill();
        scene.server.command(&["SCRIPT", "FLUSH"]);
        let calls = ["s", "t"].map(acquire);
        let calls = calls.into_iter().map(|call| begun(&scene.world, call)).collect();
        scene.answer_all(full);
        assert!(scene.answer_all(calls).iter().all(|reply| reply.as_ref().is_ok_and(is_granted)));
        // The next batch finds its script.
        let full = scene.fill();
        let before = scene.server.commandstats("evalsha");
        let calls = ["u", "v"].map(acquire);
        let calls = calls.into_iter().map(|call| begun(&scene.world, call)).collect();
        scene.answer_all(full);
        assert!(scene.answer_all(calls).iter().all(|reply| reply.as_ref().is_ok_and(is_granted)));
        // One command, and the second plug, which the server may not have counted. By themselves they would be two more.
        assert!(scene.server.commandstats("evalsha") <= before + 2);
    });
}

#[test]
fn calls_go_by_themselves_where_one_key_is_forbidden() {
    on_each(|binary| {
        let rule = "app on >secret ~mine:* ~plug* ~c:* &* +@all";
        let server = Server::builder().binary(binary).user(rule).start();
        let proxy = Proxy::to(&server);
        let world = World::with(&format!("redis://app:secret@{}", proxy.addr()), batched(0, ALWAYS_QUICK));
        let scene = Scene { server, proxy, world };
        let full = scene.fill();
        let calls = ["mine:1", "other", "mine:2"];
        let calls = calls.iter().map(|lock| begun(&scene.world, acquire(lock))).collect();
        scene.answer_all(full);
        let replies = scene.answer_all(calls);
        assert!([0, 2].iter().all(|at| replies[*at].as_ref().is_ok_and(is_granted)), "{replies:?}");
        assert!(matches!(&replies[1], Err(LinkError::Refused(error)) if error.code() == "NOPERM"), "{replies:?}");
    });
}

#[test]
fn queued_calls_of_all_keys_are_settled_with_one() {
    on_each_scene(|scene| {
        let full = scene.fill();
        // Outside of a cluster all keys are of one slot, and a session has one settlement for all of them.
        let queued = futures_util::future::join_all(["e", "f"].map(|lock| begun(&scene.world, acquire(lock))));
        let settling = scene.world.link.settle(key("e"), false);
        let (outcome, answers) = scene.world.block_on(async {
            let mut settling = pin!(settling);
            let _ = futures_util::poll!(settling.as_mut());
            scene.proxy.thaw(Way::ToClient);
            futures_util::join!(settling, queued)
        });
        assert_eq!(outcome, Ok(Settled::Proven));
        assert!(answers.iter().all(|answer| matches!(answer, Err(LinkError::NotSent(_)))), "{answers:?}");
        scene.answer_all(full);
        let later = scene.world.call(acquire("later"));
        assert!(is_granted(&later.expect("a reply")));
        assert!(!scene.exists("e") && !scene.exists("f"));
    });
}

#[test]
fn batch_without_a_reply_leaves_all_outcomes_unknown() {
    on_each(|binary| {
        let scene = Scene::new(binary);
        let full = scene.fill();
        let locks = ["g", "h"];
        let calls = locks.map(|lock| begun(&scene.world, acquire(lock))).into();
        let trap = scene.proxy.swallow_reply_to("\r\ng\r\n", After::Close);
        scene.answer_all(full);
        for reply in scene.answer_all(calls) {
            assert!(matches!(reply, Err(LinkError::Unknown(_))), "{reply:?}");
        }
        trap.wait();
        assert!(locks.iter().all(|lock| scene.exists(lock)), "they were carried out");
        assert_eq!(scene.proxy.requests_with("\r\ng\r\n").len(), 1, "and sent once");
    });
}

#[test]
fn queued_calls_end_with_their_runtime() {
    on_each(|binary| {
        let mut scene = Scene::new(binary);
        let background = scene.world.background.take();
        let full = scene.fill();
        let call = begun(&scene.world, acquire("r"));
        drop(background);
        let answers = scene.answer_all(vec![call]);
        assert!(matches!(&answers[..], [Err(LinkError::NotSent(_))]), "{answers:?}");
        for answer in scene.answer_all(full) {
            assert!(matches!(answer, Err(LinkError::Unknown(_))), "{answer:?}");
        }
        assert!(!scene.exists("r"));
    });
}

#[test]
fn only_calls_of_one_slot_share_a_batch_on_a_cluster() {
    on_each(|binary| {
        let cluster = Cluster::builder().binary(binary).start();
        let world = World::with(&cluster.url(), batched(0, ALWAYS_QUICK));
        for _ in 0..2 {
            let names = (0..30).map(|at| format!("{{tag:{}}}:{at}", at % 3));
            let calls: Vec<_> = names.flat_map(|lock| [acquire(&lock), release(&lock)]).collect();
            let calls = calls.into_iter().map(|call| world.link.call(call));
            for reply in world.block_on(futures_util::future::join_all(calls)) {
                reply.expect("no call meets another slot");
            }
        }
    });
}

#[test]
fn few_calls_go_by_themselves() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        let world = World::with(&proxy.url(), batched(2, ALWAYS_QUICK));
        for lock in ["i", "j"] {
            world.call(acquire(lock)).expect("a reply");
        }
        proxy.freeze(Way::ToClient);
        proxy.clear_requests();
        // They leave at the first poll, from the thread that polls, and no other task has to run.
        let calls: Vec<_> = ["i", "j"].map(|lock| begun(&world, acquire(lock))).into();
        let third = begun(&world, acquire("k"));
        until("three calls have come", || proxy.requests_with("EVALSHA").len() == 3);
        proxy.thaw(Way::ToClient);
        for reply in world.block_on(futures_util::future::join_all(calls)) {
            assert!(reply.is_ok(), "{reply:?}");
        }
        world.block_on(third).expect("a reply");
        world.call(release("k")).expect("a reply");
    });
}

#[test]
fn calls_wait_for_no_batch_that_is_answered_late() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        // However soon an answer is, it is late.
        let world = World::with(&proxy.url(), batched(0, Duration::ZERO));
        for lock in ["l", "m"] {
            world.call(acquire(lock)).expect("a reply");
        }
        proxy.freeze(Way::ToClient);
        let locks = (0..6).map(|at| format!("late:{at}"));
        let calls: Vec<_> = locks
            .map(|lock| {
                let call = begun(&world, acquire(&lock));
                proxy.wait_for_request(&lock);
                call
            })
            .collect();
        proxy.thaw(Way::ToClient);
        for reply in world.block_on(futures_util::future::join_all(calls)) {
            assert!(is_granted(&reply.expect("a reply")));
        }
    });
}
