//! Candidates that campaign for the leadership of a name.

use crate::support::{World, ms, secs, until};
use futures_util::StreamExt as _;
use leasehold::embedded::{EmbeddedServer, ServerClock};
use leasehold::leader::{LeaderHandle, LeaderState, Term};
use leasehold::{Client, Error, WithError};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

type Outcome = Result<Option<u64>, WithError<u64>>;

/// A candidate that leads until it resigns, and then tells the token of its term.
fn campaign(client: &Client, name: &str) -> (LeaderHandle, JoinHandle<Outcome>) {
    let leader = client.leader(name);
    let handle = leader.handle();
    let work = async |term: &Term| {
        term.resigned().await;
        term.fencing_token().as_u64()
    };
    (handle, tokio::spawn(leader.run(work)))
}

async fn leads(handle: &LeaderHandle) {
    let mut state = handle.watch();
    let leading = state.wait_for(|state| matches!(state, LeaderState::Leading { .. }));
    drop(tokio::time::timeout(secs(60), leading).await.expect("a leader").expect("a candidate"));
}

pub(crate) async fn one_candidate_leads_and_the_next_takes_over(world: World) {
    let name = world.name("leader");
    let mut candidates = Vec::new();
    for _ in 0..4 {
        let client = world.client().await;
        let (handle, task) = campaign(&client, &name);
        candidates.push((client, handle, task));
    }
    let mut last = 0;
    while !candidates.is_empty() {
        until("one leads", || candidates.iter().any(|(_, handle, _)| handle.is_leader())).await;
        let leading: Vec<usize> = (0..candidates.len()).filter(|at| candidates[*at].1.is_leader()).collect();
        assert_eq!(leading.len(), 1, "one leads at a time");
        let (client, handle, task) = candidates.remove(leading[0]);
        let seen = handle.leader().await.expect("an answer").expect("a leader");
        assert!(seen.id.is_of(&client.id()));
        handle.resign().await;
        assert!(!handle.is_leader() && handle.state() == LeaderState::Ended);
        let token = task.await.expect("a task").expect("a term").expect("it led");
        assert!(token > last, "each term has a greater token");
        last = token;
    }
    world.gone(&name).await;
}

pub(crate) async fn lost_leadership_stops_the_work_and_is_won_again(world: World) {
    /// Counts what is dropped.
    struct Dropped<'a>(&'a AtomicUsize);
    impl Drop for Dropped<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    // A leader that is thrown out hears of it by its next renewal.
    let client = world.client_with(|builder| builder.lease(secs(3))).await;
    let other = world.client().await;
    let name = world.name("leader");
    let (begun, dropped) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let mut tokens = Vec::new();
    let leader = client.leader(&name);
    let handle = leader.handle();
    let run = leader.run(async |term| {
        tokens.push(term.fencing_token());
        if begun.fetch_add(1, Ordering::SeqCst) == 2 {
            return "done";
        }
        let _work = Dropped(&dropped);
        assert!(handle.is_leader() && term.is_leading() && term.remaining() > ms(0));
        other.fenced_lock(&name).force_release().await.expect("an answer").expect("a leader");
        std::future::pending().await
    });
    let ended = tokio::time::timeout(secs(100), run).await.expect("an end").expect("a term");
    assert_eq!((ended, dropped.load(Ordering::SeqCst)), (Some("done"), 2));
    assert!(tokens.is_sorted() && tokens[0] < tokens[1] && tokens[1] < tokens[2], "{tokens:?}");
    world.gone(&name).await;
}

pub(crate) async fn resignation_ends_a_wait_and_a_work_that_does_not_end(world: World) {
    let (client, other) = (world.client().await, world.client().await);
    let name = world.name("leader");
    let leader = client.leader(&name).grace(ms(50));
    let stubborn = leader.handle();
    let stubborn_task = tokio::spawn(leader.run(async |_| std::future::pending::<()>().await));
    leads(&stubborn).await;
    let (follower, follower_task) = campaign(&other, &name);
    until("the follower listens", || world.subscribers(&name) == 1).await;
    assert_eq!((follower.is_leader(), follower.state()), (false, LeaderState::Following));
    follower.resign().await;
    assert_eq!(follower_task.await.expect("a task"), Ok(None));
    stubborn.resign().await;
    assert_eq!(stubborn_task.await.expect("a task"), Ok(None));
    world.gone(&name).await;
    // One that resigns before it begins does not begin; one whose future is dropped has ended.
    let leader = client.leader(&name);
    let handle = leader.handle();
    handle.resign().await;
    assert_eq!((handle.state(), leader.run(async |_| ()).await), (LeaderState::Idle, Ok(None)));
    let (handle, task) = campaign(&client, &name);
    leads(&handle).await;
    task.abort();
    handle.resign().await;
    world.gone(&name).await;
}

