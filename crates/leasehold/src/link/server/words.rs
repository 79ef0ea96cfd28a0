//! Error messages for people, in place of `Debug` output.

/// Describes an error of the system or of TLS, whose `Debug` output is `details`.
pub(super) fn plain(details: &str) -> String {
    // A TLS alert of the server concerns this client, even if its name matches a local error.
    const ALERTS: [(&str, &str); 8] = [
        ("CertificateRequired", "the server asks for a certificate of the client"),
        (
            "HandshakeFailure",
            "the server refused the secure connection; perhaps it asks for a certificate of the client",
        ),
        ("CertificateExpired", "the server says that the certificate of the client has expired"),
        ("CertificateRevoked", "the server says that the certificate of the client was revoked"),
        ("UnknownCA", "the server does not trust the authority that issued the certificate of the client"),
        // The certificate is not signed by an authority that the server trusts.
        ("DecryptError", "the server does not accept the certificate of the client"),
        ("Certificate", "the server does not accept the certificate of the client"),
        ("AccessDenied", "the server does not accept the certificate of the client"),
    ];
    const MEANINGS: [(&str, &str); 12] = [
        ("NotValidForName", "the certificate is not valid for this host name"),
        ("NotValidYet", "the certificate is not valid yet; look at the clocks"),
        ("Expired", "the certificate has expired"),
        ("UnknownIssuer", "the certificate was issued by an authority that is not trusted"),
        // The authority has the same name but a new key.
        ("BadSignature", "the certificate was issued by an authority that is not trusted"),
        ("Revoked", "the certificate was revoked"),
        ("InvalidCertificate", "the certificate was not accepted"),
        ("AlertReceived", "the server ended the secure connection"),
        ("InvalidMessage", "the other side does not speak TLS"),
        ("PeerIncompatible", "no version of TLS is known to both sides"),
        ("ConnectionRefused", "the connection was refused: nothing listens on this port"),
        ("ConnectionReset", "the connection was closed by the other side"),
    ];
    let is_shown =
        ["Os {", "Custom {", "InvalidCertificate(", "AlertReceived(", "InvalidMessage(", "PeerIncompatible("];
    if !is_shown.iter().any(|form| details.contains(form)) {
        return details.to_owned();
    }
    let alert = details.split_once("AlertReceived(").map(|(_, alert)| alert);
    if let Some((_, meaning)) = alert.and_then(|alert| ALERTS.iter().find(|(word, _)| alert.contains(word))) {
        return (*meaning).to_owned();
    }
    if let Some((_, meaning)) = MEANINGS.iter().find(|(word, _)| details.contains(word)) {
        return (*meaning).to_owned();
    }
    let quoted = |after: &str| details.split_once(after)?.1.split('"').next().map(str::to_owned);
    quoted("message: \"").or_else(|| quoted("error: \"")).unwrap_or_else(|| details.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_in_words() {
        let told = [
            (
                "Os { code: 111, kind: ConnectionRefused, message: \"Connection refused\" }",
                "the connection was refused: nothing listens on this port",
            ),
            ("Os { code: 2, kind: NotFound, message: \"No such file or directory\" }", "No such file or directory"),
            (
                "Custom { kind: InvalidData, error: InvalidCertificate(NotValidForNameContext { expected: DnsName(\"a\") }) }",
                "the certificate is not valid for this host name",
            ),
            ("InvalidCertificate(UnknownIssuer)", "the certificate was issued by an authority that is not trusted"),
            ("AlertReceived(CertificateExpired)", "the server says that the certificate of the client has expired"),
            ("AlertReceived(CertificateRequired)", "the server asks for a certificate of the client"),
            (
                "AlertReceived(UnknownCA)",
                "the server does not trust the authority that issued the certificate of the client",
            ),
            ("InvalidCertificate(BadSignature)", "the certificate was issued by an authority that is not trusted"),
            ("AlertReceived(BadCertificate)", "the server does not accept the certificate of the client"),
            ("AlertReceived(InternalError)", "the server ended the secure connection"),
            ("Custom { kind: UnexpectedEof, error: \"tls handshake eof\" }", "tls handshake eof"),
            ("WRONGPASS invalid username-password pair", "WRONGPASS invalid username-password pair"),
        ];
        for (details, words) in told {
            assert_eq!(plain(details), words);
        }
    }
}
