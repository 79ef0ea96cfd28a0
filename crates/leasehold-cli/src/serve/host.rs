//! The accepted values of the `Host` header.
//!
//! In a DNS rebinding attack, a malicious page resolves its own name to this machine. The browser then treats both as
//! one origin, and lets the malicious page read the responses. The `Host` header of its requests contains the malicious
//! name.

use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri};
use std::net::IpAddr;

/// The name of this machine, and the names from `--host`.
#[derive(Clone, Debug)]
pub(super) struct Hosts(Vec<String>);

impl Hosts {
    pub(super) fn of_this_machine(more: &[String]) -> Self {
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self::new([&[name], more].concat().as_slice())
    }

    fn new(names: &[String]) -> Self {
        let names = names.iter().map(|name| name.trim().to_ascii_lowercase());
        Self(names.filter(|name| !name.is_empty()).collect())
    }

    /// Returns whether `serve` accepts the host of a request.
    pub(super) fn are_meant(&self, uri: &Uri, headers: &HeaderMap, came_to: IpAddr) -> bool {
        let mut named = headers.get_all(HOST).iter();
        let (Some(host), None) = (named.next(), named.next()) else { return false };
        let Some(host) = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok()) else { return false };
        // The request line of a proxy request also contains a host.
        let both = [Some(&host), uri.authority()];
        both.into_iter().flatten().all(|authority| self.is_ours(authority, came_to))
    }

    fn is_ours(&self, authority: &Authority, came_to: IpAddr) -> bool {
        if authority.as_str().contains('@') {
            return false;
        }
        let host = authority.host().to_ascii_lowercase();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        match host.parse::<IpAddr>() {
            Ok(address) => {
                let address = address.to_canonical();
                address.is_loopback() || address == came_to.to_canonical() || self.0.iter().any(|name| name == host)
            }
            Err(_) => host == "localhost" || self.0.iter().any(|name| name == host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_are_refused() {
        let hosts = Hosts::new(&["Locks.Example.org".to_owned()]);
        let came_to = "192.0.2.7".parse().expect("an address");
        let is_meant = |host: &str, uri: &str| {
            let headers = HeaderMap::from_iter([(HOST, host.parse().expect("a value"))]);
            hosts.are_meant(&uri.parse().expect("a target"), &headers, came_to)
        };
        for host in [
            "localhost",
            "LOCALHOST:8090",
            "127.0.0.1:1",
            "127.9.9.9",
            "[::1]:80",
            "192.0.2.7",
            "locks.example.org:443",
        ] {
            assert!(is_meant(host, "/"), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "192.0.2.8",
            "0.0.0.0",
            "evil@localhost",
            "a b",
        ] {
            assert!(!is_meant(host, "/"), "{host}");
        }
        assert!(!is_meant("localhost", "http://evil.example/"), "the request line counts");
        assert!(is_meant("localhost", "http://127.0.0.1:8090/"));
        assert!(!hosts.are_meant(&Uri::from_static("/"), &HeaderMap::new(), came_to), "no Host header");
        let twice = HeaderMap::from_iter([(HOST, "localhost".parse().expect("a value"))]);
        let mut twice = twice;
        twice.append(HOST, "evil.example".parse().expect("a value"));
        assert!(!hosts.are_meant(&Uri::from_static("/"), &twice, came_to));
    }
}