pub(crate) async fn candidates_in_one_owners_scope_do_not_lead_at_once(world: World) {
    let client = world.client().await;
    let name = world.name("leader");
    let (first, second) = (client.leader(&name), client.leader(&name));
    let (one, two) = (first.handle(), second.handle());
    let scope = client.new_owner();
    let both = scope.scope(async {
        let leading = async |term: &Term| {
            assert!(one.is_leader() != two.is_leader());
            tokio::task::yield_now().await;
            term.fencing_token()
        };
        tokio::join!(first.run(leading), second.run(leading))
    });
    let (first, second) = both.await;
    assert_ne!(first.expect("a term"), second.expect("a term"));
    world.gone(&name).await;
}

pub(crate) async fn candidate_that_resigns_is_seen_to_lead_until_it_has_ended(world: World) {
    let client = world.client().await;
    let (handle, task) = campaign(&client, &world.name("leader"));
    let mut state = handle.watch();
    let (led, has_led) = oneshot::channel();
    let mut led = Some(led);
    let seen = tokio::spawn(async move {
        let mut seen = Vec::new();
        while *state.borrow_and_update() != LeaderState::Ended {
            let leads = matches!(*state.borrow(), LeaderState::Leading { .. });
            seen.push((leads, *state.borrow() == LeaderState::Following));
            if leads && let Some(led) = led.take() {
                led.send(()).expect("the test waits");
            }
            state.changed().await.expect("a candidate");
        }
        seen
    });
    // The watcher must have seen the term before it ends: a watch keeps the last value alone.
    has_led.await.expect("a term");
    handle.resign().await;
    task.await.expect("a task").expect("a term");
    let seen = seen.await.expect("a task");
    let first = seen.iter().position(|(leads, _)| *leads).expect("it led");
    assert!(seen[first..].iter().all(|(leads, follows)| *leads && !follows), "{seen:?}");
}

pub(crate) async fn campaign_that_cannot_succeed_ends_with_the_reason(world: World) {
    let client = world.client().await;
    let name = world.name("leader");
    world.command(&name, &["SET", &name, "in use"]);
    let error = client.leader(&name).run(async |_| ()).await.expect_err("a name that is in use");
    assert!(matches!(error, WithError::NotAcquired(Error::KeyConflict { .. })), "{error}");
    let error = client.leader(&name).lease(ms(0)).run(async |_| ()).await.expect_err("a lease that cannot be");
    assert!(matches!(error, WithError::NotAcquired(Error::Invalid(_))), "{error}");
    world.delete(&name);
    let (handle, task) = campaign(&client, &name);
    leads(&handle).await;
    let waiting = client.leader(&name);
    let waiting = tokio::spawn(waiting.run(async |_| ()));
    until("the candidate listens", || world.subscribers(&name) == 1).await;
    client.shutdown(secs(5)).await.expect("all is released");
    let error = waiting.await.expect("a task").expect_err("a client that is shut down");
    assert!(matches!(error, WithError::NotAcquired(Error::ShutDown { .. })), "{error}");
    assert!(task.await.expect("a task").expect("a leader that resigns").is_some());
    assert_eq!(handle.state(), LeaderState::Ended);
}

pub(crate) async fn campaign_outlives_an_outage(world: World) {
    let world = world.proxied();
    let client = world.client_with(|builder| builder.unreachable_after(ms(300)).command_timeout(secs(1))).await;
    let name = world.name("leader");
    world.set_down(true);
    let (handle, task) = campaign(&client, &name);
    until("the campaign fails", || matches!(handle.state(), LeaderState::Failing { .. })).await;
    assert!(!handle.is_leader());
    world.set_down(false);
    leads(&handle).await;
    handle.resign().await;
    assert!(task.await.expect("a task").is_ok());
    world.gone(&name).await;
}

