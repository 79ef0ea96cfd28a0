//! Input that cannot be used ends in one clear line and its exit code.

use crate::support::{SERVER, Start as _, bare, leasehold, name, path, run};
use leasehold_test_support::Server;

/// A command for a URL, which does not wait for a server.
fn at(url: &str) -> std::process::Command {
    let mut command = bare();
    command.env("LEASEHOLD_URL", url).args(["run", "--try", "x", "--", "true"]);
    command
}

#[test]
fn command_line_that_cannot_be_read_is_usage() {
    for (words, hint) in [
        (&["run", "x"][..], "<CMD>"),
        (&["run"], "<NAME>"),
        (&["run", "x", "true"], "'true' found; put the command after --;"),
        (&["run", "-y", "--", "true"], "'-y' found; for a name that begins with a dash, use: leasehold run -- -name"),
        (&["run", "--", "-x"], "<NAME>"),
        (&["run", "x", "--wait", "30x", "--", "true"], "500ms, 30s"),
        (&["run", "x", "--try", "--wait", "3s", "--", "true"], "cannot be used with '--wait <TIME>'; see --help"),
        (&["run", "x", "--at-least", "5m", "--permits", "2", "--", "true"], "cannot be used with"),
        (&["run", "x", "--read", "--fair", "--", "true"], "--fair"),
        (&["run", "x", "--permits", "0", "--", "true"], "0"),
        (&["run", "x", "--busy-exit", "256", "--", "true"], "256"),
        (&["fly"], "fly"),
        (&["lss"], "'lss'; a similar subcommand exists: 'ls'"),
        (&["doctor", "--name", ""], "--name is empty"),
        (&["run", "x", "--prefix", "", "--", "true"], "--prefix is empty"),
        (&[], "help"),
    ] {
        let done = leasehold(&SERVER).args(words).finish();
        done.fails_with(64, &["leasehold: ", hint]);
    }
}

#[test]
fn name_may_begin_with_a_dash_behind_dashes() {
    let done = run(&SERVER, &["--", "-x", "--", "sh", "-c", "echo $LEASEHOLD_NAME"]).finish();
    assert_eq!((done.code(), done.stdout.as_str(), done.stderr.as_str()), (0, "-x\n", ""));
    let done = leasehold(&SERVER).args(["inspect", "--", "-x"]).finish();
    assert_eq!((done.code(), done.stdout.as_str()), (0, "-x: free; there is no key \"-x\"\n"));
}

#[test]
fn lease_that_is_out_of_bounds_is_usage() {
    run(&SERVER, &["x", "--lease", "1ms", "--", "true"]).finish().fails_with(64, &["lease"]);
}

#[test]
fn no_server_is_usage() {
    bare().args(["run", "x", "--", "true"]).finish().fails_with(64, &["no server URL", "LEASEHOLD_URL"]);
}

#[test]
fn unknown_form_of_url_is_usage() {
    at("http://127.0.0.1:1").finish().fails_with(64, &["redis, rediss", "-cluster", "+unix"]);
    at("127.0.0.1:6379").finish().fails_with(64, &["redis://"]);
    let without_tls = at(&SERVER.url().replace("redis://", "rediss://")).finish();
    without_tls.fails_with(77, &["answers without TLS"]);
    assert!(!without_tls.line().contains("--tls-ca"), "there is no certificate to trust: {without_tls:?}");
    at("redis://127.0.0.1:1?leese=3s").finish().fails_with(64, &["leese"]);
}

#[test]
fn url_as_an_argument_and_from_redis_url_both_work() {
    let done = bare().args(["run", "--url", &SERVER.url(), &name(), "--", "echo", "ran"]).finish();
    assert_eq!(done.stdout, "ran\n");
    let done = bare().env("REDIS_URL", SERVER.url()).args(["run", &name(), "--", "echo", "ran"]).finish();
    assert_eq!(done.stdout, "ran\n");
}

#[test]
fn server_that_is_not_there_is_unreachable_at_once() {
    let ended = at("redis://127.0.0.1:1?connect_deadline=600s").finish();
    ended.fails_with(69, &["127.0.0.1:1", "nothing listens there; start the server or correct host and port"]);
    assert!(!format!("{ended:?}").contains("connect_lazy"), "that is for programs: {ended:?}");
}

#[test]
fn variable_that_is_no_text_is_usage_and_not_left_out() {
    use std::os::unix::ffi::OsStrExt as _;
    let latin = std::ffi::OsStr::from_bytes(b"redis://caf\xe9:6379");
    let done =
        bare().env("LEASEHOLD_URL", latin).env("REDIS_URL", SERVER.url()).args(["run", "x", "--", "true"]).finish();
    done.fails_with(64, &["LEASEHOLD_URL is not UTF-8"]);
    let done = at(&SERVER.url()).env("LEASEHOLD_PASSWORD", latin).finish();
    done.fails_with(64, &["LEASEHOLD_PASSWORD is not UTF-8"]);
    assert!(!done.stderr.contains("caf"));
}

