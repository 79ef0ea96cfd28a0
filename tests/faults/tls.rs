//! Secure connections: whom a client trusts, and how it proves who it is.

use crate::connecting::failure;
use crate::support::{held, runtime, settings};
use leasehold::ConnectError;
use leasehold_test_support::{Ca, Server};

#[test]
fn settings_of_tls_are_refused_before_connecting() {
    let error = failure(settings().tls_ca(Ca::new().pem()), "redis://localhost");
    assert!(matches!(&error, ConnectError::Invalid { message: text, .. } if text.contains("rediss")), "{error:?}");
    settings().tls_ca("no PEM").connect_lazy("redis://localhost").expect_err("a setting that cannot be used");
}

#[test]
fn tls_trusts_the_authority_that_it_is_told_to_and_no_other() {
    let server = Server::builder().tls().password("sesame").start();
    runtime().block_on(async {
        let client = settings().tls_ca(server.ca_pem()).connect(&server.url()).await.expect("a client");
        held(&client, "stock").await.release().await.expect("a release");
    });
    let error = failure(settings().tls_ca(Ca::new().pem()), &server.url());
    assert!(matches!(&error, ConnectError::Tls { message: text, .. } if text.contains("ertificate")), "{error:?}");
    // The authorities of the operating system do not know it either.
    let error = failure(settings(), &server.url());
    assert!(matches!(error, ConnectError::Tls { .. }), "{error:?}");
    let error = failure(settings().tls_ca("no certificate"), &server.url());
    assert!(matches!(error, ConnectError::Tls { .. } | ConnectError::Invalid { .. }), "{error:?}");
}

#[test]
fn a_client_shows_its_certificate() {
    let server = Server::builder().tls().arg("tls-auth-clients", "yes").start();
    let issued = server.ca().issue(&["client"]);
    let known = settings().tls_ca(server.ca_pem()).tls_identity(issued.cert_pem, issued.key_pem);
    runtime().block_on(async {
        let client = known.connect(&server.url()).await.expect("a client");
        held(&client, "stock").await.release().await.expect("a release");
    });
    let error = failure(settings().tls_ca(server.ca_pem()), &server.url());
    assert!(matches!(error, ConnectError::Tls { .. } | ConnectError::Unsuitable { .. }), "{error:?}");
}