/// Five candidates on a clock that costs no time. The leader ends, resigns, or loses the lock, and the server goes away for a while.
pub(crate) fn five_candidates_have_one_leader_and_soon_a_next_one() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    for round_trip in [ms(0), ms(5), ms(100)] {
        runtime.as_ref().expect("a runtime").block_on(async {
            let (zero, lease) = (tokio::time::Instant::now(), secs(6));
            let server = EmbeddedServer::with_clock(ServerClock::tokio(zero));
            server.set_round_trip(round_trip);
            let last = Arc::new(AtomicUsize::new(0));
            let begin = || {
                let client = Client::builder().tokio_clock(zero).lease(lease).embedded(&server).expect("a client");
                let leader = client.leader("scheduler");
                let (handle, last) = (leader.handle(), last.clone());
                let work = async move |term: &Term| {
                    let token = usize::try_from(term.fencing_token().as_u64()).expect("a token");
                    assert!(last.swap(token, Ordering::SeqCst) < token, "tokens grow");
                    std::future::pending::<()>().await;
                };
                (client, handle, tokio::spawn(async move { leader.grace(ms(1)).run(work).await }))
            };
            let mut candidates: Vec<_> = (0..5).map(|_| begin()).collect();
            let mut since = tokio::time::Instant::now();
            let mut terms = 0;
            while terms < 200 {
                tokio::time::sleep(ms(10)).await;
                let leading: Vec<usize> = (0..5).filter(|at| candidates[*at].1.is_leader()).collect();
                assert!(leading.len() <= 1, "two lead at once");
                let Some(leading) = leading.first() else {
                    assert!(since.elapsed() <= lease + secs(1), "no leader after {:?}", since.elapsed());
                    continue;
                };
                terms += 1;
                tokio::time::sleep(ms(37 * terms)).await;
                let (client, handle, task) = &candidates[*leading];
                match terms % 4 {
                    0 => task.abort(),
                    1 => handle.resign().await,
                    2 => {
                        client.fenced_lock("scheduler").force_release().await.expect("an answer");
                    }
                    _ => {
                        server.set_down(true);
                        tokio::time::sleep(lease).await;
                        assert!(candidates.iter().all(|(_, handle, _)| !handle.is_leader()), "without a lease");
                        server.set_down(false);
                    }
                }
                let ended = (0..5).filter(|at| candidates[*at].2.is_finished() || terms % 4 == 0 && at == leading);
                for at in ended.collect::<Vec<_>>() {
                    candidates[at] = begin();
                }
                since = tokio::time::Instant::now();
            }
        });
    }
}

pub(crate) async fn candidate_whose_work_has_ended_leads_no_more_while_it_releases(world: World) {
    let world = world.proxied();
    let client = world.client_with(|builder| builder.lease(secs(3_600)).unreachable_after(secs(3_600))).await;
    let leader = client.leader(world.name("leader"));
    let handle = leader.handle();
    let (ends, end) = oneshot::channel();
    let mut end = Some(end);
    let task = tokio::spawn(leader.run(async move |_| end.take().expect("one term").await));
    leads(&handle).await;
    world.set_down(true);
    ends.send(()).expect("the work waits");
    // The lock stays on the server until that is back.
    until("the work has ended", || !handle.is_leader()).await;
    assert!(!task.is_finished(), "the server has not answered");
    world.set_down(false);
    assert_eq!(task.await.expect("a task"), Ok(Some(Ok(()))));
}

pub(crate) async fn candidate_that_lost_the_leadership_follows_the_next_leader(world: World) {
    // A wait without a failure is one behind another leader, after so long: this test does not wait for that.
    let client = world.client_with(|builder| builder.lease(secs(3)).unreachable_after(secs(3_600))).await;
    let (other, name) = (world.client().await, world.name("leader"));
    let (handle, task) = campaign(&client, &name);
    leads(&handle).await;
    other.fenced_lock(&name).force_release().await.expect("an answer").expect("a leader");
    let next = other.fenced_lock(&name).acquire().wait(secs(60)).await.expect("the lock");
    let mut state = handle.watch();
    let follows = state.wait_for(|state| *state == LeaderState::Following);
    drop(tokio::time::timeout(secs(60), follows).await.expect("it follows").expect("a candidate"));
    assert!(!handle.is_leader());
    next.release().await.expect("a release");
    leads(&handle).await;
    handle.resign().await;
    assert!(task.await.expect("a task").is_ok());
    world.gone(&name).await;
}

