//! `leasehold top` draws locks of every kind, outlives its server, and leaves the terminal as it was.

use crate::screen::{Screen, is_kept};
use crate::support::{SERVER, Start as _, held_by_a_jvm, leasehold, name, send, ticks};
use leasehold_test_support::{Proxy, Server, Way, until};
use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt as _;
use std::time::{Duration, Instant};

const JVM: &str = "6f0c0000-0000-4000-8000-000000000000";

/// Locks of several kinds as JVMs leave them, keys that are no locks, and a name that is a command to a terminal.
fn fill(server: &Server) {
    let lease = "100000000";
    held_by_a_jvm(server, "backup", lease);
    held_by_a_jvm(server, "till:3", lease);
    for waiter in ["2", "3"] {
        let waiter = format!("{JVM}:{waiter}");
        server.command(&["RPUSH", "redisson_lock_queue:{till:3}", &waiter]);
        server.command(&["ZADD", "redisson_lock_timeout:{till:3}", "4102444800000", &waiter]);
    }
    server.command(&["HSET", "catalogue", "mode", "write", &format!("{JVM}:1:write"), "1"]);
    server.command(&["PEXPIRE", "catalogue", lease]);
    server.command(&["SET", "simple", "some-process", "PX", lease]);
    server.command(&["SET", "gate", "-3"]);
    server.command(&["RPUSH", "a list", "data"]);
    server.command(&[&b"SET"[..], b"no text \xff", b"data"]);
    server.command(&["HSET", "evil\u{1b}]0;owned\u{7}\u{202e}", &format!("{JVM}:1"), "1"]);
}

#[test]
fn locks_of_every_kind_are_drawn_and_garbage_is_not() {
    let server = Server::start();
    fill(&server);
    // One look, so that the picture stands still.
    let words = ["--every", "1h", "--sort", "name"];
    let screen = Screen::of_top(&server, &words, 190, 12);
    screen.shows(" old: ");
    let lines = screen.lines();
    assert!(
        lines[0].contains("old: 6 locks, 5 held, 2 waiting, 2 with problems; * on redis://127.0.0.1:"),
        "{lines:#?}"
    );
    is_kept("kinds", &lines[2..].join("\n"));
    assert!(
        !screen.bytes().contains("\u{1b}]0;owned") && !screen.bytes().contains('\u{202e}'),
        "no command from a name"
    );
    assert!(screen.has_colours());
    let plain = Screen::of_top_without_colour(&server, &words, 190, 12);
    plain.shows("simple");
    assert!(plain.lines()[2..] == lines[2..] && !plain.has_colours(), "{}", plain.text());
    let fair = Screen::of_top(&server, &["--kind", "fair", "--every", "1h"], 80, 8);
    fair.shows("till:3");
    assert!(fair.lines()[0].contains("old: 1 lock"), "{}", fair.text());
}

/// Waits until locks are drawn in this order.
#[track_caller]
fn is_order(screen: &Screen, all: &str, order: [u8; 3]) {
    screen.comes_to(&format!("the order is {order:?}"), |text| {
        let at: Vec<_> = order.iter().map(|number| text.find(&format!("\n{all}:{number} "))).collect();
        at.iter().all(Option::is_some) && at.is_sorted()
    });
}

#[test]
fn keys_sort_filter_scroll_pause_help_and_quit() {
    let all = name();
    for (number, lease) in [(1, "100000000"), (2, "300000000"), (3, "200000000")] {
        held_by_a_jvm(&SERVER, &format!("{all}:{number}"), lease);
    }
    let mut screen = Screen::of_top(&SERVER, &[&format!("{all}:*"), "--every", "50ms", "--sort", "name"], 80, 24);
    is_order(&screen, &all, [1, 2, 3]);
    screen.types("l");
    is_order(&screen, &all, [1, 3, 2]);
    screen.types("l");
    is_order(&screen, &all, [2, 3, 1]);
    screen.types(&format!("/{all}:3"));
    screen.comes_to("one fits", |text| text.contains("1 matching ") && !text.contains(&format!("\n{all}:1 ")));
    screen.types("\r");
    screen.shows("? help");
    screen.types("/\u{7f}\u{7f}\r");
    is_order(&screen, &all, [2, 3, 1]);
    screen.types("?");
    screen.shows("sort by name, kind");
    screen.types("?p");
    screen.shows("PAUSED");
    held_by_a_jvm(&SERVER, &format!("{all}:4"), "60000");
    screen.types("n");
    is_order(&screen, &all, [1, 2, 3]);
    assert!(!screen.text().contains(&format!("{all}:4")), "it is paused");
    screen.types("p");
    screen.shows(&format!("{all}:4"));
    screen.types("q");
    assert_eq!(screen.ends().code(), Some(0));
    screen.is_restored();
}

