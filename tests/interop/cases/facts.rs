//! The writes and replies of Redisson itself, without any part of ours: the layout that leasehold shares with it. A release of Redisson
//! that changes one of these is noticed here.

use crate::place::PlaceName;
use crate::suite::Cases;
use crate::world::{Ear, LEASE, World, pass};
use leasehold_test_support::Resp;
use std::time::Duration;

/// The fair wait of the agent, in milliseconds.
const FAIR_WAIT: i64 = crate::agent::FAIR_WAIT.as_millis() as i64;

const MOMENT: Duration = Duration::from_secs(10);

/// The deadline of a permit without a lease.
const NO_EXPIRY: &str = "922337203685477";

pub(super) fn add(cases: &mut Cases) {
    for place in PlaceName::ALL {
        cases.add(place, "facts: a lock is a hash of hold counts, and each acquire sets the lease", lock);
        cases.add(place, "facts: a hold that vanished is not renewed, in silence", vanished);
        cases.add(place, "facts: a spin lock is a lock whose release says nothing", spin);
        cases.add(place, "facts: a fenced lock counts every acquire, re-entries too", fenced);
        cases.add(place, "facts: a fair lock has a list of owners and a set of their deadlines", fair);
        cases.add(place, "facts: a fair lock that is absent is unlocked by anybody", fair_absent);
        cases.add(place, "facts: a read lock has a key for each hold", read);
        cases.add(place, "facts: a renewal of a reader cuts the lease of the hash", read_renewal);
        cases.add(place, "facts: the leases of a write lock add up", write);
        cases.add(place, "facts: a downgrade says nothing", downgrade);
        cases.add(place, "facts: a semaphore is a number, and says what it has come to", semaphore);
        cases.add(place, "facts: permits are 16 raw bytes with a deadline", permits);
        cases.add(place, "facts: a latch is a number, and its channel has braces of its own", latch);
        cases.add(place, "facts: a multi lock is a hold of each member", multi);
    }
}

async fn lock(world: World) {
    let (a, key) = (world.actor("a"), &world.name);
    let object = format!("lock:{key}");
    let mut ear = Ear::open(&world, &format!("redisson_lock__channel:{{{key}}}"));
    a.tell("lock", &[&object, "40000"]).await;
    assert_eq!(world.fields(key), [(world.holder_id(&a).await, "1".to_owned())]);
    near(world.left(key), Duration::from_secs(40));
    a.tell("lock", &[&object, "20000"]).await;
    near(world.left(key), Duration::from_secs(20));
    assert_eq!(world.fields(key)[0].1, "2");
    a.tell("unlock", &[&object]).await;
    near(world.left(key), Duration::from_secs(20));
    assert_eq!(ear.heard(&world), [""; 0], "the lock is still held");
    a.tell("unlock", &[&object]).await;
    assert_eq!(ear.heard(&world), ["0"]);
    assert!(!a.yes("forceUnlock", &[&object]).await);
    assert_eq!(ear.heard(&world), [""; 0], "nobody held it");
    a.tell("lock", &[&object]).await;
    near(world.left(key), LEASE);
    assert!(a.yes("forceUnlock", &[&object]).await);
    assert_eq!(ear.heard(&world), ["0"]);
}

async fn vanished(world: World) {
    let (a, key) = (world.actor("a"), &world.name);
    let object = format!("lock:{key}");
    a.tell("lock", &[&object]).await;
    world.command(&["DEL", key]);
    pass(LEASE / 2).await;
    assert!(world.fields(key).is_empty());
    assert!(!a.yes("isHeld", &[&object]).await);
    a.refuses("IllegalMonitorStateException", "unlock", &[&object]).await;
}

async fn spin(world: World) {
    let (a, key) = (world.actor("a"), &world.name);
    let object = format!("spin:{key}");
    let mut ear = Ear::open(&world, &format!("redisson_lock__channel:{{{key}}}"));
    a.tell("lock", &[&object]).await;
    assert_eq!(world.fields(key), [(world.holder_id(&a).await, "1".to_owned())]);
    a.tell("unlock", &[&object]).await;
    a.tell("lock", &[&object]).await;
    assert!(a.yes("forceUnlock", &[&object]).await);
    assert_eq!(ear.heard(&world), [""; 0]);
}

