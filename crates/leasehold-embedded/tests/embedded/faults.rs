//! The faults, one after the other.

use crate::support::{call, check, now, poll, server, show_result};
use leasehold_core::call::Call;
use leasehold_core::link::{Link, LinkError, LinkEvent, ServerError, Settled};
use leasehold_core::script::{ACQUIRE, INSPECT, RELEASE};
use leasehold_embedded::{EmbeddedLink, EmbeddedServer, Fault, FaultTarget, RefusalEffect, RefuseAt};
use std::pin::pin;
use std::task::Poll;

fn acquire() -> Call {
    call(&ACQUIRE, "k", "me:1 1 1000 -1")
}

fn count(server: &EmbeddedServer) -> String {
    crate::support::command(server, "HGET k me:1")
}

fn send(link: &EmbeddedLink, call: Call) -> String {
    show_result(&now(link.call(call)))
}

fn event(link: &EmbeddedLink) -> Option<LinkEvent> {
    match poll(pin!(link.event())) {
        Poll::Ready(event) => event,
        Poll::Pending => None,
    }
}

#[test]
fn a_call_is_applied_at_its_first_poll_and_not_before() {
    let (server, _) = server();
    let link = server.link();
    let mut future = pin!(link.call(acquire()));
    assert_eq!(count(&server), "nil");
    assert!(poll(future.as_mut()).is_ready());
    assert_eq!(count(&server), "\"1\"");
}

#[test]
fn a_lost_request_is_not_applied_and_a_lost_reply_is() {
    for (fault, stored) in [(Fault::LoseRequest, "nil"), (Fault::LoseReply, "\"1\"")] {
        let (server, _) = server();
        let link = server.link();
        link.inject(fault.clone(), FaultTarget::next());
        assert_eq!(send(&link, acquire()), "?");
        assert_eq!(count(&server), stored, "{fault:?}");
        assert_eq!(event(&link), Some(LinkEvent::CallsReset));
        assert_eq!(event(&link), None);
        assert!(send(&link, acquire()).starts_with('['), "the next call is unharmed");
    }
}

#[test]
fn a_refusal_is_not_applied() {
    let (server, _) = server();
    let link = server.link();
    server.inject(Fault::Refuse(ServerError::new("LOADING wait")), FaultTarget::next().times(2));
    assert_eq!(send(&link, acquire()), "!LOADING wait");
    assert_eq!(send(&server.link(), acquire()), "!LOADING wait");
    assert_eq!(count(&server), "nil");
    assert_eq!(send(&link, acquire()), "[1, 1000, 0]");
    server.inject(Fault::LoseReply, FaultTarget::always());
    server.clear_faults();
    assert_eq!(send(&link, acquire()), "[2, 1000, 0]");
}

#[test]
fn a_duplicate_shows_the_second_reply() {
    let (server, _) = server();
    let link = server.link();
    link.inject(Fault::Duplicate, FaultTarget::next());
    assert_eq!(send(&link, acquire()), "[2, 1000, 0]");
    assert_eq!(server.calls("lock/acquire"), 2);
}

#[test]
fn a_fault_meets_only_its_script() {
    let (server, _) = server();
    let link = server.link();
    link.inject(Fault::LoseReply, FaultTarget::next().script("lock/acquire").after(1));
    assert_eq!(send(&link, acquire()), "[1, 1000, 0]");
    assert_eq!(send(&link, call(&INSPECT, "k", "")), "[1, 1000, \"me:1\", \"1\"]");
    assert_eq!(send(&link, acquire()), "?");
}

#[test]
fn held_request_is_applied_when_released_without_a_caller() {
    let (server, _) = server();
    let link = server.link();
    link.inject(Fault::Hold, FaultTarget::next().times(2));
    let mut stays = pin!(link.call(acquire()));
    assert!(poll(stays.as_mut()).is_pending());
    {
        let mut goes = pin!(link.call(call(&ACQUIRE, "other", "me:2 1 1000 -1")));
        assert!(poll(goes.as_mut()).is_pending());
    }
    assert_eq!((server.keys().len(), link.held()), (0, 2));
    assert_eq!(link.release_held(), 2);
    assert_eq!((server.keys().len(), link.held()), (2, 0));
    let Poll::Ready(reply) = poll(stays.as_mut()) else { panic!("the reply has come") };
    assert_eq!(show_result(&reply), "[1, 1000, 0]");
}

#[test]
fn a_held_request_outlives_its_connection() {
    let (server, _) = server();
    let link = server.link();
    link.inject(Fault::Hold, FaultTarget::next());
    let mut future = pin!(link.call(acquire()));
    assert!(poll(future.as_mut()).is_pending());
    link.reset();
    let Poll::Ready(result) = poll(future.as_mut()) else { panic!("the connection is gone") };
    assert_eq!(show_result(&result), "?");
    assert_eq!(count(&server), "nil");
    link.set_down(true);
    link.set_down(false);
    assert_eq!(link.release_held(), 1);
    assert_eq!(count(&server), "\"1\"", "the zombie has struck");
}

