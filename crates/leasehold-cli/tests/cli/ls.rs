//! `leasehold ls` lists locks of every kind, and nothing else unless it is asked.

use crate::support::{
    Done, SERVER, Start as _, held, held_by_a_jvm, leasehold, name, objects, patient, run, texts, until_announced,
};
use leasehold_test_support::{Proxy, Server, until};
use serde_json::Value;
use std::collections::BTreeMap;

const JVM: &str = "6f0c0000-0000-4000-8000-000000000000:1";

/// Runs `ls`, which ends well.
fn listed(words: &[&str]) -> Done {
    let done = leasehold(&SERVER).arg("ls").args(words).finish();
    assert_eq!(done.code(), 0, "{done:?}");
    done
}

/// The locks by their names.
fn listed_as_json(words: &[&str]) -> BTreeMap<String, Value> {
    let done = listed(&[words, &["--json"]].concat());
    objects(&done.stdout).into_iter().map(|lock| (lock["name"].as_str().expect("a name").to_owned(), lock)).collect()
}

#[test]
fn header_of_a_list_stands_above_its_first_row() {
    let lock = format!("{}:with-a-name-that-is-longer-than-most", name());
    let _holder = held(&SERVER, &[&lock, "--write"]);
    let done = listed(&[&lock]);
    let (header, row) = done.stdout.split_once('\n').expect("a header and a row");
    for (title, cell) in [("NAME", lock.as_str()), ("KIND", "read-write lock"), ("HOLDER", "write: leasehold run")] {
        assert_eq!(header.find(title), row.find(cell), "{title}:\n{header}\n{row}");
    }
}

#[test]
fn locks_of_every_kind_are_listed_with_their_kind() {
    let all = name();
    let under = |last: &str| format!("{all}:{last}");
    let options: [(&str, &[&str], &str); 6] = [
        ("plain", &[], "lock"),
        ("fair", &["--fair"], "fair lock"),
        ("fenced", &["--fenced"], "fenced lock"),
        ("read", &["--read"], "read-write lock"),
        ("write", &["--write"], "read-write lock"),
        ("permits", &["--permits", "3"], "semaphore"),
    ];
    let _holders = options.map(|(last, options, _)| held(&SERVER, &[&[under(last).as_str()], options].concat()));
    let _waiter = run(&SERVER, &[&under("fair"), "--fair", "--", "true"]).start();
    let queue = format!("redisson_lock_queue:{{{}}}", under("fair"));
    until("it waits", || SERVER.command(&["LLEN", &queue]).as_int() == Some(1));
    SERVER.command(&["SET", &under("simple"), "some-process", "PX", "60000"]);
    SERVER.command(&["SET", &under("counter"), "-3"]);
    held_by_a_jvm(&SERVER, &under("jvm"), "3600000");

    let seen = listed_as_json(&[&format!("{all}:*")]);
    let others = [("simple", "simple lock"), ("counter", "counter"), ("jvm", "lock")];
    let expected = options.iter().map(|(last, _, kind)| (*last, *kind)).chain(others);
    let kinds: BTreeMap<_, _> = expected.map(|(last, kind)| (under(last), kind)).collect();
    assert_eq!(
        seen.iter().map(|(name, lock)| (name.clone(), lock["kind"].as_str().unwrap_or(""))).collect::<BTreeMap<_, _>>(),
        kinds
    );
    assert_eq!(
        (&seen[&under("fair")]["waiting"], &seen[&under("fair")]["waiters"][0]["alive"]),
        (&1.into(), &true.into())
    );
    assert_eq!(seen[&under("permits")]["permits"], serde_json::json!({ "available": 2, "held": 1 }));
    assert_eq!(seen[&under("counter")]["warnings"], serde_json::json!(["the counter is below zero"]));
    assert_eq!(seen[&under("read")]["holders"][0]["half"], "read");
    assert!(seen[&under("fenced")]["fencing_token"].is_u64(), "{seen:?}");
    assert!(seen[&under("jvm")]["lease_left_ms"].as_u64().is_some_and(|left| left > 3_500_000), "{seen:?}");

    let only = listed_as_json(&[&format!("{all}:*"), "--kind", "fair,simple"]);
    assert_eq!(only.into_keys().collect::<Vec<_>>(), [under("fair"), under("simple")]);
}