async fn fenced(world: World) {
    let (a, key) = (world.actor("a"), &world.name);
    let object = format!("fenced:{key}");
    let token = format!("redisson_lock_token:{{{key}}}");
    let mut ear = Ear::open(&world, &format!("redisson_lock__channel:{{{key}}}"));
    assert_eq!(a.ask("lockAndGetToken", &[&object]).await, "1");
    assert_eq!(a.ask("lockAndGetToken", &[&object]).await, "2", "of a re-entry");
    a.tell("lock", &[&object]).await;
    assert_eq!(a.ask("getToken", &[&object]).await, "3", "of an acquire that does not ask");
    for _ in 0..3 {
        a.tell("unlock", &[&object]).await;
    }
    assert_eq!(ear.heard(&world), ["0"]);
    assert_eq!(world.command(&["GET", &token]).as_str(), Some("3"));
    assert_eq!(world.command(&["PTTL", &token]).as_int(), Some(-1));
}

async fn fair(world: World) {
    let (a, b, c, key) = (world.actor("a"), world.actor("b"), world.actor("c"), &world.name);
    let object = format!("fair:{key}");
    let (queue, deadlines) = (format!("redisson_lock_queue:{{{key}}}"), format!("redisson_lock_timeout:{{{key}}}"));
    let [b_id, c_id] = [world.holder_id(&b).await, world.holder_id(&c).await];
    let channel = format!("redisson_lock__channel:{{{key}}}");
    a.tell("lock", &[&object, "30000"]).await;
    assert_eq!(world.fields(key), [(world.holder_id(&a).await, "1".to_owned())]);
    let first = b.begin("lock", &[&object]).await;
    world.until_listening(&format!("{channel}:{b_id}"), 1).await;
    let second = c.begin("lock", &[&object]).await;
    world.until_listening(&format!("{channel}:{c_id}"), 1).await;
    assert_eq!(texts(&world.command(&["LRANGE", &queue, "0", "-1"])), [&*b_id, &c_id]);
    let deadline = |of: &str| -> i64 {
        let score = world.command(&["ZSCORE", &deadlines, of]);
        score.as_str().and_then(|score| score.parse().ok()).expect("a deadline")
    };
    let [b_at, c_at] = [deadline(&b_id), deadline(&c_id)];
    let now = i64::try_from(crate::world::clock() / 1000).expect("a time");
    let left = i64::try_from(world.left(key).as_millis()).expect("a time");
    assert!((b_at - now - left - FAIR_WAIT).abs() < 4000, "the holder's lease and the fair wait");
    assert!((c_at - b_at - FAIR_WAIT).abs() < 100, "one more fair wait");
    let mut ears = [&b_id, &c_id].map(|id| Ear::open(&world, &format!("{channel}:{id}")));
    a.tell("unlock", &[&object]).await;
    first.await.expect("an answer").expect("no exception");
    assert_eq!(ears.each_mut().map(|ear| ear.heard(&world).concat()), ["0", ""], "only the head is woken");
    assert_eq!(texts(&world.command(&["LRANGE", &queue, "0", "-1"])), [&*c_id]);
    assert!((deadline(&c_id) - (c_at - FAIR_WAIT)).abs() < 100, "a grant takes one fair wait from the others");
    b.tell("unlock", &[&object]).await;
    second.await.expect("an answer").expect("no exception");
    c.tell("unlock", &[&object]).await;
    for key in [key, &queue, &deadlines] {
        assert_eq!(world.command(&["EXISTS", key]).as_int(), Some(0), "{key}");
    }
}

async fn fair_absent(world: World) {
    let (a, object) = (world.actor("a"), format!("fair:{}", world.name));
    a.tell("unlock", &[&object]).await;
    a.tell("lock", &[&object]).await;
    world.actor("b").refuses("IllegalMonitorStateException", "unlock", &[&object]).await;
    a.tell("unlock", &[&object]).await;
}

async fn read(world: World) {
    let (a, b, key) = (world.actor("a"), world.actor("b"), &world.name);
    let object = format!("read:{key}");
    let mut ear = Ear::open(&world, &format!("redisson_rwlock:{{{key}}}"));
    let [a_id, b_id] = [world.holder_id(&a).await, world.holder_id(&b).await];
    let hold = |id: &str, at: u32| format!("{{{key}}}:{id}:rwlock_timeout:{at}");
    a.tell("lock", &[&object, "20000"]).await;
    a.tell("lock", &[&object, "60000"]).await;
    b.tell("lock", &[&object, "40000"]).await;
    let mut expected = vec![(a_id.clone(), "2".to_owned()), (b_id.clone(), "1".to_owned())];
    expected.push(("mode".to_owned(), "read".to_owned()));
    expected.sort();
    assert_eq!(world.fields(key), expected);
    near(world.left(key), Duration::from_secs(60));
    for (hold, seconds) in [(hold(&a_id, 1), 20), (hold(&a_id, 2), 60), (hold(&b_id, 1), 40)] {
        assert_eq!(world.command(&["GET", &hold]).as_str(), Some("1"));
        near(world.left(&hold), Duration::from_secs(seconds));
    }
    a.tell("unlock", &[&object]).await;
    near(world.left(key), Duration::from_secs(40));
    assert_eq!(world.command(&["EXISTS", &hold(&a_id, 2)]).as_int(), Some(0), "the last hold goes first");
    assert!(!b.yes("tryLock", &[&format!("write:{key}")]).await, "there is no upgrade");
    b.tell("unlock", &[&object]).await;
    assert_eq!(ear.heard(&world), [""; 0], "one still reads");
    a.tell("unlock", &[&object]).await;
    assert_eq!(ear.heard(&world), ["0"]);
}

