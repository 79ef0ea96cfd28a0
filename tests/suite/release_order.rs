//! The messages on the wire, and their times: order and settling, seen by a proxy.

use crate::support::{Polled, World, ms, secs, until};
use leasehold_core::script::{ACQUIRE, RELEASE};
use std::time::Duration;

/// Every reply takes a while. A client that did not wait for it would send the next change of the count too soon.
pub(crate) async fn changes_of_a_count_are_sent_one_at_a_time(world: World) {
    const DELAY: Duration = ms(30);
    let world = world.proxied();
    world.warm();
    let client = world.client().await;
    let lock = client.lock(world.name("one-at-a-time"));
    let owner = client.new_owner();
    let proxy = world.proxy.as_ref().expect("a proxy");
    let outer = lock.acquire().owner(&owner).await.expect("the lock");
    let other = outer.reenter().await.expect("a re-entry");
    proxy.delay(leasehold_test_support::Way::ToClient, DELAY);
    let from = proxy.requests().last().map_or(0, |request| request.number);
    let (one, two, released, _) = tokio::join!(
        lock.acquire().owner(&owner).into_future(),
        outer.reenter(),
        other.release(),
        tokio::time::timeout(ms(10), outer.reenter()),
    );
    released.expect("a release");
    drop(one.expect("a re-entry"));
    two.expect("a re-entry").release().await.expect("a release");
    until("the dropped guard is released", || world.count(lock.name()) == 1).await;
    outer.release().await.expect("a release");
    world.gone(lock.name()).await;
    let scripts = [ACQUIRE.sha1(), RELEASE.sha1()];
    let changes: Vec<_> = proxy
        .requests_with(lock.name())
        .into_iter()
        .filter(|request| request.number > from && scripts.iter().any(|sha| request.contains(sha)))
        .collect();
    assert!(changes.len() >= 6, "{changes:?}");
    for pair in changes.windows(2) {
        let gap = pair[1].at - pair[0].at;
        assert!(gap >= DELAY - ms(1), "the reply to {:?} was not awaited: {gap:?} before {:?}", pair[0], pair[1]);
    }
}

/// An acquire that is stuck on its way while its caller has gone: nothing of it may come to anything.
pub(crate) async fn a_release_is_not_sent_while_its_acquire_is_unsettled(world: World) {
    let world = world.proxied();
    world.warm();
    let client = world.client_with(|builder| builder.command_timeout(ms(200))).await;
    let lock = client.lock(world.name("stuck"));
    let proxy = world.proxy.as_ref().expect("a proxy");
    let stuck = proxy.hold_request(ACQUIRE.sha1());
    let mut gone = Polled::new(lock.acquire().into_future());
    until("the request is stuck", || {
        assert!(gone.poll().is_pending(), "its command is under way");
        stuck.worked()
    })
    .await;
    drop(gone);
    until("the acquire was settled by the death of its connection", || {
        !proxy.requests_with("KILL").iter().all(|request| request.reply.is_none())
    })
    .await;
    let releases = proxy.requests_with(RELEASE.sha1());
    let killed = proxy.requests_with("KILL").into_iter().find(|request| request.reply.is_some()).expect("a kill");
    assert!(releases.iter().all(|release| release.at >= killed.at), "a release before the acquire was settled");
    let delivered = proxy.deliver_held();
    assert!(delivered.iter().all(Option::is_none), "the stuck acquire came to nothing: {delivered:?}");
    world.gone(lock.name()).await;
    lock.acquire().wait(secs(10)).await.expect("the lock").release().await.expect("a release");
    world.gone(lock.name()).await;
}