#[test]
fn a_caller_whose_connection_has_died_gets_no_late_reply() {
    let (server, _) = server();
    let link = server.link();
    link.inject(Fault::Hold, FaultTarget::next());
    let mut future = pin!(link.call(acquire()));
    assert!(poll(future.as_mut()).is_pending());
    link.reset();
    assert_eq!(link.release_held(), 1);
    let Poll::Ready(result) = poll(future.as_mut()) else { panic!("the connection is gone") };
    assert_eq!((show_result(&result), count(&server)), ("?".into(), "\"1\"".into()));
}

#[test]
fn settling_kills_what_was_held_before() {
    let (server, _) = server();
    let link = server.link();
    link.inject(Fault::Hold, FaultTarget::next());
    let mut future = pin!(link.call(acquire()));
    assert!(poll(future.as_mut()).is_pending());
    assert_eq!(now(link.settle("k".into(), false)), Ok(Settled::Proven));
    assert_eq!((link.held(), link.release_held()), (0, 0));
    let Poll::Ready(result) = poll(future.as_mut()) else { panic!("the connection was killed") };
    assert_eq!(show_result(&result), "?");
    assert_eq!(event(&link), Some(LinkEvent::CallsReset), "the connection was killed");
    assert_eq!(count(&server), "nil");
}

#[test]
fn settling_what_a_lost_connection_left_spares_the_new_one() {
    let (server, _) = server();
    let link = server.link();
    link.inject(Fault::Hold, FaultTarget::next());
    assert!(poll(pin!(link.call(acquire()))).is_pending());
    link.reset();
    assert_eq!(event(&link), Some(LinkEvent::CallsReset));
    assert_eq!(now(link.settle("k".into(), false)), Ok(Settled::Proven));
    assert_eq!((link.held(), event(&link)), (0, None));
}

#[test]
fn a_quiet_connection_is_settled_without_a_reset() {
    let (server, _) = server();
    let link = server.link();
    send(&link, acquire());
    assert_eq!(now(link.settle("k".into(), false)), Ok(Settled::Proven));
    assert_eq!(event(&link), None);
    link.set_down(true);
    assert!(matches!(now(link.settle("k".into(), false)), Err(LinkError::NotSent(_))));
}

#[test]
fn a_swallowed_reply_never_comes() {
    let (server, _) = server();
    let link = server.link();
    link.inject(Fault::Swallow, FaultTarget::next());
    let mut future = pin!(link.call(acquire()));
    assert!(poll(future.as_mut()).is_pending());
    assert_eq!(count(&server), "\"1\"");
    assert_eq!(link.release_held(), 0);
    assert!(poll(future.as_mut()).is_pending());
    assert_eq!(now(link.settle("k".into(), false)), Ok(Settled::Proven));
    let Poll::Ready(result) = poll(future.as_mut()) else { panic!("the connection was killed") };
    assert_eq!(show_result(&result), "?");
    assert_eq!(event(&link), Some(LinkEvent::CallsReset));
}

#[test]
fn nothing_is_sent_while_the_link_is_down() {
    let (server, _) = server();
    let link = server.link();
    link.inject(Fault::LinkDown, FaultTarget::next().script("lock/acquire"));
    assert_eq!(send(&link, acquire()), "-");
    assert_eq!(send(&link, acquire()), "-");
    assert_eq!(server.calls("lock/acquire"), 0);
    server.set_down(true);
    let late = server.link();
    assert_eq!(send(&late, acquire()), "-", "a link made while the server is out of reach");
    server.set_down(false);
    assert_eq!(send(&late, acquire()), "[1, 1000, 0]");
    assert_eq!(send(&link, acquire()), "[2, 1000, 0]");
    now(link.close());
    assert_eq!(send(&link, acquire()), "-");
}

#[test]
fn a_stepped_call_can_be_dropped_at_each_of_its_waits() {
    for (polls, stored) in [(0, "nil"), (1, "nil"), (2, "\"1\"")] {
        let (server, _) = server();
        let link = server.link();
        link.stepped(true);
        {
            let mut future = pin!(link.call(acquire()));
            for _ in 0..polls {
                assert!(poll(future.as_mut()).is_pending());
            }
        }
        assert_eq!(count(&server), stored, "after {polls} polls");
    }
    let (server, _) = server();
    let link = server.link();
    link.stepped(true);
    let mut future = pin!(link.subscribe("c".into()));
    assert!(poll(future.as_mut()).is_pending());
    assert_eq!(server.subscriptions(), 0);
    assert!(poll(future.as_mut()).is_pending());
    assert_eq!(server.subscriptions(), 1);
    assert!(poll(future.as_mut()).is_ready());
}