async fn read_renewal(world: World) {
    let (a, b, key) = (world.actor("a"), world.actor("b"), &world.name);
    let object = format!("read:{key}");
    let hold = format!("{{{key}}}:{}:rwlock_timeout:1", world.holder_id(&a).await);
    a.tell("lock", &[&object, "60000"]).await;
    b.tell("lock", &[&object]).await;
    crate::world::until("the renewal has cut the lease", || world.left(key) <= LEASE).await;
    near(world.left(&hold), Duration::from_secs(60));
    b.tell("unlock", &[&object]).await;
    near(world.left(key), Duration::from_secs(60));
    a.tell("unlock", &[&object]).await;
}

async fn write(world: World) {
    let (a, key) = (world.actor("a"), &world.name);
    let object = format!("write:{key}");
    let mut ear = Ear::open(&world, &format!("redisson_rwlock:{{{key}}}"));
    let field = format!("{}:write", world.holder_id(&a).await);
    a.tell("lock", &[&object, "20000"]).await;
    a.tell("lock", &[&object, "20000"]).await;
    assert_eq!(world.fields(key), [(field, "2".to_owned()), ("mode".to_owned(), "write".to_owned())]);
    near(world.left(key), Duration::from_secs(40));
    assert!(!world.actor("b").yes("tryLock", &[&format!("read:{key}")]).await);
    a.tell("unlock", &[&object]).await;
    assert_eq!(ear.heard(&world), [""; 0]);
    a.tell("unlock", &[&object]).await;
    assert_eq!(ear.heard(&world), ["1"]);
}

async fn downgrade(world: World) {
    let (a, key) = (world.actor("a"), &world.name);
    let [read, write] = [format!("read:{key}"), format!("write:{key}")];
    let mut ear = Ear::open(&world, &format!("redisson_rwlock:{{{key}}}"));
    a.tell("lock", &[&write]).await;
    a.tell("lock", &[&read]).await;
    a.tell("unlock", &[&write]).await;
    assert_eq!(ear.heard(&world), [""; 0]);
    let id = world.holder_id(&a).await;
    assert_eq!(world.fields(key), [(id, "1".to_owned()), ("mode".to_owned(), "read".to_owned())]);
    assert!(world.actor("b").yes("tryLock", &[&read]).await);
    for reader in [a, world.actor("b")] {
        reader.tell("unlock", &[&read]).await;
    }
}

async fn semaphore(world: World) {
    let (a, key) = (world.actor("a"), &world.name);
    let object = format!("semaphore:{key}");
    let mut ear = Ear::open(&world, &format!("redisson_sc:{{{key}}}"));
    let value = || world.command(&["GET", key]).as_str().map(str::to_owned);
    assert!(!a.yes("tryAcquire", &[&object, "1"]).await, "there are none yet");
    assert!(a.yes("trySetPermits", &[&object, "5", "20000"]).await);
    assert!(!a.yes("trySetPermits", &[&object, "6"]).await);
    a.tell("acquire", &[&object, "3"]).await;
    assert_eq!(value().as_deref(), Some("2"));
    a.tell("release", &[&object, "2"]).await;
    near(world.left(key), Duration::from_secs(20));
    a.tell("addPermits", &[&object, "-1"]).await;
    assert_eq!(world.command(&["PTTL", key]).as_int(), Some(-1), "the time to live is gone");
    assert_eq!(ear.heard(&world), ["5", "4", "3"], "set, released, added to");
    assert_eq!(a.ask("drain", &[&object]).await, "3");
    assert_eq!(value().as_deref(), Some("0"));
    assert!(a.yes("delete", &[&object]).await);
    assert!(!a.yes("releaseIfExists", &[&object, "1"]).await);
    assert_eq!(ear.heard(&world), [""; 0]);
}

