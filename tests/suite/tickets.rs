//! Holds that move to another process by a ticket.

use crate::support::world::idle;
use crate::support::{Polled, World, ms, secs, until};
use leasehold::kind::{Fair, Fenced, FencedFair, Reentrant};
use leasehold::{Client, Error, Guard, HolderId, InvalidInput, Ticket};
use leasehold_core::script::{TICKET_ADOPT, TICKET_OFFER};
use std::time::{Duration, Instant};

const LIFE: Duration = secs(20);

fn ticket_key(name: &str) -> String {
    format!("leasehold:1:ticket:{{{name}}}")
}

/// Moves the hold of a guard to another client by the text of a ticket, and releases it there.
macro_rules! moves {
    ($world:expr, $web:expr, $worker:expr, $lock:expr, $kind:ty) => {{
        let (web, lock): (&Client, _) = (&$web, $lock);
        let guard = lock.acquire().await.expect("the lock");
        let (name, holder) = (lock.name().to_owned(), guard.holder_id());
        let held = guard.cancellation_token();
        let text = guard.into_ticket(LIFE).await.expect("a ticket").to_string();
        assert!(held.is_cancelled(), "the work of the first process ends");
        assert!($world.lease(&name) <= Some(secs(30)) && $world.exists(&ticket_key(&name)), "the ticket ends");
        idle(web).await;
        assert!(lock.try_acquire().await.expect("an answer").is_none(), "nobody gets in between");
        let ticket: Ticket<$kind> = text.parse().expect("a ticket");
        let guard: Guard<$kind> = $worker.adopt(ticket).await.expect("the hold");
        assert_eq!((guard.hold_count(), guard.is_held()), (1, true));
        assert_ne!(guard.holder_id(), holder, "a hold of the second process");
        assert!(!$world.exists(&ticket_key(&name)), "the secret is gone");
        let again = $worker.adopt(text.parse::<Ticket<$kind>>().expect("a ticket")).await;
        assert_eq!(again.expect_err("a ticket that was adopted"), Error::TicketSpent { lock: name.clone() });
        assert!(guard.is_held() && $world.exists(&name));
        guard
    }};
}

pub(crate) async fn a_ticket_moves_a_hold_once(world: World) {
    let (web, worker) = (world.client().await, world.client().await);
    let lock = web.lock(world.name("order"));
    let guard = moves!(world, web, worker, &lock, Reentrant);
    let inner = guard.reenter().await.expect("a re-entry");
    assert_eq!(world.count(lock.name()), 2);
    inner.release().await.expect("a release");
    guard.release().await.expect("a release");
    let fair = web.fair_lock(world.name("order"));
    let guard = moves!(world, web, worker, &fair, Fair);
    guard.release().await.expect("a release");
    for name in [lock.name(), fair.name()] {
        world.gone(name).await;
    }
    idle(&web).await;
    idle(&worker).await;
}

pub(crate) async fn an_adoption_has_a_greater_fencing_token(world: World) {
    let (web, worker) = (world.client().await, world.client().await);
    let lock = web.fenced_lock(world.name("account"));
    let balance = web.fenced_value(world.name("balance"));
    let guard = lock.acquire().await.expect("the lock");
    let token = guard.fencing_token();
    balance.write(&guard, "100").await.expect("the newest token");
    let ticket = guard.into_ticket(LIFE).await.expect("a ticket");
    let guard = worker.adopt(ticket).await.expect("the hold");
    assert!(guard.fencing_token() > token);
    let there = worker.fenced_value(balance.key());
    there.write(&guard, "90").await.expect("the newest token");
    guard.release().await.expect("a release");
    let fair = web.fair_lock(world.name("account")).fenced();
    let guard = moves!(world, web, worker, &fair, FencedFair);
    guard.release().await.expect("a release");
    let guard = moves!(world, web, worker, &lock, Fenced);
    assert!(guard.fencing_token() > token);
    guard.release().await.expect("a release");
    idle(&web).await;
    idle(&worker).await;
}

/// The ticket is then valid again. If the adoption kept the field of the first process, both adopters would renew one hold.
pub(crate) async fn a_failover_that_lost_an_adoption_leaves_one_believer(world: World) {
    let settings = |builder: leasehold::ClientBuilder| builder.lease(ms(600));
    let (web, worker) = (world.client_with(settings).await, world.client_with(settings).await);
    let lock = web.lock(world.name("order"));
    let ticket = lock.acquire().await.expect("the lock").into_ticket(LIFE).await.expect("a ticket");
    let (name, key) = (lock.name(), ticket_key(lock.name()));
    let secret = world.command(name, &["GET", &key]).as_str().expect("a secret").to_owned();
    let first = worker.adopt(ticket.clone()).await.expect("the hold");
    world.delete(name);
    world.command(name, &["HSET", name, ticket.holder_id().as_str(), "1"]);
    world.command(name, &["PEXPIRE", name, "20000"]);
    world.command(name, &["SET", &key, &secret, "PX", "20000"]);
    let second = web.adopt(ticket).await.expect("the hold");
    until("the first adopter has lost the lock", || !first.is_held()).await;
    assert!(second.is_held() && world.count(name) == 1);
    second.release().await.expect("a release");
    world.gone(name).await;
}

