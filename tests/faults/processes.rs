//! Processes that are killed, stopped, or end; and locks that go from one process to another.

use crate::child::{Child, clock};
use crate::support::{NEVER, RENEWED, lease_left, on_each, scripts};
use leasehold_test_support::{Rounds, Server, until};

#[test]
fn a_killed_holder_frees_its_lock_with_its_lease() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let mut holder = Child::obedient(&server.url(), RENEWED);
        let mut waiter = Child::obedient(&server.url(), NEVER);
        holder.hear("ready");
        waiter.hear("ready");
        holder.order("acquire stock");
        holder.hear("held");
        waiter.order("acquire stock");
        until("the waiter listens", || listeners(&server, "stock") == 1);
        holder.kill();
        assert!(lease_left(&server, "stock") <= RENEWED);
        // No message tells the waiter, and nothing else wakes it: it has slept until the lease is over.
        waiter.hear("held");
    });
}

#[test]
fn a_holder_that_was_stopped_beyond_its_lease_does_not_go_on() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let mut holder = Child::obedient(&server.url(), RENEWED);
        let mut other = Child::obedient(&server.url(), NEVER);
        holder.hear("ready");
        holder.order("acquire stock");
        holder.hear("held");
        holder.order("work stock");
        holder.hear("works");
        holder.stop();
        let stopped = clock();
        other.hear("ready");
        other.order("acquire stock");
        other.hear("held");
        holder.resume();
        let said = holder.hear("lost");
        let (reason, polled) = said.split_once(' ').expect("a reason and a time");
        assert_eq!(reason, "not_renewed");
        let polled: u64 = polled.parse().expect("a time");
        assert!(polled <= stopped, "polled {} us after it was stopped", polled - stopped);
        holder.hear("told");
        // The one who came next was not disturbed by the one who woke up.
        assert_eq!(server.command(&["HLEN", "stock"]).as_int(), Some(1));
        other.order("release stock");
        other.hear("released");
    });
}

#[test]
fn a_process_that_ends_in_order_leaves_no_lock() {
    on_each(|binary| {
        for role in ["drop blocking", "drop outside", "static", "shut down"] {
            let server = Server::builder().binary(binary).start();
            let mut process = Child::start(role, &server.url(), NEVER);
            process.hear("held");
            process.wait();
            assert_eq!(server.command(&["DBSIZE"]).as_int(), Some(0), "{role}");
        }
    });
}

#[test]
fn a_release_wakes_a_waiter_in_another_process() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let mut holder = Child::obedient(&server.url(), NEVER);
        let mut waiter = Child::obedient(&server.url(), NEVER);
        for process in [&mut holder, &mut waiter] {
            // The scripts are known to the server from here on, so that each call is one command.
            process.hear("ready");
            process.order("acquire stock");
            process.hear("held");
            process.order("release stock");
            process.hear("released");
        }
        for _ in 0..5 {
            let mut rounds = Rounds::default();
            loop {
                let before = scripts(&server);
                holder.order("acquire stock");
                holder.hear("held");
                waiter.order("acquire stock");
                // It tries, listens, and tries again.
                until("the waiter sleeps", || listeners(&server, "stock") == 1 && scripts(&server) >= before + 3);
                let asleep = scripts(&server) - before;
                holder.order("release stock");
                holder.hear("released");
                waiter.hear("held");
                let in_all = scripts(&server) - before;
                waiter.order("release stock");
                waiter.hear("released");
                // One release, and one attempt for it. A process that is held up is taken for one that does not look, which costs more.
                if rounds.end_with((asleep, in_all) == (3, 5), (asleep, in_all)) {
                    break;
                }
            }
        }
    });
}

#[test]
fn waiter_with_a_killed_notice_connection_gets_in() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let mut holder = Child::obedient(&server.url(), NEVER);
        let mut waiter = Child::obedient(&server.url(), NEVER);
        holder.hear("ready");
        waiter.hear("ready");
        for _ in 0..5 {
            holder.order("acquire stock");
            holder.hear("held");
            waiter.order("acquire stock");
            until("the waiter listens", || listeners(&server, "stock") == 1);
            assert_eq!(server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).as_int(), Some(1));
            // The notice of this one is not heard.
            holder.order("release stock");
            holder.hear("released");
            waiter.hear("held");
            waiter.order("release stock");
            waiter.hear("released");
            until("the waiter listens no more", || listeners(&server, "stock") == 0);
        }
    });
}

fn listeners(server: &Server, lock: &str) -> i64 {
    let channel = format!("redisson_lock__channel:{{{lock}}}");
    let reply = server.command(&["PUBSUB", "NUMSUB", &channel]);
    reply.elements().get(1).and_then(leasehold_test_support::Resp::as_int).expect("a number")
}
