//! The command's streams, arguments and variables are those of `leasehold`.

use crate::support::{SERVER, Start as _, bare, exists, leasehold, name, run, run_script};
use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::process::Stdio;

#[test]
fn bytes_pass_through_stdin_and_stdout() {
    let mut command = run(&SERVER, &[&name(), "--", "cat"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let bytes: Vec<u8> = (0..1_000_000_u32).map(|at| u8::try_from(at % 251).expect("a byte")).collect();
    let mut stdin = child.stdin.take().expect("a pipe");
    let sent = bytes.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&sent));
    let mut got = Vec::new();
    child.stdout.take().expect("a pipe").read_to_end(&mut got).expect("its output");
    writer.join().expect("no panic").expect("all is read");
    assert!(child.wait().expect("its end").success());
    assert!(got == bytes, "{} bytes came of {}", got.len(), bytes.len());
}

#[test]
fn stdout_and_stderr_stay_apart() {
    let done = run_script(&SERVER, &[&name()], "echo out; echo err >&2").finish();
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("out\n", "err\n"));
}

#[test]
fn arguments_reach_the_command_untouched() {
    let mut command = run(&SERVER, &[&name(), "--", "printf", "[%s]"]);
    command.args(["a b", "", "--json", "--", "$HOME \"'*"]).arg(OsStr::from_bytes(b"\xff"));
    let output = command.output().expect("it runs");
    assert_eq!(output.stdout, b"[a b][][--json][--][$HOME \"'*][\xff]");
}

#[test]
fn command_sees_the_lock_and_its_holder() {
    let name = name();
    let script = "echo name $LEASEHOLD_NAME; echo holder $LEASEHOLD_HOLDER; read wait";
    let mut command = run_script(&SERVER, &[&name, "--prefix", "shop&:"], script);
    let mut running = command.stdin(Stdio::piped()).start();
    assert_eq!(running.says("name "), name);
    let holder = running.says("holder ");
    let key = format!("shop&:{name}");
    assert_eq!(SERVER.command(&["HGET", &key, &holder]).as_str(), Some("1"), "{holder} holds {key}");
    running.close_stdin();
    running.finish();
    assert!(!exists(&SERVER, &key));
}

#[test]
fn fencing_token_of_an_outer_lock_is_not_passed_on() {
    let mut command = run_script(&SERVER, &[&name()], "echo \"[${LEASEHOLD_FENCING_TOKEN-none}]\"");
    assert_eq!(command.env("LEASEHOLD_FENCING_TOKEN", "7").finish().stdout, "[none]\n");
}

#[test]
fn one_lock_within_another_works() {
    let (outer, inner) = (name(), name());
    let mut command = run(&SERVER, &[&outer, "--", env!("CARGO_BIN_EXE_leasehold"), "run", &inner, "--"]);
    let done = command.args(["sh", "-c", "echo $LEASEHOLD_NAME; exit 4"]).finish();
    assert_eq!((done.code(), done.stdout), (4, format!("{inner}\n")));
}

#[test]
fn reader_that_has_gone_is_no_panic() {
    for words in [["man", "--json"], ["completions", "bash"], ["run", "--help"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let child = bare().args(words).stdout(writer).stderr(Stdio::piped()).spawn().expect("it starts");
        let output = child.wait_with_output().expect("its end");
        assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(141), ""));
    }
}

#[test]
fn stderr_that_is_closed_is_no_panic() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let status = leasehold(&SERVER).args(["run", "--wait", "soon", "x"]).stderr(writer).status().expect("its end");
    assert_eq!(status.code(), Some(64));
}