pub(crate) async fn a_waiter_gets_the_lock_after_the_adopter(world: World) {
    let (web, worker) = (world.client().await, world.client().await);
    let lock = web.lock(world.name("order"));
    let guard = lock.acquire().await.expect("the lock");
    let mut waiter = Polled::new(lock.acquire().into_future());
    assert!(waiter.poll().is_pending());
    let ticket = guard.into_ticket(LIFE).await.expect("a ticket");
    let guard = worker.adopt(ticket).await.expect("the hold");
    assert!(waiter.poll().is_pending(), "the hold goes on");
    guard.release().await.expect("a release");
    drop(waiter);
    lock.acquire().wait(secs(10)).await.expect("the lock").release().await.expect("a release");
    world.gone(lock.name()).await;
}

pub(crate) async fn an_adopted_lock_is_renewed_or_ends_with_its_fixed_lease(world: World) {
    let web = world.client_with(|builder| builder.lease(ms(600))).await;
    let worker = world.client_with(|builder| builder.lease(ms(600))).await;
    let lock = web.lock(world.name("order"));
    let ticket = lock.acquire().await.expect("the lock").into_ticket(ms(600)).await.expect("a ticket");
    let guard = worker.adopt(ticket).await.expect("the hold");
    until("three leases have passed", || {
        assert!(guard.is_held(), "lost after {:?}", guard.held_for());
        guard.held_for() > ms(1_800)
    })
    .await;
    let ticket = guard.into_ticket(ms(600)).await.expect("a second ticket");
    let guard = worker.adopt(ticket).lease(ms(700)).await.expect("the hold");
    guard.lost().await;
    world.gone(lock.name()).await;
}

pub(crate) async fn a_ticket_that_nobody_adopts_expires(world: World) {
    let client = world.client_with(|builder| builder.lease(ms(300))).await;
    let lock = client.fenced_lock(world.name("order"));
    let ticket = lock.acquire().await.expect("the lock").into_ticket(ms(300)).await.expect("a ticket");
    let next = lock.acquire().wait(secs(20)).await.expect("the lock, after the life of the ticket");
    let late = client.adopt(ticket).await.expect_err("a late adoption");
    assert_eq!(late, Error::TicketSpent { lock: lock.name().to_owned() });
    assert!(next.is_held() && world.count(lock.name()) == 1);
    next.release().await.expect("a release");
    idle(&client).await;
}

pub(crate) async fn only_a_plain_hold_of_count_one_moves(world: World) {
    let client = world.client().await;
    let lock = client.lock(world.name("order"));
    let outer = lock.acquire().await.expect("the lock");
    let inner = outer.reenter().await.expect("a re-entry");
    let error = inner.into_ticket(LIFE).await.expect_err("a count of 2");
    assert!(
        matches!(&error, Error::NotMovable { lock: name, message } if name == lock.name() && message.contains('2'))
    );
    until("the second guard is released", || world.count(lock.name()) == 1).await;
    assert!(outer.is_held());
    outer.release().await.expect("a release");
    let kept = lock.acquire().keep_busy_for(ms(1)).await.expect("the lock");
    let error = kept.into_ticket(LIFE).await.expect_err("a lock that stays busy");
    assert!(matches!(error, Error::NotMovable { .. }), "{error}");
    let guard = lock.acquire().wait(secs(10)).await.expect("the lock");
    let error = guard.into_ticket(Duration::ZERO).await.expect_err("no life");
    assert!(matches!(error, Error::Invalid(InvalidInput::Duration { .. })), "{error}");
    world.gone(lock.name()).await;
    idle(&client).await;
}

pub(crate) async fn a_lost_hold_gives_no_ticket_and_a_removed_one_no_guard(world: World) {
    let client = world.client().await;
    let lock = client.lock(world.name("order"));
    let guard = lock.acquire().await.expect("the lock");
    world.delete(lock.name());
    let error = guard.into_ticket(LIFE).await.expect_err("a hold that is gone");
    assert!(matches!(error, Error::Lost { .. }), "{error}");
    let ticket = lock.acquire().await.expect("the lock").into_ticket(LIFE).await.expect("a ticket");
    world.delete(lock.name());
    let other = lock.acquire().await.expect("the lock");
    let error = client.adopt(ticket).await.expect_err("another holder");
    assert_eq!(error, Error::TicketSpent { lock: lock.name().to_owned() });
    assert!(other.is_held());
    other.release().await.expect("a release");
    world.delete(&ticket_key(lock.name()));
    idle(&client).await;
}

