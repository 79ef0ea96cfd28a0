//! No command holds the server up: whatever stands under the names, each single request is small. The server tells what it carries out, and every
//! command that only reads is asked once more for the length of its reply.

use crate::http::Site;
use crate::screen::Screen;
use crate::support::{Start as _, held, leasehold, objects};
use leasehold_test_support::{Monitor, Monitored, Resp, Server, until};
use rustix::process::Signal;
use std::collections::HashSet;
use std::sync::{LazyLock, Mutex};

/// How many entries, or bytes for each 64 of them, one command may read. A page of names has more than a thousand.
const ENTRIES: usize = 1_500;

/// How many commands one script may call.
const CALLS: usize = 2_000;

/// How many entries have those that a program could read as a whole by mistake.
const MANY: &str = "
    local function id(at) return string.format('6f0c0000-0000-4000-8000-%012x:1', at) end
    local now = redis.call('TIME')[1] * 1000
    for at = 1, 1000 do
        redis.call('HSET', 'lock:' .. at, id(at), '1')
        redis.call('PEXPIRE', 'lock:' .. at, 3600000)
    end
    for at = 1, 5000 do redis.call('SET', 'other:' .. at, 'data') end
    redis.call('HSET', 'fair', id(0), '1')
    redis.call('HSET', 'read', 'mode', 'read')
    redis.call('SET', 'permits', '5')
    for at = 1, 10000 do
        redis.call('RPUSH', 'redisson_lock_queue:{fair}', id(at))
        redis.call('ZADD', 'redisson_lock_timeout:{fair}', now + 3600000, id(at))
        redis.call('HSET', 'read', id(at), '1')
        redis.call('ZADD', 'leasehold:1:rw_readers:{read}', now + 3600000, id(at))
        redis.call('ZADD', '{permits}:timeout', now + 3600000, string.format('%016x', at))
    end
    for _, name in ipairs({'fair', 'read'}) do redis.call('PEXPIRE', name, 3600000) end
    redis.call('SET', 'text', string.rep('x', 4000000))
    for at = 1, 300 do
        local fields = {}
        for field = 1, 1000 do fields[2 * field - 1], fields[2 * field] = 'field' .. at .. ':' .. field, 'data' end
        redis.call('HSET', 'hash', unpack(fields))
    end
";

/// Names under which much stands, and of which some are no locks.
const LARGE: [&str; 5] = ["fair", "read", "permits", "text", "hash"];

/// The commands that read more than one entry, and change nothing. Those of one entry are short by themselves.
const READS: [&str; 14] = [
    "GET",
    "HGETALL",
    "HKEYS",
    "HVALS",
    "HMGET",
    "LRANGE",
    "SMEMBERS",
    "ZRANGE",
    "ZRANGEBYSCORE",
    "ZREVRANGE",
    "SCAN",
    "HSCAN",
    "ZSCAN",
    "SSCAN",
];

static FULL: LazyLock<Server> = LazyLock::new(|| {
    let server = Server::builder().arg("lua-time-limit", "60000").start();
    assert_eq!(server.command(&["EVAL", MANY, "0"]), Resp::Nil);
    server
});

/// How many entries a reply has, or as many as its text has room for.
fn entries(reply: &Resp) -> usize {
    match reply {
        Resp::Bulk(text) => 1 + text.len() / 64,
        Resp::Map(pairs) => pairs.iter().map(|(key, value)| entries(key) + entries(value)).sum(),
        reply => 1 + reply.elements().iter().map(entries).sum::<usize>(),
    }
}

/// Wants each command to be small, and each script to call few.
#[track_caller]
fn are_small(what: &str, commands: &[Monitored]) {
    assert!(!commands.is_empty(), "{what} asks the server something");
    let (mut seen, mut calls, mut script) = (HashSet::new(), 0, String::new());
    for command in commands {
        let text = || command.words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" ");
        if command.by_script {
            calls += 1;
        } else {
            (calls, script) = (0, text());
        }
        assert!(calls <= CALLS, "{what}: more than {CALLS} commands are called by {script}");
        let name = command.name();
        assert!(!["KEYS", "SORT"].contains(&name.as_str()), "{what}: {} looks at everything", text());
        if READS.contains(&name.as_str()) && seen.insert(&command.words) {
            let read = entries(&FULL.command(&command.words));
            assert!(read <= ENTRIES, "{what}: {read} entries are read by {}", text());
        }
    }
}

/// Wants every request of `work` to be small.
#[track_caller]
fn stays_small(what: &str, work: impl FnOnce()) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock();
    let monitor = Monitor::of(&FULL);
    work();
    are_small(what, &monitor.commands(&FULL));
}

/// A command to its end, with any exit code of its own.
fn runs(words: &[&str]) {
    let done = leasehold(&FULL).args(words).finish();
    assert!([0, 1, 73, 75].contains(&done.code()), "{words:?} {done:?}");
}

#[test]
fn looks_at_all_locks_are_many_small_requests() {
    let _holders =
        [&["held:lock"][..], &["held:fair", "--fair"], &["held:fenced", "--fenced"], &["held:write", "--write"]]
            .map(|options| held(&FULL, options));
    for words in [&["ls"][..], &["ls", "--foreign", "[a-k]*"], &["deadlocks"], &["doctor"]] {
        stays_small(&words.join(" "), || runs(words));
    }
    stays_small("watch", || {
        let watch = leasehold(&FULL).args(["watch", "*", "--json"]).start();
        until("it has looked", || objects_so_far(&watch.stdout()).iter().any(|told| told["server"] == "answers"));
        watch.signal(Signal::INT);
        assert_eq!(watch.finish().code(), 0);
    });
    stays_small("top", || {
        let mut screen = Screen::of_top(&FULL, &[], 120, 20);
        screen.comes_to("it has looked", |text| text.contains(" old: "));
        screen.types("q");
        assert_eq!(screen.ends().code(), Some(0));
    });
    stays_small("serve", || {
        let site = Site::of(&FULL, &[]);
        assert!(site.get("/metrics").body.contains("leasehold_serve_up 1"));
        for name in LARGE {
            site.get(&format!("/lock?name={name}"));
        }
    });
}

/// The objects of the lines that are whole by now.
fn objects_so_far(text: &str) -> Vec<serde_json::Value> {
    objects(text.rsplit_once('\n').map_or("", |(whole, _)| whole))
}

#[test]
fn large_name_is_looked_at_in_small_requests() {
    let other = "6f0c0000-0000-4000-8000-ffffffffffff:1";
    for name in LARGE {
        stays_small(&format!("inspect {name}"), || runs(&["inspect", name]));
        // A reader among ten thousand is found by a list of all of them.
        if name != "read" {
            stays_small(&format!("unlock {name}"), || runs(&["unlock", name, "--holder", other, "--yes"]));
        }
        // The acquire of a lock reads all fields of a hash that it finds busy.
        if name != "hash" {
            stays_small(&format!("run {name}"), || runs(&["run", "--wait", "1200ms", name, "--", "true"]));
        }
    }
}

#[test]
#[should_panic(expected = "entries are read by HKEYS read")]
fn large_reply_is_found() {
    stays_small("a look", || drop(FULL.command(&["EVAL", "return #redis.call('HKEYS', 'read')", "0"])));
}

#[test]
#[should_panic(expected = "more than 2000 commands are called by EVAL for")]
fn script_of_many_commands_is_found() {
    stays_small("a look", || drop(FULL.command(&["EVAL", "for at = 1, 2001 do redis.call('TYPE', 'read') end", "0"])));
}