#[test]
fn table_names_the_process_where_it_announces_itself() {
    let all = name();
    let (ours, jvm) = (format!("{all}:ours"), format!("{all}:jvm"));
    let holder = held(&SERVER, &[&ours]);
    until_announced(&SERVER, &ours);
    held_by_a_jvm(&SERVER, &jvm, "3600000");
    let text = listed(&[&format!("{all}:*")]).stdout;
    let lines: Vec<_> = text.lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with("NAME ") && lines[0].ends_with("PROBLEMS"), "{text}");
    let line = |name: &str| *lines.iter().find(|line| line.starts_with(name)).expect(name);
    assert!(line(&ours).contains(&format!("leasehold run sh, process {} on ", holder.pid())), "{text}");
    assert!(line(&jvm).contains("6f0c0000-0000-4000-8000-000000000000:1") && line(&jvm).contains("59 min"), "{text}");
}

#[test]
fn what_is_no_lock_is_listed_only_on_request() {
    let all = name();
    SERVER.command(&["RPUSH", &format!("{all}:list"), "data"]);
    SERVER.command(&[&b"SET"[..], &[all.as_bytes(), b":\xff"].concat(), b"data"]);
    SERVER.command(&["HSET", &format!("{all}:hash"), "field", "data"]);
    let pattern = format!("{all}:*");
    let plain = listed_as_json(&[&pattern]);
    assert!(!plain.contains_key(&format!("{all}:list")), "{plain:?}");
    for words in [&[pattern.as_str(), "--foreign"][..], &[&pattern, "--kind", "foreign"]] {
        let seen = listed_as_json(words);
        let list = &seen[&format!("{all}:list")];
        assert_eq!((&list["kind"], &list["state"]), (&"foreign".into(), &"foreign".into()));
        assert!(list["warnings"][0].as_str().is_some_and(|why| why.contains("list")), "{list}");
        assert!(seen[&format!("{all}:\u{fffd}")]["warnings"][0].as_str().is_some_and(|why| why.contains("no text")));
    }
}