pub(crate) async fn a_ticket_needs_the_prefix_of_its_client(world: World) {
    let web = world.client_with(|builder| builder.prefix("shop:")).await;
    let worker = world.client_with(|builder| builder.prefix("bank:")).await;
    let ticket = web.lock(world.name("order")).acquire().await.expect("the lock").into_ticket(LIFE).await;
    let ticket = ticket.expect("a ticket");
    let error = worker.adopt(ticket.clone()).await.expect_err("another prefix");
    assert!(matches!(error, Error::Invalid(InvalidInput::ForeignTicket { .. })), "{error}");
    web.adopt(ticket).await.expect("the hold").release().await.expect("a release");
    idle(&web).await;
}

/// Where replies come at once, the ticket or the guard is dropped with the future.
pub(crate) async fn a_dropped_offer_and_a_dropped_adoption_release_the_lock(world: World) {
    let settings = |builder: leasehold::ClientBuilder| builder.lease(ms(600));
    let (web, worker) = (world.client_with(settings).await, world.client_with(settings).await);
    let lock = web.lock(world.name("order"));
    let guard = lock.acquire().await.expect("the lock");
    let mut offering = Polled::new(guard.into_ticket(ms(600)));
    let _ = offering.poll();
    drop(offering);
    world.gone(lock.name()).await;
    world.delete(&ticket_key(lock.name()));
    let ticket = lock.acquire().await.expect("the lock").into_ticket(ms(600)).await.expect("a ticket");
    let mut adopting = Polled::new(worker.adopt(ticket).into_future());
    let _ = adopting.poll();
    drop(adopting);
    world.gone(lock.name()).await;
    idle(&web).await;
    idle(&worker).await;
}

/// Without a reply to the offer nobody has a ticket, and without a reply to the adoption nobody has a guard. The background releases the lock.
pub(crate) async fn a_lost_reply_leaves_no_holder_and_no_ticket(world: World) {
    let world = world.proxied();
    world.warm();
    let settings = |builder: leasehold::ClientBuilder| builder.command_timeout(secs(1)).lease(secs(2));
    let (web, worker) = (world.client_with(settings).await, world.client_with(settings).await);
    let lock = web.lock(world.name("order"));
    for lose in [World::lose_reply, World::lose_request, World::swallow_reply] {
        let guard = lock.acquire().await.expect("the lock");
        lose(&world, &TICKET_OFFER);
        let error = guard.into_ticket(LIFE).await.expect_err("no reply");
        assert!(matches!(error, Error::OutcomeUnknown { .. } | Error::Unreachable { .. }), "{error}");
        world.gone(lock.name()).await;
        idle(&web).await;
        world.delete(&ticket_key(lock.name()));
        let ticket = lock.acquire().await.expect("the lock").into_ticket(secs(2)).await.expect("a ticket");
        lose(&world, &TICKET_ADOPT);
        let error = worker.adopt(ticket).await.expect_err("no reply");
        assert!(matches!(error, Error::OutcomeUnknown { .. } | Error::Unreachable { .. }), "{error}");
        world.gone(lock.name()).await;
        idle(&worker).await;
    }
}

pub(crate) async fn only_the_record_of_the_adopter_lists_the_hold(world: World) {
    let web = world.client_with(|builder| builder.announce("web")).await;
    let worker = world.client_with(|builder| builder.announce("worker")).await;
    let operator = world.client().await;
    let guard = web.lock(world.name("order")).acquire().await.expect("the lock");
    listed_by(&operator, &guard.holder_id(), &web).await;
    let ticket = guard.into_ticket(LIFE).await.expect("a ticket");
    let guard = worker.adopt(ticket).await.expect("the hold");
    listed_by(&operator, &guard.holder_id(), &worker).await;
    guard.release().await.expect("a release");
    for client in [&web, &worker] {
        idle(client).await;
    }
}

/// Waits until this client's record alone lists the hold.
async fn listed_by(operator: &Client, id: &HolderId, client: &Client) {
    let end = Instant::now() + secs(20);
    loop {
        let (mut clients, mut listing) = (operator.announced_clients(), Vec::new());
        while let Some(found) = clients.next().await {
            let found = found.expect("an answer");
            if found.locks.iter().any(|lock| lock.holder.as_ref() == Some(id)) {
                listing.push(found.id);
            }
        }
        if listing == [client.id()] {
            return;
        }
        assert!(Instant::now() < end, "{listing:?}");
        tokio::time::sleep(ms(20)).await;
    }
}
