//! The search for locks by a pattern, and the look at a name of any kind.

use crate::support::world::idle;
use crate::support::{NEVER, Polled, World, ms, secs, until};
use futures_util::{StreamExt as _, TryStreamExt as _};
use leasehold::blocking::wait;
use leasehold::embedded::{EmbeddedServer, ManualClock};
use leasehold::inspect::{FoundKind, LockProblem, LockState, Locks};
use leasehold::{Client, Error};
use std::collections::{BTreeSet, HashMap};
use std::task::Poll;
use std::time::Duration;

/// Everything that a search finds, in the order of the names.
async fn all(mut locks: Locks) -> Vec<LockState> {
    let mut found = Vec::new();
    while let Some(lock) = locks.next().await {
        found.push(lock.expect("an answer"));
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

fn names(found: &[LockState]) -> Vec<&str> {
    found.iter().map(|lock| lock.name.as_str()).collect()
}

pub(crate) async fn every_kind_that_is_held_is_found_once(world: World) {
    let (client, operator) = (world.client().await, world.client().await);
    let prefix = world.name("all:");
    let name = |kind: &str| format!("{prefix}{kind}");
    let lock = client.lock(name("lock")).acquire().await.expect("the lock");
    let fair = client.fair_lock(name("fair")).acquire().await.expect("the lock");
    let fenced = client.fenced_lock(name("fenced")).acquire().await.expect("the lock");
    let both = client.fair_lock(name("both")).fenced().acquire().await.expect("the lock");
    let reader = client.read_write_lock(name("rw")).read().acquire().await.expect("the read half");
    let simple = client.simple_lock(name("simple"), secs(60)).acquire().await.expect("the lock");
    let seats = client.semaphore(name("seats"));
    assert!(seats.try_set_permits(3).await.expect("an answer"));
    let permit = seats.acquire().await.expect("a permit");
    let bare = client.bare_semaphore(name("bare"));
    assert!(bare.try_set_permits(3).await.expect("an answer"));
    let latch = client.count_down_latch(name("latch"));
    assert!(latch.try_set_count(2).await.expect("an answer"));
    // What was free again is not there.
    client.fenced_lock(name("free")).acquire().await.expect("the lock").release().await.expect("a release");
    let waiting = tokio::spawn({
        let fair = operator.fair_lock(name("fair"));
        async move { fair.acquire().await }
    });
    until("it has a place", || operator.stats().requests == 1).await;
    // The pattern fits the names of queues, registers and deadlines as well.
    let mut found = all(operator.locks(format!("*{prefix}*"))).await;
    for _ in 0..1_000 {
        if found.iter().any(|lock| lock.kind == FoundKind::FairLock && lock.waiters == Some(1)) {
            break;
        }
        found = all(operator.locks(format!("*{prefix}*"))).await;
    }
    let kinds: Vec<_> = found.iter().map(|lock| (lock.name.clone(), lock.kind, lock.held)).collect();
    let expected = [
        ("bare", FoundKind::Counter, 0),
        ("both", FoundKind::FencedFairLock, 1),
        ("fair", FoundKind::FairLock, 1),
        ("fenced", FoundKind::FencedLock, 1),
        ("latch", FoundKind::Counter, 0),
        ("lock", FoundKind::Lock, 1),
        ("rw", FoundKind::ReadWriteLock, 1),
        ("seats", FoundKind::Semaphore, 1),
        ("simple", FoundKind::SimpleLock, 1),
    ];
    assert_eq!(kinds, expected.map(|(kind, found, held)| (name(kind), found, held)));
    let of = |kind: &str| found.iter().find(|lock| lock.name == name(kind)).expect("it is found");
    assert_eq!(of("lock").holders[0].id, lock.holder_id());
    assert_eq!(of("rw").readers[0].id, reader.holder_id());
    assert_eq!(of("simple").holders[0].id, simple.holder_id());
    assert_eq!(of("fenced").fencing_token, Some(fenced.fencing_token().as_u64()));
    assert_eq!((of("seats").available, of("bare").available), (Some(2), Some(3)));
    assert_eq!(of("seats").holders[0].id, permit.ids()[0].to_string());
    let queue = &of("fair").queue;
    assert!(queue.len() == 1 && queue[0].is_alive && queue[0].id.is_of(&operator.id()), "{queue:?}");
    assert!(found.iter().all(|lock| lock.problems.is_empty()), "{found:?}");
    fair.release().await.expect("a release");
    waiting.await.expect("a task").expect("the lock").release().await.expect("a release");
    lock.release().await.expect("a release");
    fenced.release().await.expect("a release");
    both.release().await.expect("a release");
    reader.release().await.expect("a release");
    simple.release().await.expect("a release");
    permit.release().await.expect("a release");
    idle(&client).await;
}

pub(crate) async fn a_name_of_any_kind_tells_its_holds_and_what_is_wrong(world: World) {
    let (client, operator) = (world.client().await, world.client().await);
    let name = world.name("stock");
    assert_eq!(operator.inspect(&name).await.expect("an answer"), None);
    assert!(matches!(operator.inspect("").await, Err(Error::Invalid(_))));
    let guard = client.lock(&name).acquire().await.expect("the lock");
    let again = guard.reenter().await.expect("a re-entry");
    let seen = operator.inspect(&name).await.expect("an answer").expect("a lock");
    assert_eq!((seen.kind, seen.held, seen.waiters), (FoundKind::Lock, 1, Some(0)));
    assert_eq!((seen.holders[0].id.clone(), seen.holders[0].hold_count), (guard.holder_id(), 2));
    assert!(seen.remaining.is_some_and(|left| left > Duration::ZERO && left <= secs(30)), "{seen:?}");
    // One that waits listens.
    let waiting = tokio::spawn({
        let lock = operator.lock(&name);
        async move { lock.acquire().await }
    });
    until("it listens", || world.subscribers(&name) == 1).await;
    assert_eq!(operator.inspect(&name).await.expect("an answer").expect("a lock").waiters, Some(1));
    // The lease is gone, and an entry stands there that no lock writes.
    world.command(&name, &["PERSIST", &name]);
    world.command(&name, &["HSET", &name, "garbage", "none"]);
    let seen = operator.inspect(&name).await.expect("an answer").expect("a lock");
    assert_eq!((seen.held, seen.remaining), (2, None));
    let odd = LockProblem::UnreadableEntry { field: "garbage".to_owned() };
    for problem in [LockProblem::NoTimeToLive, LockProblem::SeveralHolders, odd] {
        assert!(seen.problems.contains(&problem), "{:?}", seen.problems);
    }
    world.command(&name, &["HDEL", &name, "garbage"]);
    again.release().await.expect("a release");
    guard.release().await.expect("a release");
    waiting.await.expect("a task").expect("the lock").release().await.expect("a release");
    let fenced = world.name("fenced");
    let guard = client.fenced_lock(&fenced).acquire().await.expect("the lock");
    let token = guard.fencing_token().as_u64();
    guard.release().await.expect("a release");
    let seen = operator.inspect(&fenced).await.expect("an answer").expect("a register");
    assert_eq!((seen.kind, seen.held, seen.fencing_token), (FoundKind::FencedLock, 0, Some(token)));
    let list = world.name("list");
    world.command(&list, &["RPUSH", &list, "a"]);
    let seen = operator.inspect(&list).await.expect("an answer").expect("a key");
    assert_eq!(
        (seen.kind, seen.problems),
        (FoundKind::Foreign, vec![LockProblem::NotALock { what: "list".to_owned() }])
    );
    world.delete(&list);
    idle(&client).await;
}

pub(crate) async fn names_are_found_by_pattern_and_prefix_as_they_are(world: World) {
    let prefix = world.name("p[1]*?\\:");
    let client = world.client_with(|builder| builder.prefix(&prefix)).await;
    let other = world.client_with(|builder| builder.prefix(format!("{prefix}other:"))).await;
    let given = ["a", "a*", "a?b", "{shop}:a", "{shop}:b", "é", "x[y]", "<script>"];
    let mut guards = Vec::new();
    for name in given {
        guards.push(client.lock(name).acquire().await.expect("the lock"));
    }
    let apart = other.lock("a").acquire().await.expect("the lock");
    for (pattern, expected) in [
        ("a", &["a"][..]),
        ("a*", &["a", "a*", "a?b"]),
        (r"a\*", &["a*"]),
        (r"a\?b", &["a?b"]),
        ("{shop}:*", &["{shop}:a", "{shop}:b"]),
        ("{shop}:[^a]", &["{shop}:b"]),
        ("é", &["é"]),
        (r"x\[y\]", &["x[y]"]),
        ("<*>", &["<script>"]),
        ("none", &[]),
    ] {
        assert_eq!(names(&all(client.locks(pattern)).await), expected, "{pattern}");
    }
    assert_eq!(names(&all(other.locks("*")).await), ["a"], "another prefix is not seen");
    // The prefix of this client is a part of that one, and the rest belongs to the name.
    assert!(names(&all(client.locks("*")).await).contains(&"other:a"));
    for guard in guards {
        guard.release().await.expect("a release");
    }
    apart.release().await.expect("a release");
    assert_eq!(all(client.locks("*")).await, []);
}

pub(crate) async fn free_fair_lock_is_found_by_its_queue(world: World) {
    let operator = world.client().await;
    let name = world.name("till");
    for till in [name.clone(), format!("{{{name}}}:x")] {
        let (queue, deadlines) = if till.contains('{') {
            (format!("redisson_lock_queue:{till}"), format!("redisson_lock_timeout:{till}"))
        } else {
            (format!("redisson_lock_queue:{{{till}}}"), format!("redisson_lock_timeout:{{{till}}}"))
        };
        let ghost = "6f0c0000-0000-4000-8000-000000000001:7";
        world.command(&queue, &["RPUSH", &queue, ghost]);
        world.command(&queue, &["ZADD", &deadlines, "1700000000000", ghost]);
        let found = all(operator.locks(format!("*{till}"))).await;
        assert_eq!(names(&found), [till.as_str()]);
        assert_eq!((found[0].kind, found[0].held, found[0].waiters), (FoundKind::FairLock, 0, Some(1)));
        assert_eq!(found[0].problems, [LockProblem::SilentWaiter { id: ghost.into() }]);
        // Once it is held it is found by its own key, and once.
        world.command(&till, &["HSET", &till, ghost, "1"]);
        let found = all(operator.locks(&till)).await;
        assert_eq!(found.iter().map(|lock| (lock.held, lock.waiters)).collect::<Vec<_>>(), [(1, Some(1))]);
        for key in [&till, &queue, &deadlines] {
            world.delete(key);
        }
    }
    assert_eq!(all(operator.locks(&name)).await, []);
}

pub(crate) async fn names_that_are_not_wanted_are_left_out(world: World) {
    let (client, prefix) = (world.client().await, world.name("some:"));
    let [known, new] = ["known", "new"].map(|word| format!("{prefix}{word}"));
    let held = client.fair_lock(&known).acquire().await.expect("the lock");
    let other = client.fair_lock(&new).acquire().await.expect("the lock");
    // The queue of a lock that is held is that of no free lock of the same name in braces.
    let queue = format!("redisson_lock_queue:{{{known}}}");
    world.command(&queue, &["RPUSH", &queue, "6f0c0000-0000-4000-8000-000000000001:7"]);
    let skipped = known.clone();
    let found = all(client.locks(format!("*{prefix}*")).only(move |name| name != skipped)).await;
    assert_eq!(names(&found), [new.as_str()]);
    world.delete(&queue);
    held.release().await.expect("a release");
    other.release().await.expect("a release");
}

pub(crate) async fn what_is_no_lock_is_left_out_or_named(world: World) {
    let (client, prefix) = (world.client().await, world.name("mixed:"));
    let key = |word: &str| format!("{prefix}{word}");
    let guard = client.lock(key("lock")).acquire().await.expect("the lock");
    for (word, command, rest) in [
        ("list", "RPUSH", &["a"][..]),
        ("zset", "ZADD", &["1", "a"]),
        ("text", "SET", &["a value of an application"]),
        ("hash", "HSET", &["name", "Ada"]),
        ("mode", "HSET", &["mode", "dark"]),
    ] {
        let key = key(word);
        world.command(&key, &[&[command, key.as_str()][..], rest].concat());
    }
    let long = format!("{prefix}{}", "x".repeat(1_100));
    world.command(&long, &["SET", &long, "1"]);
    let pattern = format!("{prefix}*");
    assert_eq!(names(&all(client.locks(&pattern)).await), [key("lock")]);
    let found = all(client.locks(&pattern).with_foreign()).await;
    let kinds: Vec<_> = found.iter().map(|lock| (lock.name.as_str(), lock.kind == FoundKind::Foreign)).collect();
    let named = ["hash", "list", "lock", "mode", "text"].map(|word| (key(word), word != "lock"));
    let last = [(long.clone(), true), (key("zset"), true)];
    let expected: Vec<_> = named.iter().chain(&last).map(|(name, is)| (name.as_str(), *is)).collect();
    assert_eq!(kinds, expected);
    let what = |word: &str| found.iter().find(|lock| lock.name == key(word)).map(|lock| lock.problems.clone());
    assert_eq!(what("list"), Some(vec![LockProblem::NotALock { what: "list".to_owned() }]));
    guard.release().await.expect("a release");
    for word in ["list", "zset", "text", "hash", "mode"] {
        world.delete(&key(word));
    }
    world.delete(&long);
}

pub(crate) async fn threads_find_locks_too(world: World) {
    let client = world.client().await;
    let name = world.name("thread");
    let found = tokio::task::spawn_blocking(move || {
        let guard = wait(client.lock(&name).acquire())?;
        let found = wait(all(client.locks(&name)));
        let seen = wait(client.inspect(&name))?.expect("a lock");
        assert_eq!(names(&found), [name.as_str()]);
        assert_eq!((&found[0].holders[0].id, found[0].kind), (&seen.holders[0].id, seen.kind));
        wait(guard.release())?;
        assert_eq!(wait(all(client.locks(&name).with_foreign())).len(), 0);
        Ok::<_, Error>(found.len())
    });
    assert_eq!(found.await.expect("a thread"), Ok(1));
}

/// How many keys of an application stand beside the locks.
const OTHERS: u64 = 20_000;

/// A server carries out the commands of a search one after the other, and serves other clients in between. So the search costs those no more than
/// its largest command, which is counted here: keys for each page, and commands for each look.
pub(crate) async fn search_among_many_keys_is_many_small_commands(world: World) {
    /// How many keys a page has, more or less.
    const PAGE: u64 = 1_024;
    /// How many commands a script calls that looks at a key of the application.
    const LOOK: u64 = 8;
    let world = world.own();
    let client = world.client().await;
    let fill = "for i = 1, tonumber(ARGV[1]) do redis.call('SET', 'other:' .. i, 'value') end";
    let fill_hashes = "for i = 1, 1000 do redis.call('HSET', 'hash:' .. i, 'name', 'value', 'age', i) end";
    assert!(!world.command("x", &["EVAL", fill, "0", &OTHERS.to_string()]).is_error());
    assert!(!world.command("x", &["EVAL", fill_hashes, "0"]).is_error());
    let (mut guards, mut readers) = (Vec::new(), Vec::new());
    for number in 0..50 {
        guards.push(client.lock(format!("stock:{number}")).acquire().lease(NEVER).await.expect("the lock"));
        let book = client.read_write_lock(format!("book:{number}"));
        readers.push(book.read().acquire().lease(NEVER).await.expect("the lock"));
    }
    let keys = u64::try_from(world.command("x", &["DBSIZE"]).as_int().expect("a number")).expect("a number");
    world.command("x", &["CONFIG", "RESETSTAT"]);
    let found = all(client.locks("*")).await;
    assert_eq!(found.len(), guards.len() + readers.len());
    let stats = world.command("x", &["INFO", "commandstats"]);
    let calls = calls(stats.as_str().expect("a text"));
    let pages = calls["scan"];
    // All names are read twice, for locks and for queues.
    let least = 2 * keys / PAGE;
    assert!(pages >= least * 4 / 5, "{pages} pages for {keys} keys are too long");
    assert!(pages <= least * 2, "{pages} pages for {keys} keys are too many");
    let looks = ["type", "pttl", "strlen", "getrange", "hlen", "hexists", "hkeys", "hstrlen"];
    let called: u64 = looks.iter().filter_map(|name| calls.get(name)).sum();
    let others: u64 = calls.values().sum::<u64>() - called;
    assert!(called <= LOOK * keys, "{called} commands look at {keys} keys: {calls:?}");
    assert!(others <= 3 * keys, "{others} other commands: {calls:?}");
}

/// How often each command was called, by the text of `INFO commandstats`.
fn calls(stats: &str) -> HashMap<&str, u64> {
    let lines = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(":calls="));
    lines.filter_map(|(name, rest)| Some((name, rest.split(',').next()?.parse().ok()?))).collect()
}

/// A server carries out in one go what comes by one connection, so a search asks for few looks at once.
pub(crate) async fn search_has_few_looks_under_way_at_once(_: World) {
    let clock = ManualClock::new();
    let server = EmbeddedServer::with_clock(clock.clone());
    let client = Client::builder().manual_clock(&clock).embedded(&server).expect("a client");
    for number in 0..500 {
        let name = format!("stock:{number}");
        server.command(&[b"HSET", name.as_bytes(), b"6f0c0000-0000-4000-8000-000000000001:7", b"1"]).expect("a lock");
    }
    server.set_round_trip(ms(10));
    let recorder = server.record();
    let (mut locks, mut found, mut most) = (client.locks("*"), 0, 0);
    loop {
        let mut next = Polled::new(locks.next());
        let state = loop {
            let before = recorder.calls().len();
            let polled = next.poll();
            most = most.max(recorder.calls().len() - before);
            match polled {
                Poll::Ready(state) => break state,
                Poll::Pending => clock.advance(ms(10)),
            }
        };
        match state {
            Some(state) => found += usize::from(state.is_ok()),
            None => break,
        }
    }
    assert_eq!(found, 500);
    assert!((2..=32).contains(&most), "{most} looks were sent at once");
}

/// A client by a clock that is moved by hand, of a server whose replies take 10 ms, and a lock that it holds.
fn slow() -> (ManualClock, EmbeddedServer, Client) {
    let clock = ManualClock::new();
    let server = EmbeddedServer::with_clock(clock.clone());
    let client = Client::builder().manual_clock(&clock).embedded(&server).expect("a client");
    let held = [&b"HSET"[..], b"stock", b"6f0c0000-0000-4000-8000-000000000001:7", b"1"];
    server.command(&held).expect("a lock");
    server.set_round_trip(ms(10));
    (clock, server, client)
}

pub(crate) async fn a_page_that_was_dropped_is_asked_for_again(_: World) {
    let (clock, _server, client) = slow();
    let mut locks = client.locks("*");
    // The page is dropped while its names are on their way, and while the lock is looked at.
    for steps in [1, 2] {
        let mut next = Polled::new(locks.next());
        for _ in 0..steps {
            assert!(next.poll().is_pending());
            clock.advance(ms(10));
        }
    }
    let mut next = Polled::new(locks.next());
    let found = loop {
        match next.poll() {
            Poll::Ready(found) => break found,
            Poll::Pending => clock.advance(ms(10)),
        }
    };
    assert_eq!(found.expect("a lock").expect("an answer").name, "stock");
}

pub(crate) async fn a_lock_that_goes_before_the_look_is_not_found(_: World) {
    let (clock, server, client) = slow();
    let mut locks = client.locks("*");
    let mut next = Polled::new(locks.next());
    assert!(next.poll().is_pending());
    clock.advance(ms(10));
    assert!(next.poll().is_pending(), "the names are there, and the lock is looked at");
    server.command(&[b"DEL", b"stock"]).expect("an answer");
    let found = loop {
        match next.poll() {
            Poll::Ready(found) => break found,
            Poll::Pending => clock.advance(ms(10)),
        }
    };
    assert!(found.is_none());
}

pub(crate) async fn a_search_ends_with_an_error_of_the_server(_: World) {
    let server = EmbeddedServer::new();
    let client = Client::builder().command_timeout(ms(50)).embedded(&server).expect("a client");
    let mut locks = client.locks("*");
    server.set_down(true);
    let Some(Err(error)) = locks.next().await else { panic!("an error") };
    assert!(matches!(&error, Error::SearchFailed { pattern, refusal: None, .. } if pattern == "*"), "{error:?}");
    assert_eq!((error.lock_name(), error.is_retryable()), (None, true), "it is about no lock");
    assert!(locks.next().await.is_none(), "it is over");
    // That no client was found, and no deadlock, would be taken for an answer.
    let mut clients = client.announced_clients();
    let found = clients.next().await;
    assert!(matches!(found, Some(Err(Error::SearchFailed { refusal: None, .. }))), "{found:?}");
    assert!(clients.next().await.is_none(), "it is over");
    client.deadlocks().await.expect_err("no server answers");
    server.set_down(false);
    assert!(client.locks("*").next().await.is_none());
}

pub(crate) async fn a_search_is_a_stream_that_reads_on_demand(world: World) {
    let (client, operator) = (world.client().await, world.client().await);
    let prefix = world.name("stream:");
    let mut guards = Vec::new();
    for number in 0..5 {
        guards.push(client.lock(format!("{prefix}{number}")).acquire().await.expect("the lock"));
    }
    let pattern = format!("*{prefix}*");
    let found: Vec<LockState> = operator.locks(&pattern).into_stream().try_collect().await.expect("answers");
    let found: BTreeSet<_> = found.into_iter().map(|lock| lock.name).collect();
    assert_eq!(found.len(), 5, "{found:?}");
    let mut first = operator.locks(&pattern).into_stream();
    first.next().await.expect("a lock").expect("an answer");
    drop(first);
    for guard in guards {
        guard.release().await.expect("a release");
    }
    let mut none = operator.locks(&pattern).into_stream();
    assert!(none.next().await.is_none());
    idle(&client).await;
}
