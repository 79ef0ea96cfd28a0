//! `leasehold watch` tells of each change, and outlives its server.

use crate::support::{
    Running, SERVER, Start as _, held, held_by_a_jvm, leasehold, name, objects, released_by_the_jvm, run, ticks,
};
use leasehold_test_support::{Server, until};
use rustix::process::Signal;
use serde_json::Value;

const JVM: &str = "6f0c0000-0000-4000-8000-000000000000:1";

#[test]
fn first_look_counts_locks_in_words_that_fit() {
    let name = name();
    held_by_a_jvm(&SERVER, &format!("{name}:1"), "60000");
    let first = |pattern: &str| {
        let told = ended(watching(&SERVER, &[pattern, "--json"]));
        let told = told.iter().find(|event| event["event"] == "server").expect("the first look");
        told["message"].as_str().expect("a text").to_owned()
    };
    assert_eq!(first(&format!("{name}:*")), "1 matching lock");
    held_by_a_jvm(&SERVER, &format!("{name}:2"), "60000");
    assert_eq!([first(&format!("{name}:*")), first(&format!("{name}:3"))], ["2 matching locks", "0 matching locks"]);
}

/// Watches until the first look is told of.
fn watching(server: &Server, words: &[&str]) -> Running {
    let running = leasehold(server).args(["watch", "--every", "50ms"]).args(words).start();
    until("it has looked", || running.stdout().contains("answers"));
    running
}

/// Ends it as the interrupt key does, and gives the objects that it has printed.
fn ended(running: Running) -> Vec<Value> {
    running.signal(Signal::INT);
    let done = running.finish();
    assert_eq!((done.code(), done.stderr.as_str()), (0, ""), "{done:?}");
    objects(&done.stdout)
}

#[test]
fn grant_release_loss_and_queue_are_told() {
    let all = name();
    let (ours, jvm, odd) = (format!("{all}:ours"), format!("{all}:jvm"), format!("{all}:[a]*\u{1b}[2J"));
    held_by_a_jvm(&SERVER, &jvm, "3600000");
    let (watch, text) =
        (watching(&SERVER, &[&format!("{all}:*"), "--json"]), watching(&SERVER, &[&format!("{all}:*")]));
    let tells = |event: &str, lock: &str| {
        until(&format!("{event} of {lock}"), || {
            let told = watch.stdout();
            let whole = told.rsplit_once('\n').map_or("", |(whole, _)| whole);
            objects(whole).iter().any(|told| told["event"] == event && told["name"] == lock)
        });
    };
    tells("held", &jvm);
    let mut holder = held(&SERVER, &[&ours, "--fair"]);
    tells("granted", &ours);
    let waiter = run(&SERVER, &[&ours, "--fair", "--", "true"]).start();
    tells("waiters", &ours);
    holder.close_stdin();
    holder.finish();
    tells("released", &ours);
    waiter.finish();
    released_by_the_jvm(&SERVER, &jvm);
    tells("released", &jvm);
    held_by_a_jvm(&SERVER, &odd, "1000");
    tells("lost", &odd);
    until("the text tells of it, too", || text.stdout().contains("lost "));
    let plain = text.stdout();
    assert!(plain.contains(r"[a]*\u{1b}[2J") && !plain.contains('\u{1b}') && plain.contains(JVM), "{plain:?}");
    let told = ended(watch);
    let at = told.iter().map(|told| told["at"].as_str().expect("a time"));
    assert!(at.is_sorted() && told[0]["at"].as_str().is_some_and(|at| at.len() == 24 && at.ends_with('Z')), "{told:?}");
    text.signal(Signal::INT);
    assert_eq!(text.finish().code(), 0);
}

#[test]
fn server_that_goes_away_and_comes_back_is_a_line_each() {
    let server = Server::start();
    held_by_a_jvm(&server, "stock", "3600000");
    let mut watch = watching(&server, &["*", "--json"]);
    server.kill();
    until("its absence is told", || watch.stdout().contains("does not answer"));
    server.restart();
    until("its return is told", || watch.stdout().contains("answers again"));
    assert!(watch.is_running());
    held_by_a_jvm(&server, "later", "3600000");
    until("it goes on", || watch.stdout().contains("\"later\""));
    let told = ended(watch);
    let server: Vec<_> =
        told.iter().filter(|told| told["event"] == "server").map(|told| told["server"].clone()).collect();
    assert_eq!(server, ["answers", "does not answer", "answers again"], "{told:?}");
}

#[test]
fn watching_does_not_keep_the_processor_busy() {
    let server = Server::start();
    let mut watch = watching(&server, &["*"]);
    server.kill();
    until("its absence is told", || watch.stdout().contains("does not answer"));
    let (begun, before) = (std::time::Instant::now(), ticks(watch.pid()));
    until("two seconds have passed", || begun.elapsed().as_secs() >= 2);
    assert!(ticks(watch.pid()) - before < 100, "half of a processor over two seconds, in hundredths of a second");
    assert!(watch.is_running());
    watch.signal(Signal::INT);
    assert_eq!(watch.finish().code(), 0);
}

#[test]
fn watch_begins_while_the_server_is_down() {
    let server = Server::start();
    server.kill();
    let running = leasehold(&server).args(["watch", "*", "--every", "50ms"]).start();
    until("the outage is told", || running.stdout().contains("the server does not answer"));
    assert!(running.stderr().contains("; retrying"), "{}", running.stderr());
    server.restart();
    held_by_a_jvm(&server, "stock", "3600000");
    until("it goes on", || running.stdout().contains("stock"));
    running.signal(Signal::INT);
    assert_eq!(running.finish().code(), 0);
}
