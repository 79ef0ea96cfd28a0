//! No command holds the server up: each single request is short, whatever stands under the names. The server's log of slow commands tells.

use crate::http::Site;
use crate::screen::Screen;
use crate::support::{Start as _, held, leasehold, objects};
use leasehold_test_support::{Resp, Server, until};
use rustix::process::Signal;
use std::sync::{LazyLock, Mutex};

/// The longest time that one request may take, in microseconds.
const LONGEST: i64 = 5_000;

/// How many entries have those that a program could read as a whole by mistake: that would take it several times as long.
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

static FULL: LazyLock<Server> = LazyLock::new(|| {
    let log =
        |builder, setting: (&str, &str)| leasehold_test_support::ServerBuilder::arg(builder, setting.0, setting.1);
    let settings = [("slowlog-log-slower-than", "1000"), ("slowlog-max-len", "1000"), ("lua-time-limit", "60000")];
    let server = settings.into_iter().fold(Server::builder(), log).start();
    assert_eq!(server.command(&["EVAL", MANY, "0"]), Resp::Nil);
    server
});

/// The longest request since the log was emptied: its time in microseconds, and its first words.
fn longest() -> (i64, String) {
    let log = FULL.command(&["SLOWLOG", "GET", "1000"]);
    let entry = |entry: &Resp| {
        let words: Vec<_> = entry.elements()[3].elements().iter().filter_map(Resp::as_str).take(4).collect();
        (entry.elements()[2].as_int().unwrap_or_default(), words.join(" "))
    };
    log.elements().iter().map(entry).filter(|(_, words)| !words.starts_with("SLOWLOG")).max().unwrap_or_default()
}

/// Wants every request of `work` to be short. The machine may put the server aside in the middle of one; a request that is long by itself is so
/// each time, so the least of three counts.
#[track_caller]
fn stays_short(what: &str, work: impl Fn()) {
    static LOG: Mutex<()> = Mutex::new(());
    let _alone = LOG.lock();
    let once = |_| {
        FULL.command(&["SLOWLOG", "RESET"]);
        work();
        longest()
    };
    let least = (0..3).map(once).min().expect("three times");
    assert!(least.0 < LONGEST, "{what}: a request took {} us: {}", least.0, least.1);
}

/// A command to its end, with any exit code of its own.
fn runs(words: &[&str]) {
    let done = leasehold(&FULL).args(words).finish();
    assert!([0, 1, 73, 75].contains(&done.code()), "{words:?} {done:?}");
}

#[test]
fn looks_at_all_locks_are_many_short_requests() {
    let _holders =
        [&["held:lock"][..], &["held:fair", "--fair"], &["held:fenced", "--fenced"], &["held:write", "--write"]]
            .map(|options| held(&FULL, options));
    for words in [&["ls"][..], &["ls", "--foreign", "[a-k]*"], &["deadlocks"], &["doctor"]] {
        stays_short(&words.join(" "), || runs(words));
    }
    stays_short("watch", || {
        let watch = leasehold(&FULL).args(["watch", "*", "--json"]).start();
        until("it has looked", || objects_so_far(&watch.stdout()).iter().any(|told| told["server"] == "answers"));
        watch.signal(Signal::INT);
        assert_eq!(watch.finish().code(), 0);
    });
    stays_short("top", || {
        let mut screen = Screen::of_top(&FULL, &[], 120, 20);
        screen.comes_to("it has looked", |text| text.contains(" old: "));
        screen.types("q");
        assert_eq!(screen.ends().code(), Some(0));
    });
    stays_short("serve", || {
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
fn large_name_is_looked_at_in_short_requests() {
    let other = "6f0c0000-0000-4000-8000-ffffffffffff:1";
    for name in LARGE {
        stays_short(&format!("inspect {name}"), || runs(&["inspect", name]));
        // A reader among ten thousand is found by a list of all of them.
        if name != "read" {
            stays_short(&format!("unlock {name}"), || runs(&["unlock", name, "--holder", other, "--yes"]));
        }
        // The acquire of a lock reads all fields of a hash that it finds busy.
        if name != "hash" {
            stays_short(&format!("run {name}"), || runs(&["run", "--wait", "1200ms", name, "--", "true"]));
        }
    }
}
