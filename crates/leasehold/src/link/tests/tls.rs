//! TLS: trusted authorities and client certificates.

use super::super::Certificates;
use super::connecting::{failure, failure_at, failure_at_once, works};
use super::*;
use leasehold_test_support::{Ca, Cluster, Issued, Server};
use std::process::Command;

#[test]
fn tls_trusts_whom_it_is_told_to_trust() {
    let server = Server::builder().tls().start();
    let addr = server.tls_addr().expect("an address for TLS");
    let secure = ServerTarget::parse(&format!("rediss://{addr}")).expect("a target");
    let trusting = |ca: String| {
        let certificates = Certificates { ca: Some(ca.into_bytes()), client: None };
        secure.clone().with_certificates(&certificates).expect("certificates")
    };
    works(trusting(server.ca_pem()));
    // During a change of authorities both are trusted.
    works(trusting(Ca::new().pem() + &server.ca_pem()));
    let error = failure(trusting(Ca::new().pem()));
    assert!(matches!(error, ConnectError::Tls { .. }), "{error:?}");
    // TLS to a server without TLS, and the reverse.
    let plain = Server::start();
    let certificates = Certificates { ca: Some(server.ca_pem().into_bytes()), client: None };
    let target = ServerTarget::parse(&format!("rediss://{}", plain.addr())).expect("a target");
    let error = failure(target.with_certificates(&certificates).expect("certificates"));
    // A server without TLS reads the handshake as the start of a command, and waits for the rest.
    assert!(error.to_string().contains("it answers without TLS"), "{error:?}");
    let error = failure_at(&format!("redis://{addr}"));
    assert!(error.to_string().contains("it expects TLS"), "{error:?}");
}

#[test]
fn tls_refuses_wrong_host_and_expired_certificates() {
    let ways: [fn(&Ca) -> Issued; 2] =
        [|ca| ca.issue(&["example.org", "127.0.0.2"]), |ca| ca.issue_expired(&["localhost", "127.0.0.1"])];
    for issue in ways {
        let server = Server::builder().tls_with(issue).start();
        let target =
            ServerTarget::parse(&format!("rediss://{}", server.tls_addr().expect("an address"))).expect("a target");
        let certificates = Certificates { ca: Some(server.ca_pem().into_bytes()), client: None };
        let error = failure(target.with_certificates(&certificates).expect("certificates"));
        assert!(matches!(error, ConnectError::Tls { .. }), "{error:?}");
    }
}

#[test]
fn cluster_node_is_known_by_the_name_it_was_found_by() {
    let (server, url) = Cluster::of_a_name();
    let target = ServerTarget::parse(&url).expect("a target");
    let certificates = Certificates { ca: Some(server.ca_pem().into_bytes()), client: None };
    works(target.with_certificates(&certificates).expect("certificates"));
}

/// The path of a copy of this program that trusts the server through its system.
const TRUSTED: &str = "LEASEHOLD_TEST_TRUSTED";

/// The system's authorities come from the file in `SSL_CERT_FILE`, which a process reads at its start.
#[test]
fn an_authority_that_is_given_replaces_those_of_the_system() {
    let Ok(addr) = std::env::var(TRUSTED) else {
        let server = Server::builder().tls().start();
        let name = "link::tests::tls::an_authority_that_is_given_replaces_those_of_the_system";
        let output = Command::new(std::env::current_exe().expect("this program"))
            .args([name, "--exact"])
            .env("SSL_CERT_FILE", server.dir().join("ca.pem"))
            .env_remove("SSL_CERT_DIR")
            .env(TRUSTED, server.tls_addr().expect("an address for TLS").to_string())
            .output()
            .expect("this program, once more");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    };
    let target = ServerTarget::parse(&format!("rediss://{addr}")).expect("a target");
    works(target.clone().with_certificates(&Certificates::default()).expect("certificates"));
    let certificates = Certificates { ca: Some(Ca::new().pem().into_bytes()), client: None };
    let error = failure(target.with_certificates(&certificates).expect("certificates"));
    assert!(matches!(error, ConnectError::Tls { .. }), "{error:?}");
}

#[test]
fn a_client_certificate_is_shown() {
    let server = Server::builder().tls().arg("tls-auth-clients", "yes").start();
    let addr = server.tls_addr().expect("an address for TLS");
    let secure = ServerTarget::parse(&format!("rediss://{addr}")).expect("a target");
    let issued = server.ca().issue(&["client"]);
    let ca = Some(server.ca_pem().into_bytes());
    let client = Some((issued.cert_pem.into_bytes(), issued.key_pem.into_bytes()));
    works(secure.clone().with_certificates(&Certificates { ca: ca.clone(), client }).expect("certificates"));
    let refused = |client: Option<Issued>| {
        let client = client.map(|issued| (issued.cert_pem.into_bytes(), issued.key_pem.into_bytes()));
        failure(secure.clone().with_certificates(&Certificates { ca: ca.clone(), client }).expect("certificates"))
    };
    for (client, words) in [
        (None, "requires a client certificate"),
        (Some(server.ca().issue_expired(&["client"])), "the client certificate has expired"),
        (Some(Ca::new().issue(&["client"])), "rejected the client certificate"),
    ] {
        let error = refused(client);
        assert!(matches!(error, ConnectError::Tls { .. }) && error.to_string().contains(words), "{error:?}");
    }
}

/// The client treats the server as a Sentinel, and does not get far enough to learn that it is not.
#[test]
fn tls_of_a_sentinel_is_told_of() {
    let server = Server::builder().tls().start();
    let (plain, secure) = (server.port(), server.tls_addr().expect("an address for TLS").port());
    let to = |scheme: &str, port: u16| {
        let url = format!("{scheme}://127.0.0.1:{port}?sentinelServiceName=main");
        ServerTarget::parse(&url).expect("a target")
    };
    let trusting = |target: ServerTarget, ca: String| {
        let certificates = Certificates { ca: Some(ca.into_bytes()), client: None };
        target.with_certificates(&certificates).expect("certificates")
    };
    let told = |target, words: &str| {
        let error = failure(target);
        assert!(matches!(error, ConnectError::Tls { .. }) && error.to_string().contains(words), "{error:?}");
    };
    told(trusting(to("rediss-sentinel", secure), Ca::new().pem()), "issued by an authority that is not trusted");
    told(trusting(to("rediss-sentinel", plain), server.ca_pem()), "it answers without TLS");
    told(to("redis-sentinel", secure), "it expects TLS");
}

#[test]
fn secure_urls_of_every_kind_are_read() {
    let shown = [
        ("valkeys://:hunter2@host:1/7", "host:1"),
        ("rediss-cluster://:hunter2@a:1?node=b:2&node=c:3", "the cluster at a:1, b:2, c:3"),
        ("rediss-sentinel://:hunter2@a:1?sentinelServiceName=main", "main, by the Sentinels at a:1"),
    ];
    for (url, label) in shown {
        let target = ServerTarget::parse(url).expect(url);
        assert!(target.secure && target.to_string() == label, "{target:?}");
        assert!(!format!("{target:?}").contains("hunter2"), "{target:?}");
    }
}

#[test]
fn secure_address_where_nothing_listens_is_told_so() {
    let error = failure_at_once("rediss://127.0.0.1:1");
    assert!(matches!(error, ConnectError::NothingListens { .. }), "{error:?}");
}
