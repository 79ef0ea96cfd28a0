//! The addresses of servers, as text.

use std::net::Ipv6Addr;

/// The maximum length of a DNS name, in bytes.
const MOST: usize = 253;

/// Splits `host:port` as nodes write it. The host may be empty, or an IPv6 address with or without brackets.
pub(super) fn host_and_port(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    Some((bare.unwrap_or(host), port.parse().ok()?))
}

/// Splits `host:port` of a URL. IPv6 addresses have brackets, because their last group could be a port.
pub(super) fn host_and_port_of_url(address: &str) -> Option<(&str, u16)> {
    let (host, port) = host_and_port(address)?;
    let is_ipv6 = host.parse::<Ipv6Addr>().is_ok();
    let is_clear = address.starts_with('[') == is_ipv6 && (is_ipv6 || !host.contains(':'));
    is_clear.then_some((host, port))
}

/// Formats an address for people and URLs. IPv6 addresses get brackets, because their last group could be a port.
pub(super) fn address_of(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Whether a text from a server can be a host: a name or an address. Errors and logs show it.
pub(super) fn is_host(text: &str) -> bool {
    (1..=MOST).contains(&text.len()) && !text.contains(|c: char| c.is_control() || c.is_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv6_address_has_brackets_where_people_read_it() {
        for (address, host, written) in [
            ("::1:7000", "::1", "[::1]:7000"),
            ("[::1]:7000", "::1", "[::1]:7000"),
            (":7000", "", ":7000"),
            ("a:7000", "a", "a:7000"),
        ] {
            assert_eq!(host_and_port(address), Some((host, 7000)));
            assert_eq!(address_of(host, 7000), written);
        }
        assert_eq!(host_and_port("a"), None);
    }

    #[test]
    fn ipv6_address_of_a_url_must_have_brackets() {
        assert_eq!(host_and_port_of_url("[::1]:7000"), Some(("::1", 7000)));
        assert_eq!(host_and_port_of_url("a:7000"), Some(("a", 7000)));
        for address in ["::1:7000", "::1", "[a]:7000", "[::1]", "[::1]:x", "a", "a:b:1", "[::1:7000", ""] {
            assert_eq!(host_and_port_of_url(address), None, "{address}");
        }
    }
}