#[test]
fn password_in_an_argument_is_refused_and_not_repeated() {
    let done = bare().args(["run", "--url", "redis://:hunter2@127.0.0.1:1", "x", "--", "true"]).finish();
    done.fails_with(64, &["--password-file", "LEASEHOLD_PASSWORD"]);
    assert!(!done.stderr.contains("hunter2"));
}

#[test]
fn passwords_come_from_the_environment_or_a_file() {
    let server = Server::builder().password("a@b/c:d?e%").start();
    let url = format!("redis://127.0.0.1:{}", server.port());
    let command = || {
        let mut command = bare();
        command.env("LEASEHOLD_URL", &url).args(["run", "x"]);
        command
    };
    let done = command().env("LEASEHOLD_PASSWORD", "a@b/c:d?e%").args(["--", "echo", "ran"]).finish();
    assert_eq!(done.stdout, "ran\n", "{done:?}");
    let file = path(&server);
    std::fs::write(&file, "a@b/c:d?e%\n").expect("a file");
    let done = command().arg("--password-file").arg(&file).args(["--", "echo", "ran"]).finish();
    assert_eq!(done.stdout, "ran\n", "{done:?}");
    let done = command().env("LEASEHOLD_PASSWORD", "wrong-one").args(["--", "true"]).finish();
    done.fails_with(77, &["password"]);
    assert!(!done.stderr.contains("wrong-one"));
    command().args(["--", "true"]).finish().fails_with(77, &["password"]);
}

#[test]
fn file_that_is_not_there_is_io() {
    let done = run(&SERVER, &["x", "--password-file", "no/such/file", "--", "true"]).finish();
    done.fails_with(74, &["no/such/file", "cannot be read"]);
}

#[test]
fn user_without_rights_is_refused() {
    let server = Server::builder().user("app on >secret ~app:* &* +@all -evalsha -eval").start();
    let url = format!("redis://app:secret@127.0.0.1:{}", server.port());
    let done = at(&url).finish();
    done.fails_with(77, &["eval"]);
    assert!(!done.stderr.contains("secret"));
}

#[test]
fn user_without_the_right_to_the_key_is_refused() {
    // The channel of a lock is one of the keys of its scripts. The record of the process is not allowed, and not needed.
    let server = Server::builder().user("app on >secret ~app:* ~redisson_lock__channel:{app:* &* +@all").start();
    let url = format!("redis://app:secret@127.0.0.1:{}", server.port());
    at(&url).finish().fails_with(77, &["\"x\""]);
    let done = bare().env("LEASEHOLD_URL", &url).args(["run", "app:x", "--", "echo", "ran"]).finish();
    assert_eq!((done.code(), done.stdout.as_str()), (0, "ran\n"), "{done:?}");
}

#[test]
fn certificate_that_is_not_trusted_is_refused() {
    let server = Server::builder().tls().start();
    let done = at(&server.url()).finish();
    done.fails_with(77, &["--tls-ca"]);
    let ca = path(&server);
    std::fs::write(&ca, server.ca_pem()).expect("a file");
    let mut command = leasehold(&server);
    let done = command.arg("--tls-ca").arg(&ca).args(["run", "x", "--", "echo", "ran"]).finish();
    assert_eq!(done.stdout, "ran\n", "{done:?}");
    let done = leasehold(&SERVER).arg("--tls-ca").arg(&ca).args(["run", "x", "--", "true"]).finish();
    done.fails_with(64, &["rediss"]);
}

#[test]
fn unix_socket_works() {
    let server = Server::builder().unix_socket().start();
    assert!(server.url().contains("+unix"));
    assert_eq!(leasehold(&server).args(["run", "x", "--", "echo", "ran"]).finish().stdout, "ran\n");
}

#[test]
fn errors_are_objects_with_json() {
    let done = bare().args(["--json", "run", "x", "--", "true"]).finish();
    assert_eq!(done.code(), 64);
    let line = done.line();
    assert!(
        line.starts_with('{') && line.contains("\"error\":\"usage\"") && line.contains("\"exit_code\":64"),
        "{line}"
    );
    // The option belongs to the command behind the dashes.
    let done = bare().args(["run", "x", "--", "true", "--json"]).finish();
    assert!(done.line().starts_with("leasehold: "), "{done:?}");
}

#[test]
fn ipv6_address_is_shown_in_brackets() {
    at("redis://[::1]:1").finish().fails_with(69, &[" [::1]:1 cannot be reached"]);
    at("redis-cluster://[::1]:1").finish().fails_with(69, &["the cluster at [::1]:1 cannot"]);
    at("redis-cluster://[::1]:1?node=[::1]:2").finish().fails_with(69, &["the cluster at [::1]:1, [::1]:2 cannot"]);
    at("redis-cluster://[::1]:1?node=::1:2").finish().fails_with(64, &["in brackets: node=[::1]:6379"]);
}