#[test]
fn a_restart_takes_held_requests_with_it() {
    let (server, _) = server();
    let link = server.link();
    link.inject(Fault::Hold, FaultTarget::next());
    let mut future = pin!(link.call(acquire()));
    assert!(poll(future.as_mut()).is_pending());
    server.restart_empty();
    assert_eq!(link.release_held(), 0);
    assert!(poll(future.as_mut()).is_ready());
}

#[test]
fn recorder_tells_the_traffic_and_can_send_it_again() {
    let (server, _) = server();
    let (link, other) = (server.link(), server.link());
    send(&link, call(&INSPECT, "early", ""));
    let (recorder, all) = (link.record(), server.record());
    send(&link, acquire());
    link.inject(Fault::LoseReply, FaultTarget::next());
    send(&link, call(&RELEASE, "k", "me:1 0 PUBLISH 0 - c"));
    send(&other, call(&INSPECT, "k", ""));
    assert_eq!(recorder.scripts(), ["lock/acquire", "lock/release"]);
    assert_eq!(all.scripts(), ["lock/acquire", "lock/release", "lock/inspect"]);
    let calls = recorder.calls();
    assert_eq!(calls[0].keys(), ["k"]);
    assert_eq!(calls[0].args(), ["me:1", "1", "1000", "-1"]);
    assert_eq!(calls[0].outcome().map(show_result).as_deref(), Some("[1, 1000, 0]"));
    assert_eq!(calls[1].outcome().map(show_result).as_deref(), Some("?"));
    assert_eq!(calls[1].applied(), 1);
    check(&server, "EXISTS k => 0");
    recorder.replay(0).expect("a late duplicate is applied");
    check(&server, "EXISTS k => 1");
    assert_eq!(recorder.calls()[0].applied(), 2);
}

#[test]
fn a_recorder_learns_the_outcome_of_a_held_call_when_it_comes() {
    let (server, _) = server();
    let link = server.link();
    let recorder = link.record();
    link.inject(Fault::Hold, FaultTarget::next());
    let mut future = pin!(link.call(acquire()));
    assert!(poll(future.as_mut()).is_pending());
    assert_eq!((recorder.calls()[0].applied(), recorder.calls()[0].outcome()), (0, None));
    link.release_held();
    assert_eq!(recorder.calls()[0].applied(), 1);
    assert_eq!(recorder.calls()[0].outcome().map(show_result).as_deref(), Some("[1, 1000, 0]"));
}

#[test]
fn script_refused_in_its_middle_has_done_what_came_before() {
    let denied = || ServerError::new("ERR denied");
    // It reads twice, and then counts and sets a lease, which it looks at once more where it was there.
    let (server, _) = server();
    let (mut ends, mut mets) = (Vec::new(), Vec::new());
    for at in 1.. {
        let (result, met) = server.execute_refused(&acquire(), RefuseAt::Call(at), denied());
        assert_eq!(result.is_err(), met != RefusalEffect::Nothing, "{at}");
        mets.push(met);
        ends.push(count(&server));
        if met == RefusalEffect::Nothing {
            break;
        }
        server.command(&[b"DEL", b"k"]).expect("a key can be removed");
    }
    assert!(ends.len() > 3 && ends.last().is_some_and(|count| count == "\"1\""), "{ends:?}");
    assert!(mets.contains(&RefusalEffect::BeforeWriting) && mets.contains(&RefusalEffect::AfterWriting), "{mets:?}");
    let link = server.link();
    server.command(&[b"DEL", b"k"]).expect("a key can be removed");
    link.inject(Fault::RefuseInside(RefuseAt::Command(1), denied()), FaultTarget::next());
    assert!(send(&link, acquire()).contains("denied"));
    server.forbid(&["PEXPIRE"]);
    assert!(send(&link, acquire()).contains("'pexpire'"));
    assert_eq!(count(&server), "nil");
    server.forbid(&[]);
    assert!(send(&link, acquire()).starts_with('['));
}

/// A thread may stand still between the decision to send a call and the call.
#[test]
fn call_that_was_decided_on_before_a_settling_is_not_applied_after_it() {
    let (server, _) = server();
    let link = server.link();
    let decided = link.settlings(false);
    assert_eq!(now(link.settle("k".into(), false)), Ok(Settled::Proven));
    let late = now(link.call_decided(decided, acquire()));
    assert!(matches!(late, Err(LinkError::NotSent(_))), "{late:?}");
    assert_eq!(count(&server), "nil");
}
