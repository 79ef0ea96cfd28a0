//! The configuration file.

use crate::support::{Done, Start as _, bare, exists, held_by_a_jvm, patient};
use leasehold_test_support::Server;
use std::fs::{Permissions, set_permissions, write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// A file of a server, readable for some.
fn file(server: &Server, name: &str, text: &str, mode: u32) -> PathBuf {
    let path = server.dir().join(name);
    write(&path, text).expect("a file");
    set_permissions(&path, Permissions::from_mode(mode)).expect("the file of this user");
    path
}

fn run_with(config: &Path, variables: &[(&str, &str)], options: &[&str]) -> Done {
    let mut command = bare();
    command.env("LEASEHOLD_CONFIG", config).envs(variables.iter().copied());
    command.arg("run").args(options).args(["x", "--", "sh", "-c", "echo ran"]).finish()
}

#[test]
fn server_password_and_prefix_come_from_the_file() {
    let server = Server::builder().password("secret").start();
    file(&server, "password", "secret\n", 0o600);
    let url = patient(&format!("redis://127.0.0.1:{}", server.port()));
    for secret in ["password = 'secret'", "password-file = \"password\""] {
        let config =
            file(&server, "leasehold.toml", &format!("url = \"{url}\"\n{secret}\nprefix = \"shop:\"\n"), 0o640);
        let mut command = bare();
        command.env("LEASEHOLD_CONFIG", &config).args(["run", "x", "--at-least", "1h", "--", "echo", "ran"]);
        let done = command.finish();
        assert_eq!((done.code(), done.stdout.as_str(), done.stderr.as_str()), (0, "ran\n", ""), "{secret}");
        assert!(exists(&server, "shop:x"), "{secret}");
        server.command(&["DEL", "shop:x"]);
    }
}

#[test]
fn options_and_environment_win_over_the_file() {
    let (server, other) = (Server::start(), Server::builder().password("secret").start());
    held_by_a_jvm(&server, "shop:x", "3600000");
    let text = format!("url = \"{}\"\nprefix = \"shop:\"\n", patient(&server.url()));
    let config = file(&server, "leasehold.toml", &text, 0o644);
    run_with(&config, &[], &["--try"]).fails_with(75, &["is busy"]);
    assert_eq!(run_with(&config, &[], &["--try", "--prefix", "till:"]).code(), 0);
    // Another server gets no password of the file.
    let text = format!("url = \"redis://127.0.0.1:{}\"\npassword = \"secret\"\n", other.port());
    let config = file(&server, "leasehold.toml", &text, 0o600);
    assert_eq!(run_with(&config, &[("LEASEHOLD_URL", &patient(&server.url()))], &["--try"]).code(), 0);
    assert_eq!(run_with(&config, &[], &["--url", &patient(&server.url())]).code(), 0);
    run_with(&config, &[("LEASEHOLD_PASSWORD", "wrong")], &["--try"]).fails_with(77, &["password"]);
    // A file without a server applies to every server.
    let config = file(&server, "leasehold.toml", "prefix = \"shop:\"\n", 0o644);
    run_with(&config, &[("REDIS_URL", &patient(&server.url()))], &["--try"]).fails_with(75, &["is busy"]);
}

#[test]
fn faults_of_the_file_are_named_with_file_and_line() {
    let server = Server::start();
    let missing = server.dir().join("missing.toml");
    run_with(&missing, &[], &[]).fails_with(74, &["missing.toml cannot be read"]);
    let config = file(&server, "bad.toml", "# server\nuri = \"redis://db\"\n", 0o600);
    run_with(&config, &[], &[]).fails_with(64, &["bad.toml:2: unknown key \"uri\""]);
    let config = file(&server, "two.toml", "password = 'a'\npassword-file = 'b'\n", 0o600);
    run_with(&config, &[], &[]).fails_with(64, &["two.toml: password and password-file"]);
}

#[test]
fn password_that_every_user_can_read_is_refused_and_not_repeated() {
    let server = Server::start();
    file(&server, "password", "secret", 0o604);
    for text in ["password = 'secret'", "url = 'redis://:secret@db'", "url = 'redis://db'\npassword-file = 'password'"]
    {
        let config = file(&server, "open.toml", text, 0o604);
        let done = run_with(&config, &[], &[]);
        done.fails_with(64, &["every user of this machine can read the password in ", "chmod o-rwx"]);
        assert!(!done.stderr.contains("secret"), "{done:?}");
    }
}