#[test]
fn escape_and_interrupt_key_quit() {
    for key in ["\u{1b}", "\u{3}"] {
        let mut screen = Screen::of_top(&SERVER, &[], 80, 24);
        screen.shows("? help");
        screen.types(key);
        assert_eq!(screen.ends().code(), Some(0), "{key:?}");
        screen.is_restored();
    }
}

#[test]
fn server_that_goes_away_is_told_with_its_reason() {
    let server = Server::start();
    held_by_a_jvm(&server, "stock", "3600000");
    let mut screen = Screen::of_top(&server, &["--every", "50ms"], 100, 10);
    screen.shows("stock");
    server.kill();
    screen.shows("NO ANSWER for ");
    let line = screen.lines().into_iter().find(|line| line.starts_with("NO ANSWER")).expect("the line");
    let (_, reason) = line.split_once(": ").expect("a reason");
    assert!(reason.len() > 10 && !reason.contains("the lock"), "the pattern is no lock: {line}");
    screen.comes_to("the age of the table is told", |text| {
        let age = text.split_once(" s old: 1 lock").and_then(|(age, _)| age.parse::<u64>().ok());
        age.is_some_and(|age| age >= 3)
    });
    screen.types("?");
    screen.shows("sort by name, kind");
    screen.types("?");
    screen.shows("\nstock");
    let before = ticks(screen.pid());
    let begun = Instant::now();
    until("two seconds have passed", || begun.elapsed().as_secs() >= 2);
    let used = ticks(screen.pid()) - before;
    assert!(used < 60, "{used} hundredths of a second of the processor in two seconds");
    server.restart();
    held_by_a_jvm(&server, "later", "3600000");
    screen.comes_to("it goes on", |text| text.contains("\nlater") && !text.contains("NO ANSWER"));
    screen.types("q");
    assert_eq!(screen.ends().code(), Some(0));
    screen.is_restored();
}

#[test]
fn terminal_is_restored_after_a_signal() {
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut screen = Screen::of_top(&SERVER, &[], 80, 24);
        screen.shows("? help");
        send(screen.pid(), signal);
        let status = screen.ends();
        // The interrupt ends the table as its key does.
        let died = Some(signal.as_raw()).filter(|_| signal != Signal::INT);
        assert_eq!((status.code(), status.signal()), (died.is_none().then_some(0), died));
        screen.is_restored();
    }
}

#[test]
fn terminal_that_hangs_up_ends_it() {
    let screen = Screen::of_top(&SERVER, &[], 80, 24);
    screen.shows("? help");
    let status = screen.hang_up();
    let by_signal = status.signal() == Some(Signal::HUP.as_raw());
    assert!(by_signal || status.code() == Some(74), "by the signal, or because nothing can be written: {status:?}");
}

/// A shell in whose terminal the program was stopped by its key.
fn stopped_in_a_shell() -> Screen {
    let mut screen = Screen::of_a_shell(80, 24);
    screen.shows("$");
    screen.types(&format!("{} top\n", env!("CARGO_BIN_EXE_leasehold")));
    screen.shows("? help");
    screen.types("\u{1a}");
    screen.shows("Stopped");
    screen
}

#[test]
fn stop_key_gives_the_terminal_to_the_shell() {
    let mut screen = stopped_in_a_shell();
    screen.is_restored();
    screen.types("echo the shell is $((20 + 1))\n");
    screen.shows("the shell is 21");
    screen.types("fg\n");
    screen.shows("? help");
    screen.types("q");
    // Until it has ended it reads what is typed.
    screen.comes_to("the shell asks again", |text| text.contains("the shell is 21") && text.trim_end().ends_with('$'));
    screen.types("exit 4\n");
    assert_eq!(screen.ends().code(), Some(4));
}