async fn permits(world: World) {
    let (a, key) = (world.actor("a"), &world.name);
    let object = format!("permit:{key}");
    let deadlines = format!("{{{key}}}:timeout");
    let mut ear = Ear::open(&world, &format!("redisson_sc:{{{key}}}"));
    assert!(a.yes("trySetPermits", &[&object, "3"]).await);
    let id = a.ask("acquire", &[&object]).await;
    let leased = a.ask("acquire", &[&object, "600"]).await;
    assert_eq!(world.command(&["GET", key]).as_str(), Some("1"));
    let members = world.command(&["ZRANGE", &deadlines, "0", "-1", "WITHSCORES"]);
    let members = members.elements();
    assert_eq!(members.len(), 4);
    assert_eq!([hex(&members[0]), hex(&members[2])], [leased.clone(), id.clone()]);
    assert_eq!(members[3].as_str(), Some(NO_EXPIRY));
    assert_eq!(a.ask("lease", &[&object, &id]).await, "-1");
    a.tell("release", &[&object, &id]).await;
    a.refuses("IllegalArgumentException", "release", &[&object, &id]).await;
    pass(Duration::from_millis(700)).await;
    assert!(!a.yes("tryRelease", &[&object, &leased]).await, "it has expired");
    assert_eq!(a.ask("available", &[&object]).await, "3", "and is there again");
    assert_eq!(ear.heard(&world), ["3", "2", "3"], "set, released, expired");
}

async fn latch(world: World) {
    let (a, b, key) = (world.actor("a"), world.actor("b"), &world.name);
    let object = format!("latch:{key}");
    let mut ear = Ear::open(&world, &format!("redisson_countdownlatch__channel__{{{key}}}"));
    assert!(a.yes("trySetCount", &[&object, "2"]).await);
    assert!(!a.yes("trySetCount", &[&object, "3"]).await);
    a.tell("countDown", &[&object]).await;
    assert_eq!(world.command(&["GET", key]).as_str(), Some("1"));
    assert_eq!(ear.heard(&world), ["1"]);
    let waiting = b.begin("await", &[&object]).await;
    a.tell("countDown", &[&object]).await;
    assert_eq!(waiting.await.expect("an answer").expect("no exception").value, "true");
    assert_eq!(world.command(&["EXISTS", key]).as_int(), Some(0));
    a.tell("countDown", &[&object]).await;
    assert_eq!(ear.heard(&world), ["0"], "counting down below zero says nothing");
    // The braces of the channel are put around those of the name, which a cluster takes for another tag.
    let (name, object) = (format!("{{{key}}}:x"), format!("latch:{{{key}}}:x"));
    if world.shared.name == PlaceName::Cluster {
        a.refuses("RedisException", "trySetCount", &[&object, "1"]).await;
    } else {
        let mut ear = Ear::open(&world, &format!("redisson_countdownlatch__channel__{{{name}}}"));
        assert!(a.yes("trySetCount", &[&object, "1"]).await);
        assert_eq!(ear.heard(&world), ["1"]);
    }
}

async fn multi(world: World) {
    let (a, b, key) = (world.actor("a"), world.actor("b"), &world.name);
    let members = ["1", "2"].map(|part| format!("{{{key}}}{part}"));
    let object = format!("multi:lock:{}|fair:{}", members[0], members[1]);
    let id = world.holder_id(&a).await;
    assert!(a.yes("tryLock", &[&object, "10000", "20000"]).await);
    for member in &members {
        assert_eq!(world.fields(member), [(id.clone(), "1".to_owned())]);
        near(world.left(member), Duration::from_secs(20));
    }
    assert!(!b.yes("tryLock", &[&format!("multi:lock:{{{key}}}3|lock:{}", members[0])]).await);
    assert!(world.fields(&format!("{{{key}}}3")).is_empty(), "all or nothing");
    a.tell("unlock", &[&object]).await;
    assert!(members.iter().all(|member| world.fields(member).is_empty()));
}

/// The rest of a lease that was set a moment ago. The leases of a case lie further apart than a moment on a busy machine.
#[track_caller]
fn near(left: Duration, lease: Duration) {
    assert!(left <= lease && left + MOMENT > lease, "{left:?} of {lease:?}");
}

fn texts(reply: &Resp) -> Vec<String> {
    reply.elements().iter().map(|text| text.as_str().expect("a text").to_owned()).collect()
}

fn hex(bytes: &Resp) -> String {
    let bytes = bytes.as_bytes().expect("bytes");
    assert_eq!(bytes.len(), 16);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