pub(crate) async fn work_that_panics_ends_the_term_and_another_candidate_leads(world: World) {
    let (client, other) = (world.client().await, world.client().await);
    let name = world.name("leader");
    let leader = client.leader(&name);
    let handle = leader.handle();
    let (panics, panic) = oneshot::channel::<()>();
    let mut panic = Some(panic);
    let task = tokio::spawn(leader.run(async move |_| {
        let _ = panic.take().expect("one term").await;
        panic!("work that panics");
    }));
    leads(&handle).await;
    let (next, next_task) = campaign(&other, &name);
    until("the next candidate listens", || world.subscribers(&name) == 1).await;
    panics.send(()).expect("the work waits");
    let ended: Result<Result<Option<()>, WithError<()>>, _> = task.await;
    assert!(ended.expect_err("a panic").is_panic());
    assert_eq!((handle.is_leader(), handle.state()), (false, LeaderState::Ended));
    // The lease of the first one is longer than this is waited for.
    leads(&next).await;
    next.resign().await;
    assert!(next_task.await.expect("a task").is_ok());
    world.gone(&name).await;
}

pub(crate) async fn work_that_ends_within_its_grace_returns_its_value(world: World) {
    let client = world.client().await;
    let name = world.name("leader");
    let leader = client.leader(&name).grace(secs(60));
    let handle = leader.handle();
    let (ends, end) = oneshot::channel();
    let mut end = Some(end);
    let task = tokio::spawn(leader.run(async move |term| {
        term.resigned().await;
        let value: u64 = end.take().expect("one term").await.expect("an end");
        (term.is_leading(), value)
    }));
    leads(&handle).await;
    let resigning = tokio::spawn({
        let handle = handle.clone();
        async move { handle.resign().await }
    });
    let other = world.client().await;
    assert!(other.fenced_lock(&name).try_acquire().await.expect("an answer").is_none(), "the work goes on");
    assert!(handle.is_leader() && !resigning.is_finished());
    ends.send(7).expect("the work waits");
    assert_eq!(task.await.expect("a task"), Ok(Some((true, 7))));
    resigning.await.expect("a task");
    world.gone(&name).await;
}

pub(crate) async fn leader_whose_lease_is_over_says_so_without_being_polled(_: World) {
    use futures_util::FutureExt as _;
    let clock = leasehold::embedded::ManualClock::new();
    let server = EmbeddedServer::with_clock(clock.clone());
    let client = Client::builder().manual_clock(&clock).lease(secs(3)).embedded(&server).expect("a client");
    let leader = client.leader("scheduler");
    let handle = leader.handle();
    let mut run = Box::pin(leader.run(async |_| std::future::pending::<()>().await));
    assert!((&mut run).now_or_never().is_none());
    assert!(handle.is_leader());
    server.set_down(true);
    clock.advance(secs(4));
    assert!(!handle.is_leader(), "its lease is over by the clock");
    assert!(matches!(handle.state(), LeaderState::Leading { .. }), "its future has not seen that yet");
    assert!((&mut run).now_or_never().is_none());
    assert!(!matches!(handle.state(), LeaderState::Leading { .. }), "{:?}", handle.state());
}

pub(crate) async fn the_leader_among_all_candidates_can_be_watched(world: World) {
    let name = world.name("watched");
    let (client, observer) = (world.client().await, world.client().await);
    let mut leaders = observer.leader(&name).handle().watch_leader(ms(20));
    assert_eq!(leaders.next().await, Some(Ok(None)));
    let (handle, task) = campaign(&client, &name);
    let id = leaders.next().await.expect("a change").expect("an answer").expect("a leader");
    assert!(id.is_of(&client.id()));
    handle.resign().await;
    assert_eq!(leaders.next().await, Some(Ok(None)));
    task.await.expect("a task").expect("a term");
    observer.shutdown(secs(1)).await.expect("nothing is held");
    assert_eq!(leaders.next().await, None, "a shutdown ends the watch");
}
