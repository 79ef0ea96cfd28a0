//! Ten thousand locks, beside a hundred thousand keys of an application.

use super::story::{self, long_lease};
use crate::driver::{Browser, Driver};
use crate::figures::{self, Figures};
use crate::page::Shows;
use crate::site::Site;
use leasehold_test_support::{Resp, Server};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Makes a part of the keys, in one script each, of which none takes long.
const LOCKS: &str = "for at = ARGV[1], ARGV[1] + 999 do local name = string.format('stock:%05d', at) redis.call('HSET', name, ARGV[2], 1) \
    redis.call('PEXPIRE', name, ARGV[3]) end";
const OTHERS: &str = "for at = ARGV[1], ARGV[1] + 999 do redis.call('RPUSH', 'cache:' .. at, 'x') end";

const JVM: &str = "6f0c0000-0000-4000-8000-000000000000:1";

/// A command that takes longer than this holds up all other clients, in microseconds.
const LONGEST: &str = "5000";

fn crowd() -> Server {
    let server = Server::start();
    for thousand in 0..10 {
        server.command(&["EVAL", LOCKS, "0", &(thousand * 1_000).to_string(), JVM, &long_lease()]);
    }
    for thousand in 0..100 {
        server.command(&["EVAL", OTHERS, "0", &(thousand * 1_000).to_string()]);
    }
    assert_eq!(server.command(&["DBSIZE"]), Resp::Int(110_000));
    server.command(&["CONFIG", "SET", "slowlog-log-slower-than", LONGEST]);
    server.command(&["SLOWLOG", "RESET"]);
    server
}

pub(super) async fn events_are_shown_among_many_locks(driver: &Driver) {
    let server = crowd();
    let site = Site::of(&server, &[]);
    let page = driver.open(Browser::Usual).await;
    // The first look at all keys of the application takes longer than those that come later.
    page.go(&site.url("/?filter=live")).await;
    page.says("#summary", "10000 locks").await;
    let before = used(&server);
    let begun = Instant::now();
    story::tell(&page, &server, "live:").await;
    println!(
        "  with a filter, the server was busy for {:.0} % of the time",
        100.0 * (used(&server) - before) / begun.elapsed().as_secs_f64()
    );
    page.go(&site.url("/?sort=name")).await;
    page.says("#counts", "rows 1 to 100 of 100").await;
    let (before, begun) = (used(&server), Instant::now());
    story::tell(&page, &server, "!live:").await;
    println!(
        "  with 100 rows, the server was busy for {:.0} % of the time",
        100.0 * (used(&server) - before) / begun.elapsed().as_secs_f64()
    );
    println!("  {}", page.text("#status").await);
    no_command_is_long(&server);
    page.close().await;
}

/// Wants commands that do not hold other clients up. The machine may take the processor from the server in the middle of any of them, because the
/// browser has much to do beside it. A command that is long by itself is so each time, so one in a thousand may be long.
fn no_command_is_long(server: &Server) {
    let log = server.command(&["SLOWLOG", "GET", "1000"]);
    let commands = log.elements().iter().filter_map(|entry| entry.elements()[3].elements().first()?.as_str());
    let mut long = BTreeMap::new();
    for command in commands {
        *long.entry(command.to_lowercase()).or_insert(0_u64) += 1;
    }
    for (command, long) in long {
        let all = server.commandstats(&command);
        println!("  {long} of {all} {command} took longer than {LONGEST} us");
        assert!(long * 1_000 <= all, "{command}");
    }
}

/// The seconds of a processor that the server has used.
fn used(server: &Server) -> f64 {
    let seconds = |field: &str| server.info(field).and_then(|seconds| seconds.parse::<f64>().ok()).expect("a time");
    seconds("used_cpu_user") + seconds("used_cpu_sys")
}

pub(super) async fn many_locks_stay_usable(driver: &Driver) {
    let server = crowd();
    let site = Site::of(&server, &[]);
    let page = driver.open(Browser::Usual).await;
    page.go(&site.url("/?sort=name")).await;
    page.says("#counts", "rows 1 to 100 of 10000").await;
    page.says(".bar .pages", "next").await;
    let (mut steps, begun) = (Figures::of("a step of a person"), Instant::now());
    for (css, to) in [
        (".bar .pages a:last-child", "rows 101 to 200 of 10000"),
        (".bar .pages a:last-child", "rows 201 to 300 of 10000"),
        ("#locks th a", "rows 1 to 100 of 10000"),
    ] {
        let event = figures::now();
        page.element(css).await.click().await.expect("a click");
        page.says("#counts", to).await;
        steps.add(event, figures::now());
    }
    page.shows("stock:09999", Shows::Held).await;
    let event = figures::now();
    let field = page.element("input[name=filter]").await;
    field.send_keys("stock:0777\u{e007}").await.expect("keys");
    page.says("#counts", "rows 1 to 10 of 10").await;
    steps.add(event, figures::now());
    figures::tell([steps]);
    page.go(&site.url("/?sort=name&page=50")).await;
    page.says("#counts", "rows 4901 to 5000 of 10000").await;
    assert_eq!(page.count("tbody tr").await, 100, "a page is bounded");
    // Frames that come late are what a person calls slow. Changes come several times a second meanwhile.
    let frames = "const done = arguments[0]; let last = performance.now(), longest = 0, count = 0; const next = () => { const now = performance.now(); \
        longest = Math.max(longest, now - last); last = now; count += 1; count < 120 ? requestAnimationFrame(next) : done(longest); }; \
        requestAnimationFrame(next);";
    let longest = page.run_to_end(frames, &[]).await.as_f64().expect("a time");
    println!("  the longest frame took {longest:.0} ms");
    assert!(longest < 500.0, "{longest} ms");
    let changes = page.run("return performance.getEntriesByType('resource').length;", &[]).await;
    assert_ne!(changes, json!(0));
    assert!(begun.elapsed() < Duration::from_secs(60));
    page.close().await;
}