#[test]
fn names_with_special_characters_are_listed_and_harmless() {
    let all = name();
    let (glob, control) = (format!("{all}:[a]*?"), format!("{all}:a\u{1b}[2J\nb"));
    held_by_a_jvm(&SERVER, &glob, "60000");
    held_by_a_jvm(&SERVER, &control, "60000");
    held_by_a_jvm(&SERVER, &format!("{all}:aaa"), "60000");
    assert_eq!(listed_as_json(&[&format!("{all}:*")]).len(), 3);
    let quoted = listed_as_json(&[&format!("{all}:\\[a\\]\\*\\?")]);
    assert_eq!(quoted.into_keys().collect::<Vec<_>>(), [glob]);
    let text = listed(&[&format!("{all}:a?*b")]).stdout;
    assert_eq!(text.lines().count(), 2, "{text:?}");
    assert!(text.contains(r"a\u{1b}[2J\nb") && !text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn nothing_found_is_said_and_is_no_failure() {
    let pattern = format!("{}:*", name());
    let done = listed(&[&pattern]);
    assert_eq!(done.stdout, "");
    assert!(done.line().contains("no lock matches") && done.line().contains(&pattern), "{done:?}");
    let done = listed(&[&pattern, "--json"]);
    assert_eq!((done.stdout.as_str(), objects(done.line()).len()), ("", 1));
}

#[test]
fn long_holds_are_found_by_what_holders_say() {
    let all = name();
    let (ours, pattern) = (format!("{all}:ours"), format!("{all}:*"));
    let _holder = held(&SERVER, &[&ours]);
    held_by_a_jvm(&SERVER, &format!("{all}:jvm"), "60000");
    until("it says that it has held the lock for a second", || {
        listed_as_json(&[&pattern, "--held-longer-than", "1s"]).contains_key(&ours)
    });
    let done = listed(&[&pattern, "--held-longer-than", "1s", "--json"]);
    let seen = objects(&done.stdout);
    assert!(seen.len() == 1 && seen[0]["held_ms"].as_u64().is_some_and(|age| age >= 1_000), "{seen:?}");
    assert!(done.line().contains("omitted 1 held lock"), "{done:?}");
    assert!(listed_as_json(&[&pattern, "--held-longer-than", "1h"]).is_empty());
}

#[test]
fn server_that_goes_away_is_one_line_behind_what_was_found() {
    let server = Server::start();
    let many =
        "for at = 1, 20000 do redis.call('HSET', 'many:' .. at, '6f0c0000-0000-4000-8000-000000000000:1', 1) end";
    server.command(&["EVAL", many, "0"]);
    let running = leasehold(&server).arg("ls").start();
    running.shows("no time to live");
    server.kill();
    let done = running.finish();
    done.fails_with(69, &["leasehold: "]);
    assert!(done.stdout.lines().count() > 1);
}

#[test]
fn names_that_may_not_be_looked_at_are_told_of() {
    let rights = [
        "seer on >secret ~mine:* ~*{mine:* &* +@all",
        // Without scripts no lock can be seen at all.
        "blind on >secret ~* &* +@all -@scripting",
    ];
    let server = rights.into_iter().fold(Server::builder(), |builder, user| builder.user(user)).start();
    held_by_a_jvm(&server, "mine:1", "60000");
    held_by_a_jvm(&server, "theirs:1", "60000");
    let as_user = |user: &str, words: &[&str]| {
        let mut command = leasehold(&server);
        command.env("LEASEHOLD_URL", format!("redis://{user}:secret@127.0.0.1:{}", server.port())).args(words);
        command
    };
    let hidden = |names: &str| format!("cannot inspect {names}, which may be held locks: NOPERM");
    let seen = as_user("seer", &["ls"]).finish();
    assert!(seen.code() == 0 && seen.stdout.contains("mine:1") && !seen.stdout.contains("theirs:1"), "{seen:?}");
    assert!(seen.line().contains(&hidden("1 matching name")), "{seen:?}");
    assert_eq!(as_user("seer", &["ls", "mine:*"]).finish().stderr, "");
    let blind = as_user("blind", &["ls"]).finish();
    assert!(blind.stderr.contains(&hidden("2 matching names")), "{blind:?}");
    let watch = as_user("blind", &["watch", "*", "--every", "50ms"]).start();
    watch.shows(&format!("the server refuses scans: {}", hidden("2 matching names")));
}

#[test]
fn no_command_looks_at_many_keys_at_once() {
    let server = Server::start();
    server.command(&["EVAL", "for at = 1, 3000 do redis.call('SET', 'other:' .. at, 'data') end", "0"]);
    let proxy = Proxy::to(&server);
    let done = leasehold(&server).env("LEASEHOLD_URL", patient(&proxy.url())).arg("ls").finish();
    assert_eq!(done.code(), 0, "{done:?}");
    let scans = proxy.requests_with("\r\nSCAN\r\n");
    assert!(scans.len() > 3_000 / 1024, "{}", scans.len());
    for scan in scans {
        let words: Vec<_> = scan.argv.iter().map(|word| String::from_utf8_lossy(word)).collect();
        let count = words.iter().position(|word| word == "COUNT").map(|at| words[at + 1].parse::<u32>());
        assert!(matches!(count, Some(Ok(1..=1024))), "{words:?}");
    }
    assert!(proxy.requests_with("\r\nKEYS\r\n").is_empty());
}

#[test]
fn looking_at_all_changes_nothing() {
    let all = name();
    held_by_a_jvm(&SERVER, &format!("{all}:jvm"), "3600000");
    let keys = || texts(&SERVER.command(&["KEYS", &format!("*{all}*")]));
    let before = keys();
    listed(&[&format!("{all}:*")]);
    assert_eq!(keys(), before);
}

#[test]
fn locks_are_sorted_and_have_tabs_between_their_columns_on_request() {
    let all = name();
    for at in ["b", "a", "c\td"] {
        held_by_a_jvm(&SERVER, &format!("{all}:{at}"), "3600000");
    }
    SERVER.command(&["PERSIST", &format!("{all}:b")]);
    let done = listed(&[&format!("{all}:*"), "--sort", "--tsv"]);
    let lines: Vec<Vec<&str>> = done.stdout.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(lines[0], ["name", "kind", "holder", "process", "held_ms", "lease_left_ms", "waiters", "problems"]);
    let names: Vec<_> = lines[1..].iter().map(|line| line[0].to_owned()).collect();
    assert_eq!(names, ["a", "b", r"c\td"].map(|at| format!("{all}:{at}")));
    for line in &lines[1..] {
        assert_eq!((line.len(), line[1], line[2], line[3], line[4]), (8, "lock", JVM, "-", "-"), "{line:?}");
    }
    assert!(lines[1][5].parse::<u64>().is_ok_and(|left| left > 3_500_000) && lines[2][5] == "-", "{lines:?}");
    assert!(lines[1][7] == "-" && lines[2][7].contains("no time to live"), "{lines:?}");
    let only = listed(&[&format!("{all}:*"), "--problems", "--tsv"]).stdout;
    assert!(only.lines().count() == 2 && only.contains(&format!("{all}:b")), "{only}");
    let sorted = listed(&[&format!("{all}:*"), "--sort"]).stdout;
    let columns: Vec<_> = sorted.lines().map(|line| line.find("lock  ").or_else(|| line.find("KIND"))).collect();
    assert!(columns.iter().all(|at| *at == columns[0]), "{sorted}");
}
