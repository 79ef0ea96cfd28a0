//! `leasehold serve` shows what happens to locks while it happens, outlives its server, and leaves it in peace while no one looks.

use crate::http::{Answer, Site};
use crate::support::{
    Start as _, bare, held, held_by_a_jvm, leasehold, patient, released_by_the_jvm, run, run_script, ticks,
};
use leasehold_test_support::{Proxy, Server, Way, until};
use rustix::process::Signal;
use std::process::Stdio;
use std::time::{Duration, Instant};

const JVM: &str = "6f0c0000-0000-4000-8000-000000000000:1";

#[test]
fn grant_wait_hand_over_and_loss_are_shown_live() {
    let server = Server::start();
    let site = Site::of(&server, &["--every", "100ms"]);
    let mut table = site.events("/events?sort=name");
    held_by_a_jvm(&server, "stock", "3600000");
    table.until("it is held", |page| page.row("stock").contains(JVM));
    let waiter = run_script(&server, &["stock", "--lease", "1s"], "echo in; read end").stdin(Stdio::piped()).start();
    table.until("it is waited for", |page| page.locks()[0].1[8] == "1" && page.tiles["waiting"] == "1");
    released_by_the_jvm(&server, "stock");
    waiter.says("in");
    let process = waiter.pid().to_string();
    table.until("it is handed over", |page| page.locks()[0].1[4] == process);
    waiter.signal(Signal::KILL);
    table.until("it is lost", |page| page.row("stock").contains("| free |"));
    let mut lock = site.events("/events?name=stock");
    lock.until("its past is shown", |page| page.table("past").lines().count() == 2);
    let past = lock.page.table("past");
    assert!(past.lines().last().is_some_and(|first| first.contains(JVM) && first.ends_with("| released")), "{past}");
    assert!(past.lines().next().is_some_and(|last| last.contains(&process)), "{past}");
    let answer = site.get("/history.json").body;
    assert!(answer.contains(r#""name":"stock""#) && answer.contains(r#""outcome":"released""#), "{answer}");
}

#[test]
fn page_of_a_lock_shows_its_queue_live() {
    let server = Server::start();
    let site = Site::of(&server, &["till:*", "--every", "100ms"]);
    let mut lock = site.events("/events?name=till%3A3");
    lock.until("it is free", |page| page.summary == "till:3: free");
    let mut holder = held(&server, &["till:3", "--fair"]);
    let process = format!("| {} |", holder.pid());
    lock.until("it is held", |page| {
        page.summary == "till:3: held (fair lock)" && page.table("holders").contains(&process)
    });
    let waiter = run(&server, &["till:3", "--fair", "--", "true"]).start();
    lock.until("it is waited for", |page| page.table("queue").contains(&waiter.pid().to_string()));
    let body = site.get("/lock?name=till%3A3").body;
    assert!(body.contains(&format!(">{}</td>", waiter.pid())), "also without JavaScript: {body}");
    assert!(body.contains(">leasehold unlock --holder "), "the command that frees it: {body}");
    let mut waits = site.events("/events?of=waits");
    waits.until("the tree has lock and waiter", |page| {
        page.summary == "1 lock with waiters" && page.table("waits").contains("waits | leasehold run true")
    });
    holder.close_stdin();
    holder.finish();
    waiter.finish();
    lock.until("it is free again", |page| page.summary == "till:3: free" && page.table("holders").is_empty());
}

#[test]
fn table_needs_no_javascript() {
    let server = Server::start();
    for at in 0..120 {
        held_by_a_jvm(&server, &format!("stock:{at:03}"), "3600000");
    }
    server.command(&["SET", "gate", "3"]);
    let site = Site::of(&server, &["--every", "100ms"]);
    let page = site.get("/").body;
    assert!(page.contains("<noscript><meta http-equiv=\"refresh\"") && page.contains("rows 1 to 100 of 121"), "{page}");
    let second = site.get("/?sort=name&reversed=1&filter=stock&kind=lock&page=2").body;
    assert!(
        second.contains("rows 101 to 120 of 120") && second.contains(">previous</a>") && !second.contains(">next</a>"),
        "{second}"
    );
    let row = |name: &str| second.find(&format!(">{name}</a>"));
    assert!(row("stock:019") < row("stock:000") && row("stock:020").is_none() && row("gate").is_none(), "{second}");
    held_by_a_jvm(&server, "later", "3600000");
    until("it is read anew", || site.get("/?filter=later").body.contains(">later</a>"));
}

#[test]
fn outage_is_shown_with_its_begin_and_ends() {
    let server = Server::start();
    held_by_a_jvm(&server, "stock", "3600000");
    let site = Site::of(&server, &["--every", "100ms"]);
    let (mut table, mut lock) = (site.events("/events"), site.events("/events?name=stock"));
    table.until("it is held", |page| page.row("stock").contains(JVM));
    lock.until("it is held", |page| page.table("holders").contains(JVM));
    server.kill();
    for events in [&mut table, &mut lock] {
        let is_told = |status: &str| status.starts_with("NO ANSWER for ") && status.contains("(since 20");
        events.until("the outage is told", |page| page.is_warning && is_told(&page.status));
        assert!(["locks", "holders"].iter().any(|id| events.page.table(id).contains(JVM)), "what was known stays");
    }
    let page = site.get("/");
    assert!(page.status == 200 && page.body.contains("NO ANSWER for ") && page.body.contains(">stock</a>"), "{page:?}");
    assert_eq!(site.get("/lock?name=stock").status, 503);
    let metrics = site.get("/metrics").body;
    assert!(metrics.contains("leasehold_serve_up 0\n") && !metrics.contains("held_locks"), "{metrics}");
    let (begun, before) = (Instant::now(), ticks(site.running.pid()));
    until("two seconds have passed", || begun.elapsed().as_secs() >= 2);
    let used = ticks(site.running.pid()) - before;
    assert!(used < 60, "{used} hundredths of a second of the processor in two seconds");
    server.restart();
    held_by_a_jvm(&server, "later", "3600000");
    table.until("it goes on", |page| !page.is_warning && !page.row("later").is_empty());
    lock.until("it goes on, too", |page| !page.is_warning);
    assert!(site.get("/metrics").body.contains("leasehold_serve_up 1\n"));
}

#[test]
fn locks_with_problems_stand_first_and_then_those_that_are_waited_for() {
    let server = Server::start();
    for name in ["a", "b", "c"] {
        held_by_a_jvm(&server, name, "3600000");
    }
    server.command(&["PERSIST", "c"]);
    let _waiter = run(&server, &["b", "--", "true"]).start();
    let site = Site::of(&server, &["--every", "100ms"]);
    until("they are in order", || {
        let page = site.get("/").body;
        let places = ["c", "b", "a"].map(|name| page.find(&format!(">{name}</a>")));
        places.is_sorted() && places[0].is_some()
    });
}

#[test]
fn page_is_there_while_its_server_is_down_and_finds_it_later() {
    let server = Server::start();
    server.kill();
    let site = Site::of(&server, &["--every", "100ms"]);
    let mut table = site.events("/events");
    table.until("the outage is told", |page| page.is_warning && page.status.starts_with("NO ANSWER for "));
    assert!(site.get("/metrics").body.contains("leasehold_serve_up 0\n"));
    assert!(site.running.stderr().contains("; retrying"), "{}", site.running.stderr());
    server.restart();
    held_by_a_jvm(&server, "stock", "3600000");
    table.until("it is held", |page| !page.is_warning && page.row("stock").contains(JVM));
}

/// The page says so where it hears nothing for four seconds.
#[test]
fn quiet_page_hears_that_the_program_lives() {
    let server = Server::start();
    let site = Site::of(&server, &[]);
    let mut events = site.events("/events?name=stock");
    events.until("it has looked", |page| page.summary == "stock: free");
    for _ in 0..2 {
        let before = events.page.messages;
        assert!(events.until("a message comes", |page| page.messages > before) < Duration::from_secs(4));
    }
}

#[test]
fn links_work_below_a_path_of_a_proxy_and_changes_pass_through_it() {
    let server = Server::start();
    held_by_a_jvm(&server, "stock", "3600000");
    let site = Site::of(&server, &["--allow-unlock"]);
    for path in ["/", "/?sort=name", "/lock?name=stock", "/waits", "/history", "/nothing"] {
        let page = site.get(path).body;
        for link in ["href=\"/", "src=\"/", "action=\"/", "data-events=\"/"] {
            assert!(!page.contains(link), "{path} has no {link}: {page}");
        }
    }
    let mut events = site.events("/events");
    events.until("it has looked", |page| !page.locks().is_empty());
    for header in ["x-accel-buffering: no", "cache-control: no-store, no-transform", "content-type: text/event-stream"]
    {
        assert!(events.head.contains(header), "{header}: {}", events.head);
    }
}

#[test]
fn path_is_served_for_a_proxy_that_keeps_it() {
    let server = Server::start();
    held_by_a_jvm(&server, "stock", "3600000");
    let site = Site::of(&server, &["--path", "/ops/locks/"]);
    for path in ["", "lock?name=stock", "waits", "history", "metrics", "page.js", "page.css", "healthz", "locks.json"] {
        assert_eq!(site.get(&format!("/ops/locks/{path}")).status, 200, "{path}");
        assert_eq!(site.get(&format!("/{path}")).status, 404, "{path}");
    }
    let answer = site.get("/ops/locks");
    assert!(answer.status == 308 && answer.head.contains("\r\nlocation: /ops/locks/\r\n"), "{answer:?}");
    let mut events = site.events("/ops/locks/events");
    events.until("it has looked", |page| page.row("stock").contains(JVM));
}

#[test]
fn every_view_is_json_too() {
    let server = Server::start();
    held_by_a_jvm(&server, "stock", "3600000");
    held_by_a_jvm(&server, "odd", "3600000");
    server.command(&["PERSIST", "odd"]);
    let site = Site::of(&server, &["--every", "100ms"]);
    let json = |answer: &Answer| -> serde_json::Value {
        assert!(answer.status == 200 && answer.head.contains("content-type: application/json\r\n"), "{answer:?}");
        serde_json::from_str(&answer.body).expect("a document")
    };
    let table = json(&site.get("/locks.json?show=problems"));
    assert_eq!((&table["matches"], &table["totals"]["locks"]), (&1.into(), &2.into()), "{table}");
    let lock = &table["locks"][0];
    assert_eq!((&lock["name"], &lock["holders"][0]["id"]), (&"odd".into(), &JVM.into()), "{table}");
    assert_eq!(lock["unlock"], format!("leasehold unlock --holder {JVM} odd"));
    let accept =
        "GET /lock?name=stock HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nConnection: close\r\n\r\n";
    let one = json(&site.ask(accept));
    assert_eq!((&one["state"], &one["holders"][0]["id"]), (&"held".into(), &JVM.into()), "{one}");
    assert_eq!(json(&site.get("/lock.json?name=nothing"))["state"], "free");
    assert_eq!(json(&site.get("/history.json"))["past"], serde_json::json!([]));
    assert_eq!(json(&site.get("/waits.json"))["locks"], serde_json::json!([]));
    assert_eq!(site.get("/healthz").body, "ok\n");
}

#[test]
fn record_keeps_the_history_without_a_page() {
    let server = Server::start();
    let site = Site::of(&server, &["--every", "100ms", "--record"]);
    until("it looks", || server.commandstats("scan") > 4);
    held_by_a_jvm(&server, "stock", "3600000");
    let before = server.commandstats("scan");
    until("it looks again", || server.commandstats("scan") > before + 4);
    released_by_the_jvm(&server, "stock");
    until("it is recorded", || site.get("/history.json").body.contains(r#""outcome":"released""#));
}

#[test]
fn note_of_a_holder_is_shown_as_text() {
    let server = Server::start();
    let _holder = held(&server, &["stock", "--note", "ask <b>Ann</b>"]);
    let site = Site::of(&server, &["--every", "100ms"]);
    let mut table = site.events("/events");
    table.until("the note is shown", |page| {
        page.locks().iter().any(|(_, cells)| cells[2].ends_with(": ask <b>Ann</b>"))
    });
    let page = site.get("/").body;
    assert!(page.contains(": ask &lt;b&gt;Ann&lt;/b&gt;") && !page.contains("<b>Ann"), "{page}");
    assert!(site.get("/locks.json").body.contains(r#""note":"ask <b>Ann</b>""#));
}

#[test]
fn permits_have_their_processes() {
    let server = Server::start();
    let holder = held(&server, &["supplier", "--permits", "2"]);
    let site = Site::of(&server, &["--every", "100ms"]);
    let mut lock = site.events("/events?name=supplier");
    lock.until("the process is known", |page| page.table("holders").contains(&format!("| {} |", holder.pid())));
}

#[test]
fn signals_end_it_while_browsers_listen() {
    let server = Server::start();
    for signal in [Signal::INT, Signal::TERM] {
        let site = Site::of(&server, &[]);
        let (mut table, mut lock) = (site.events("/events"), site.events("/events?name=stock"));
        table.until("it has looked", |page| page.summary.contains("0 locks"));
        lock.until("it has looked", |page| page.summary == "stock: free");
        let _idle = site.connect();
        site.running.signal(signal);
        table.ends();
        lock.ends();
        let done = site.running.finish();
        assert_eq!((done.code(), done.stderr.as_str()), (0, ""), "{done:?}");
    }
}

#[test]
fn server_is_left_in_peace_while_no_one_looks() {
    let server = Server::start();
    let site = Site::of(&server, &["--every", "100ms"]);
    let mut table = site.events("/events");
    table.until("it has looked", |page| page.summary.contains("0 locks"));
    let before = server.commandstats("scan");
    until("it looks again and again", || server.commandstats("scan") > before + 4);
    drop(table);
    // A look that was under way goes on to its end.
    let is_quiet = || {
        let (before, begun) = (server.commandstats("scan"), Instant::now());
        until("some time has passed", || begun.elapsed() > Duration::from_millis(500));
        server.commandstats("scan") == before
    };
    until("no look is taken any more", is_quiet);
    assert!(site.get("/").body.contains("0 locks"));
    until("one page is one look", is_quiet);
}

#[test]
fn many_locks_stay_usable_over_a_slow_network() {
    let server = Server::start();
    let many = "for at = 1, 10000 do local name = 'stock:' .. at redis.call('HSET', name, ARGV[1], 1) redis.call('PEXPIRE', name, 3600000) end";
    server.command(&["EVAL", many, "0", JVM]);
    let proxy = Proxy::to(&server);
    for way in [Way::ToServer, Way::ToClient] {
        proxy.delay(way, Duration::from_micros(500));
    }
    let mut command = leasehold(&server);
    command.env("LEASEHOLD_URL", patient(&proxy.url())).args(["serve", "--listen", "127.0.0.1:0"]);
    let site = Site::started(command);
    let mut table = site.events("/events?filter=stock:77&sort=name");
    // A page is answered while the first look goes on.
    assert_eq!(site.get("/page.js").status, 200);
    table.until("it has looked", |page| page.counts == "rows 1 to 100 of 111");
    assert!(table.page.longest < 64 * 1024, "{} bytes", table.page.longest);
    let page = site.get("/?page=100").body;
    assert!(page.contains("rows 9901 to 10000 of 10000") && page.len() < 128 * 1024, "{} bytes", page.len());
    assert!(site.get("/metrics").body.contains("leasehold_serve_locks{kind=\"lock\"} 10000\n"));
}

#[test]
fn listeners_are_bounded_and_leave_their_place() {
    let server = Server::start();
    let site = Site::of(&server, &[]);
    let mut all: Vec<_> = (0..64).map(|_| site.events("/events")).collect();
    for events in &mut all {
        events.until("it has looked", |page| page.summary.contains("0 locks"));
    }
    assert_eq!(site.get("/events").status, 503);
    assert!(site.get("/metrics").body.contains("leasehold_serve_listeners 64\n"), "pages are answered still");
    drop(all);
    until("their places are free", || site.get("/metrics").body.contains("leasehold_serve_listeners 0\n"));
}

#[test]
fn input_that_cannot_be_used_is_one_line() {
    let server = Server::start();
    let serve = |words: &[&str]| leasehold(&server).arg("serve").args(words).finish();
    serve(&["--listen", "localhost"]).fails_with(64, &["localhost", "--listen"]);
    serve(&["--every", "10ms"]).fails_with(64, &["100ms"]);
    serve(&["--token-file", "x"]).fails_with(64, &["--allow-unlock"]);
    let site = Site::of(&server, &[]);
    serve(&["--listen", &site.address]).fails_with(64, &[&site.address, "in use", "--listen"]);
    let free = ["--listen", "127.0.0.1:0"];
    let at = |url: &str| bare().env("LEASEHOLD_URL", url).arg("serve").args(free).finish();
    let closed = Server::builder().password("right-one").start();
    at(&format!("redis://:wrong-one@127.0.0.1:{}", closed.port())).fails_with(77, &["password"]);
    let tls = Server::builder().tls().start();
    at(&tls.url()).fails_with(77, &["--tls-ca"]);
    let poor = Server::builder().user("app on >secret ~* &* +@all -scan").start();
    at(&format!("redis://app:secret@127.0.0.1:{}", poor.port())).fails_with(77, &["scan"]);
}

#[test]
fn figures_are_those_of_the_locks() {
    let server = Server::start();
    held_by_a_jvm(&server, "stock", "3600000");
    server.command(&["SET", "gate", "3"]);
    let site = Site::of(&server, &["--every", "100ms"]);
    let answer = site.get("/metrics");
    assert!(answer.head.contains("content-type: text/plain; version=0.0.4"), "{answer:?}");
    for line in [
        "leasehold_serve_up 1",
        "leasehold_serve_locks{kind=\"lock\"} 1",
        "leasehold_serve_locks{kind=\"counter\"} 1",
        "leasehold_serve_held_locks 1",
        "leasehold_serve_looks_total{outcome=\"done\"} ",
    ] {
        assert!(answer.body.contains(&format!("\n{line}")), "{line}: {}", answer.body);
    }
    assert!(!answer.body.contains("stock"), "no name of a lock");
}

#[test]
fn figures_of_locks_are_left_out_while_the_server_is_down() {
    let server = Server::start();
    held_by_a_jvm(&server, "stock", "3600000");
    let site = Site::of(&server, &["--every", "100ms"]);
    assert!(site.get("/metrics").body.contains("\nleasehold_serve_held_locks 1\n"));
    server.kill();
    until("the outage is seen", || site.get("/metrics").body.contains("\nleasehold_serve_up 0\n"));
    let figures = site.get("/metrics").body;
    assert!(
        !figures.contains("\nleasehold_serve_held_locks ") && !figures.contains("\nleasehold_serve_locks{"),
        "{figures}"
    );
    assert!(figures.contains("leasehold_serve_looks_total{outcome=\"failed\"} "), "{figures}");
}