#[test]
fn stopped_program_ends_by_a_signal_to_its_job() {
    let mut screen = stopped_in_a_shell();
    // The shell tells of the end when it comes.
    screen.types("set -b; kill %1\n");
    screen.shows("Terminated");
    screen.is_restored();
}

#[test]
fn screens_of_every_size_are_drawn() {
    held_by_a_jvm(&SERVER, &name(), "3600000");
    let mut screen = Screen::of_top(&SERVER, &["--every", "50ms"], 100, 30);
    screen.shows("LEASE LEFT");
    for (columns, rows, text) in [
        (40, 24, "sort nkoghlwut!  / p ? q"),
        (80, 5, "/ filter  p pause  ? help  q quit"),
        (20, 3, "? help  q quit"),
        (2, 1, ""),
        (300, 90, "LONGEST WAIT"),
        (5, 2, "\u{2026}"),
    ] {
        screen.resize(columns, rows);
        screen.shows(text);
    }
    screen.resize(80, 24);
    screen.shows("? help");
    assert!(screen.is_running());
    screen.types("q");
    assert_eq!(screen.ends().code(), Some(0));
}

#[test]
fn many_other_keys_leave_the_keys_of_the_terminal_alive() {
    let server = Server::start();
    let many = "for at = 1, 6000 do redis.call('HSET', 'other:' .. at, 'field', 'data') end";
    server.command(&["EVAL", many, "0"]);
    held_by_a_jvm(&server, "stock", "3600000");
    // The look takes hundreds of round trips, and does not end before this test has seen it.
    let proxy = Proxy::to(&server);
    proxy.delay(Way::Both, Duration::from_millis(30));
    let mut screen = Screen::of_top_at(&proxy.url(), &[], 100, 10);
    screen.shows("first scan running for");
    screen.types("?");
    screen.shows("sort by name, kind");
    assert!(!screen.text().contains(" old: "), "the first look goes on");
    screen.types("?");
    screen.shows("first scan running for");
    proxy.delay(Way::Both, Duration::ZERO);
    screen.shows("\nstock");
    screen.types("q");
    assert_eq!(screen.ends().code(), Some(0));
}

#[test]
fn without_a_terminal_it_names_other_commands() {
    let words = ["`leasehold ls --json`", "`leasehold watch --json`"];
    leasehold(&SERVER).arg("top").finish().fails_with(64, &[&["stdout is not a terminal"][..], &words].concat());
    let done = leasehold(&SERVER).args(["top", "--json"]).finish();
    done.fails_with(64, &[&["\"error\":\"usage\"", "no JSON output"][..], &words].concat());
    leasehold(&SERVER).args(["top", "--sort", "age"]).finish().fails_with(64, &["age", "grants", "held"]);
    leasehold(&SERVER).args(["top", "--every", "1ms"]).finish().fails_with(64, &["10ms"]);
}

#[test]
fn server_that_is_not_there_is_told_before_anything_is_drawn() {
    let server = Server::start();
    server.kill();
    let mut screen = Screen::of_top(&server, &[], 100, 10);
    assert_eq!(screen.ends().code(), Some(69));
    screen.shows("leasehold: ");
    assert!(!screen.bytes().contains("\u{1b}[?1049h"), "{}", screen.text());
}

#[test]
fn enter_inspects_the_selected_lock_and_follows_it() {
    let server = Server::start();
    fill(&server);
    let mut screen = Screen::of_top(&server, &["--sort", "name"], 120, 12);
    screen.shows(" old: ");
    // The second row.
    screen.types("\u{1b}[B\u{1b}[B\r");
    screen.shows("catalogue: held (read-write lock)");
    screen.shows(&format!("{JVM}:1"));
    server.command(&["DEL", "catalogue"]);
    screen.shows("catalogue: free");
    screen.types("\r");
    screen.shows("till:3");
}
