//! Secure connections: what each fault of them says, and the ways by which certificates are given.

use crate::support::{SERVER, Start as _, bare, leasehold, path};
use leasehold_test_support::{Ca, Cluster, Issued, Server};
use std::path::PathBuf;
use std::process::Command;

/// A file with a text, which goes with the server.
fn file(server: &Server, text: &str) -> String {
    let path = path(server);
    std::fs::write(&path, text).expect("a file");
    path.display().to_string()
}

/// `leasehold run` on a server with TLS, whose authority it trusts.
fn run_trusting(server: &Server, host: &str, options: &[&str]) -> Command {
    let mut command = leasehold(server);
    let port = server.tls_addr().expect("an address for TLS").port();
    command.env("LEASEHOLD_URL", format!("rediss://{host}:{port}"));
    command.arg("run").arg("--tls-ca").arg(server.dir().join("ca.pem")).args(options);
    command.args(["x", "--", "echo", "ran"]);
    command
}

/// A client's certificate and key as options.
fn identity(server: &Server, issued: &Issued) -> [String; 4] {
    let (chain, key) = (file(server, &issued.cert_pem), file(server, &issued.key_pem));
    ["--tls-cert".to_owned(), chain, "--tls-key".to_owned(), key]
}

#[test]
fn fault_of_the_server_certificate_says_what_helps() {
    let untrusted = Server::builder().tls().start();
    let other = file(&untrusted, &Ca::new().pem());
    let mut command = leasehold(&untrusted);
    let done = command.args(["run", "--tls-ca", &other, "x", "--", "true"]).finish();
    done.fails_with(77, &["authority that is not trusted", "--tls-ca"]);
    let expired = Server::builder().tls_with(|ca| ca.issue_expired(&["localhost", "127.0.0.1"])).start();
    let done = run_trusting(&expired, "127.0.0.1", &[]).finish();
    done.fails_with(77, &["the certificate has expired; check the clock"]);
    let elsewhere = Server::builder().tls_with(|ca| ca.issue(&["example.org"])).start();
    let done = run_trusting(&elsewhere, "localhost", &[]).finish();
    done.fails_with(77, &["not valid for this host name; use a host name or address"]);
}

#[test]
fn fault_of_the_client_certificate_is_told_as_such() {
    let server = Server::builder().tls().arg("tls-auth-clients", "yes").start();
    let run = |options: &[String]| {
        let options: Vec<_> = options.iter().map(String::as_str).collect();
        run_trusting(&server, "127.0.0.1", &options).finish()
    };
    let own = identity(&server, &server.ca().issue(&["client"]));
    let done = run(&own);
    assert_eq!((done.code(), done.stdout.as_str()), (0, "ran\n"), "{done:?}");
    run(&[]).fails_with(77, &["client certificate; set an accepted certificate"]);
    let expired = identity(&server, &server.ca().issue_expired(&["client"]));
    run(&expired).fails_with(77, &["client certificate has expired; set a valid certificate"]);
    let stranger = identity(&server, &Ca::new().issue(&["client"]));
    run(&stranger).fails_with(77, &["client certificate; set an accepted certificate"]);
}

#[test]
fn certificates_come_from_the_environment_too() {
    let server = Server::builder().tls().arg("tls-auth-clients", "yes").start();
    let [_, chain, _, key] = identity(&server, &server.ca().issue(&["client"]));
    let with = |ca: PathBuf| {
        let mut command = leasehold(&server);
        command.env("LEASEHOLD_TLS_CA", ca).env("LEASEHOLD_TLS_CERT", &chain).env("LEASEHOLD_TLS_KEY", &key);
        command
    };
    let ca = server.dir().join("ca.pem");
    for words in
        [&["run", "x", "--", "true"][..], &["ls"], &["inspect", "x"], &["deadlocks"], &["bench", "--pairs", "10"]]
    {
        let done = with(ca.clone()).args(words).finish();
        assert_eq!(done.code(), 0, "{words:?} {done:?}");
    }
    let done = with(ca.clone()).arg("doctor").finish();
    assert!(done.stdout.contains("version") && !done.stdout.contains("raw commands failed"), "{done:?}");
    // An option wins.
    let other = file(&server, &Ca::new().pem());
    with(ca).args(["ls", "--tls-ca", &other]).finish().fails_with(77, &["not trusted"]);
    with(PathBuf::from("no/such/file")).arg("ls").finish().fails_with(74, &["no/such/file cannot be read"]);
}

#[test]
fn file_that_is_no_certificate_or_key_is_named() {
    let server = &SERVER;
    let refused = |options: &[&str], words: &[&str]| {
        let done = bare().env("LEASEHOLD_URL", "rediss://127.0.0.1:1").arg("ls").args(options).finish();
        done.fails_with(64, words);
    };
    let garbage = file(server, "hello\n");
    let issued = Ca::new().issue(&["client"]);
    let (chain, key) = (file(server, &issued.cert_pem), file(server, &issued.key_pem));
    refused(&["--tls-ca", &garbage], &[&garbage, "as a certificate", "PEM"]);
    refused(&["--tls-ca", &key], &[&key, "as a certificate"]);
    refused(&["--tls-cert", &garbage, "--tls-key", &key], &[&garbage, "as a certificate"]);
    refused(&["--tls-cert", &chain, "--tls-key", &garbage], &[&garbage, "as a private key"]);
    refused(&["--tls-cert", &chain], &[&chain, "--tls-key or LEASEHOLD_TLS_KEY"]);
    refused(&["--tls-key", &key], &[&key, "--tls-cert or LEASEHOLD_TLS_CERT"]);
    for encrypted in [
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\naGVsbG8=\n-----END ENCRYPTED PRIVATE KEY-----\n",
        "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\naGVsbG8=\n-----END EC PRIVATE KEY-----\n",
    ] {
        let encrypted = file(server, encrypted);
        refused(&["--tls-cert", &chain, "--tls-key", &encrypted], &[&encrypted, "passphrase", "openssl pkey"]);
    }
}

#[test]
fn doctor_knows_the_nodes_by_the_name_of_the_cluster() {
    let (server, url) = Cluster::of_a_name();
    let mut command = bare();
    command.env("LEASEHOLD_URL", url);
    let done = command.arg("doctor").arg("--tls-ca").arg(server.dir().join("ca.pem")).finish();
    assert!(done.stdout.contains("version") && !done.stdout.contains("raw commands failed"), "{done:?}");
}
