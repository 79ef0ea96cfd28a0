//! Words for people in place of the forms in which errors are shown to programmers.

/// The meaning of fred's words for an error of the system or of TLS. It passes these on as Rust's `Debug` shows them.
pub(super) fn plain(details: &str) -> String {
    const MEANINGS: [(&str, &str); 12] = [
        ("NotValidForName", "the certificate is not valid for this host name"),
        ("NotValidYet", "the certificate is not valid yet; look at the clocks"),
        ("Expired", "the certificate has expired"),
        ("UnknownIssuer", "the certificate was issued by an authority that is not trusted"),
        ("Revoked", "the certificate was revoked"),
        ("InvalidCertificate", "the certificate was not accepted"),
        ("CertificateRequired", "the server asks for a certificate of the client"),
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
            ("Custom { kind: UnexpectedEof, error: \"tls handshake eof\" }", "tls handshake eof"),
            ("WRONGPASS invalid username-password pair", "WRONGPASS invalid username-password pair"),
        ];
        for (details, words) in told {
            assert_eq!(plain(details), words);
        }
    }
}
