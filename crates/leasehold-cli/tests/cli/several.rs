//! `run` of several locks, the note of a holder, and the letters of `flock`.

use crate::support::{SERVER, Start as _, exists, held, leasehold, name, objects, run, run_script, until_announced};
use leasehold_test_support::until;

#[test]
fn several_locks_are_held_together_or_not_at_all() {
    let [one, other, third] = [name(), name(), name()];
    let both = ["-l", &one, "-l", &other];
    let script = format!(
        "echo $LEASEHOLD_NAME; echo $LEASEHOLD_HOLDER | wc -w; {} run -n {other} -- true; echo $?",
        env!("CARGO_BIN_EXE_leasehold")
    );
    let done = run_script(&SERVER, &both, &script).finish();
    assert_eq!((done.code(), done.stdout), (0, format!("{one} + {other}\n2\n75\n")));
    assert!(!exists(&SERVER, &one) && !exists(&SERVER, &other));
    let mut holder = held(&SERVER, &[&other]);
    let busy = run(&SERVER, &["-n", &one, "--lock", &other, "--lock", &third, "--", "true"]).finish();
    busy.fails_with(75, &[&format!("the lock \"{one} + {other} + {third}\" is busy; \"{other}\" is held by ")]);
    assert!(!exists(&SERVER, &one) && !exists(&SERVER, &third));
    let waiting = run(&SERVER, &["-w", "60", "-l", &other, "-l", &one, "--", "echo", "ran"]).start();
    holder.close_stdin();
    holder.finish();
    let done = waiting.finish();
    assert_eq!((done.code(), done.stdout.as_str()), (0, "ran\n"));
}

#[test]
fn several_locks_go_with_the_kinds_of_a_lock_alone() {
    let [one, other] = [name(), name()];
    for kind in ["--fair", "--read", "--write"] {
        let [one, other] = [one.clone() + kind, other.clone() + kind];
        assert_eq!(run(&SERVER, &["-l", &one, "-l", &other, kind, "--", "true"]).finish().code(), 0, "{kind}");
    }
    for options in [&["--fenced"][..], &["--permits", "2"], &["--at-least", "1s"]] {
        let done = run(&SERVER, &[&["-l", &one, "-l", &other], options, &["--", "true"]].concat()).finish();
        done.fails_with(64, &[options[0], "cannot be used with"]);
    }
    run(&SERVER, &["-l", &one, "-l", &one, "--", "true"]).finish().fails_with(64, &[&one]);
    run(&SERVER, &["--", "true"]).finish().fails_with(64, &["NAME"]);
}

#[test]
fn note_of_a_holder_is_shown_to_those_who_ask() {
    let name = name();
    let _holder = held(&SERVER, &[&name, "--note", "nightly dump\u{1b}[2J"]);
    until_announced(&SERVER, &name);
    let asks = |words: &[&str]| leasehold(&SERVER).args(words).finish().stdout;
    let note = "nightly dump\\u{1b}[2J";
    for seen in [asks(&["inspect", &name]), asks(&["ls", &name])] {
        assert!(seen.contains(&format!(": {note}")), "{seen}");
    }
    assert_eq!(
        objects(&asks(&["inspect", "--json", &name]))[0]["holders"][0]["process"]["note"],
        "nightly dump\u{1b}[2J"
    );
    let busy = || run(&SERVER, &["-n", &name, "--", "true"]).finish();
    busy().fails_with(75, &["leasehold run sh, process ", note]);
    until("the age is known", || busy().stderr.contains(", for "));
}

#[test]
fn letters_are_those_of_flock() {
    let name = name();
    let _reader = held(&SERVER, &["-s", &name]);
    assert_eq!(run(&SERVER, &["-s", "-n", &name, "--", "true"]).finish().code(), 0);
    run(&SERVER, &["-x", "-n", &name, "--", "true"]).finish().fails_with(75, &["is busy"]);
    run(&SERVER, &["-x", "-w", "0.3", "-E", "9", &name, "--", "true"]).finish().fails_with(9, &["was busy for 300ms"]);
}

#[test]
fn verbose_run_says_what_it_waits_for_and_how_long_it_took() {
    let name = name();
    let mut holder = held(&SERVER, &[&name]);
    let waiting = run(&SERVER, &["-v", &name, "--", "true"]).start();
    until("it says so", || waiting.stderr().contains(&format!("waiting for the lock \"{name}\", held by ")));
    holder.close_stdin();
    holder.finish();
    let done = waiting.finish();
    assert!(done.code() == 0 && done.stderr.contains("got the lock"), "{done:?}");
}
