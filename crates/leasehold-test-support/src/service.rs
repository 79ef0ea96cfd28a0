//! Imitations of managed services, proxies and other implementations: a real server behind a proxy that refuses what they refuse.
//!
//! A [`Profile`] is data, from the documentation that it names. It is not the service: it has no failover, and only the refusals that
//! matter for locks.

mod profiles;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use crate::{Binary, Proxy, Request, Resp, Server, proxy::Watch, splitting::serving_all_slots};

/// What a service refuses, and how its answers differ from those of a server.
#[derive(Debug)]
pub struct Profile {
    /// The name, for `cargo xtask services`.
    pub name: &'static str,
    /// The documentation.
    pub source: &'static str,
    /// What clients see of its servers.
    pub shape: Shape,
    /// Refused commands, such as `WAIT` and `CLIENT KILL`.
    pub refused: &'static [&'static str],
    /// The text of a refusal.
    pub refusal: Refusal,
    /// The keys that a script may use.
    pub keys: Keys,
    /// The numbers of connections.
    pub ids: Ids,
    /// Whether it answers RESP2 alone.
    pub resp2: bool,
    /// Fields of `INFO` with other values. A field without a value is missing.
    pub info: &'static [(&'static str, &'static str)],
    /// Whether locks can work there.
    pub outcome: Outcome,
}

/// What clients see of the servers of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A single server.
    Standalone,
    /// A single server, which refuses commands with keys of several slots.
    Splitting,
    /// A cluster of one node.
    OneNode,
}

/// The text of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// As for a command that does not exist.
    Unknown,
    /// As for a command that the user may not call.
    NoPermission,
    /// The connection ends.
    HangsUp,
}

/// The keys that a script may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Any.
    Any,
    /// Any, but each call declares a key.
    OneDeclared,
    /// Those that the call declares.
    Declared,
}

/// The numbers of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// Those of the server.
    OfServer,
    /// Those of a proxy. Each connection sees another proxy, and no proxy can kill the connections of another one.
    OfProxy,
}

/// Whether locks can work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The behaviour suite passes.
    Works,
    /// Nobody can subscribe, so only locks that poll can be waited for.
    Polls,
    /// A connect or an acquire fails, with an error that has this text.
    Fails(&'static str),
}

impl Profile {
    /// All profiles.
    pub const ALL: &'static [Self] = profiles::ALL;

    /// The profile of a name.
    #[must_use]
    pub fn of(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|profile| profile.name == name)
    }

    /// Whether a request is refused by its name.
    fn refuses(&self, argv: &[Vec<u8>]) -> bool {
        let is = |at: usize, word: &str| argv.get(at).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
        self.refused.iter().any(|refused| refused.split(' ').enumerate().all(|(at, word)| is(at, word)))
            || (self.resp2 && is(0, "HELLO"))
    }

    /// The error for a request, if the service refuses it.
    fn error(&self, argv: &[Vec<u8>]) -> Option<Resp> {
        if self.keys != Keys::Any && declared(argv).is_some_and(<[_]>::is_empty) {
            return Some(Resp::Error("ERR Lua scripts without any input keys are not supported.".to_owned()));
        }
        if !self.refuses(argv) {
            return None;
        }
        let name = argv.first().map(|name| String::from_utf8_lossy(name).into_owned()).unwrap_or_default();
        Some(Resp::Error(match self.refusal {
            Refusal::NoPermission => {
                format!("NOPERM this user has no permissions to run the '{}' command", name.to_lowercase())
            }
            Refusal::Unknown | Refusal::HangsUp => format!("ERR unknown command '{name}', with args beginning with: "),
        }))
    }
}

/// The keys that the call of a script declares. `None` for another command.
fn declared(argv: &[Vec<u8>]) -> Option<&[Vec<u8>]> {
    let is_script = ["EVAL", "EVALSHA"].iter().any(|name| argv[0].eq_ignore_ascii_case(name.as_bytes()));
    let count: usize = std::str::from_utf8(argv.get(2).filter(|_| is_script)?).ok()?.parse().ok()?;
    argv.get(3..3 + count)
}

/// A running imitation of a service.
#[derive(Debug)]
pub struct Service {
    profile: &'static Profile,
    proxy: Proxy,
    server: Server,
}

impl Service {
    /// Starts a server, and in front of it a proxy that answers as the service does.
    ///
    /// # Panics
    ///
    /// When the server does not start.
    #[must_use]
    #[track_caller]
    pub fn start(profile: &'static Profile, binary: &Binary) -> Self {
        let server = match profile.shape {
            Shape::Standalone => Server::builder().binary(binary).start(),
            Shape::Splitting | Shape::OneNode => serving_all_slots(binary),
        };
        let pretends = Arc::new(Pretends { profile, address: OnceLock::new(), limited: Mutex::default() });
        let proxy = Proxy::watched(server.addr(), pretends.clone());
        pretends.address.set(proxy.addr()).expect("the only address");
        Self { profile, proxy, server }
    }

    /// The profile.
    #[must_use]
    pub fn profile(&self) -> &'static Profile {
        self.profile
    }

    /// The URL for clients.
    #[must_use]
    pub fn url(&self) -> String {
        match self.profile.shape {
            Shape::OneNode => self.proxy.url().replacen("redis://", "redis-cluster://", 1),
            Shape::Standalone | Shape::Splitting => self.proxy.url(),
        }
    }

    /// The address for clients.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.proxy.addr()
    }

    /// The server behind the proxy, which refuses nothing.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }
}

/// Answers as the service does.
struct Pretends {
    profile: &'static Profile,
    /// The address of the proxy.
    address: OnceLock<SocketAddr>,
    /// Connections that have a user of their own, and whether the user is limited to some keys.
    limited: Mutex<BTreeMap<u64, bool>>,
}

impl Pretends {
    /// The commands that limit the user of a connection to the keys of a script.
    fn limits(&self, connection: u64, argv: &[Vec<u8>]) -> Vec<Vec<Vec<u8>>> {
        let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
        let user = format!("user{connection}");
        let mut limited = self.limited.lock().unwrap_or_else(PoisonError::into_inner);
        let mut commands = Vec::new();
        let is_limited = limited.entry(connection).or_insert_with(|| {
            commands.push(words(&[
                "ACL",
                "SETUSER",
                &user,
                "reset",
                "on",
                "nopass",
                "+@all",
                "allkeys",
                "allchannels",
            ]));
            commands.push(words(&["AUTH", &user, "none"]));
            false
        });
        if let Some(keys) = declared(argv) {
            let mut rule = words(&["ACL", "SETUSER", &user, "resetkeys"]);
            rule.extend(keys.iter().map(|key| pattern(key)));
            commands.push(rule);
            *is_limited = true;
        } else if std::mem::take(is_limited) {
            commands.push(words(&["ACL", "SETUSER", &user, "allkeys"]));
        }
        commands
    }

    /// `CLUSTER SLOTS` with the proxy as the only node.
    fn slots(&self, reply: &Resp) -> Option<Resp> {
        let proxy = self.address.get()?;
        let node = |node: &Resp| {
            let mut parts = node.elements().to_vec();
            parts[0] = Resp::Bulk(proxy.ip().to_string().into_bytes());
            parts[1] = Resp::Int(i64::from(proxy.port()));
            Resp::Array(parts)
        };
        let range = |range: &Resp| {
            let (slots, nodes) = range.elements().split_at(2);
            Resp::Array(slots.iter().cloned().chain(nodes.iter().map(node)).collect())
        };
        Some(Resp::Array(reply.elements().iter().map(range).collect()))
    }

    /// `INFO` of the service.
    fn info(&self, text: &str) -> String {
        let mut lines = Vec::new();
        for line in text.lines() {
            let field = line.split(':').next().unwrap_or_default();
            match self.profile.info.iter().find(|(name, _)| *name == field) {
                Some((_, "")) => {}
                Some((name, value)) => lines.push(format!("{name}:{value}")),
                None if self.profile.shape == Shape::Splitting => {
                    lines.push(
                        line.replace("_mode:cluster", "_mode:standalone")
                            .replace("cluster_enabled:1", "cluster_enabled:0"),
                    );
                }
                None => lines.push(line.to_owned()),
            }
        }
        // Fields that the server does not have.
        let own = self.profile.info.iter().filter(|(name, value)| {
            !value.is_empty()
                && text.contains("redis_version:")
                && !lines.iter().any(|line| line.starts_with(&format!("{name}:")))
        });
        let own: Vec<_> = own.map(|(name, value)| format!("{name}:{value}")).collect();
        let at = lines.iter().position(|line| line.starts_with("redis_version:")).map_or(lines.len(), |at| at + 1);
        lines.splice(at..at, own);
        lines.join("\r\n") + "\r\n"
    }
}

impl Watch for Pretends {
    fn sent_for(&self, connection: u64, argv: &[Vec<u8>]) -> Option<Vec<Vec<Vec<u8>>>> {
        let refused = self.profile.error(argv).is_some() || self.id_for(connection, argv).is_some();
        let mut commands =
            if self.profile.keys == Keys::Declared && !refused { self.limits(connection, argv) } else { Vec::new() };
        if commands.is_empty() && !refused {
            return None;
        }
        commands.push(if refused { vec![b"PING".to_vec()] } else { argv.to_vec() });
        Some(commands)
    }

    fn answered(&self, _server: &str, request: &Request, reply: &Resp) -> Option<Resp> {
        if let Some(error) = self.profile.error(&request.argv) {
            return Some(error);
        }
        if let Some(id) = self.id_for(request.connection, &request.argv) {
            return Some(id);
        }
        let word = |at: usize| request.argv.get(at).map(|word| String::from_utf8_lossy(word).to_ascii_uppercase());
        match (request.command().as_str(), word(1).as_deref(), reply) {
            ("INFO", _, Resp::Bulk(text)) => Some(Resp::Bulk(self.info(&String::from_utf8_lossy(text)).into_bytes())),
            ("CLUSTER", Some("SLOTS"), Resp::Array(_)) if self.profile.shape == Shape::OneNode => self.slots(reply),
            ("HELLO", _, Resp::Map(entries)) if self.profile.ids == Ids::OfProxy => {
                let id = |(key, value): &(Resp, Resp)| {
                    let value = if key.as_str() == Some("id") { own_id(request.connection) } else { value.clone() };
                    (key.clone(), value)
                };
                Some(Resp::Map(entries.iter().map(id).collect()))
            }
            _ => None,
        }
    }

    fn refused(&self, _target: SocketAddr) {}

    fn hangs_up(&self, argv: &[Vec<u8>]) -> bool {
        self.profile.refusal == Refusal::HangsUp && self.profile.refuses(argv)
    }
}

impl Pretends {
    /// The reply of a proxy with numbers of its own.
    fn id_for(&self, connection: u64, argv: &[Vec<u8>]) -> Option<Resp> {
        let is = |at: usize, word: &str| argv.get(at).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
        if self.profile.ids == Ids::OfServer || !is(0, "CLIENT") {
            return None;
        }
        let Resp::Int(id) = own_id(connection) else { return None };
        if is(1, "ID") {
            return Some(Resp::Int(id));
        }
        if is(1, "INFO") {
            let text = format!("id={id} addr=10.0.0.1:50000 laddr=10.0.{}.1:6379 name=", connection % 250);
            return Some(Resp::Bulk(text.into_bytes()));
        }
        is(1, "KILL").then_some(Resp::Int(0))
    }
}

/// The number that a proxy gives to a connection.
fn own_id(connection: u64) -> Resp {
    Resp::Int(i64::try_from(connection % 1000).unwrap_or_default() + 1)
}

/// The rule for a key, as a pattern that matches the key. A rule contains no space and no zero byte.
fn pattern(key: &[u8]) -> Vec<u8> {
    let mut pattern = vec![b'~'];
    for byte in key {
        match byte {
            b'*' | b'?' | b'[' | b']' | b'\\' => pattern.extend([b'\\', *byte]),
            0 | b' ' | b'\t'..=b'\r' => pattern.push(b'?'),
            _ => pattern.push(*byte),
        }
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_has_a_name_of_its_own_and_a_source() {
        for (at, profile) in Profile::ALL.iter().enumerate() {
            assert!(!profile.source.is_empty(), "{}", profile.name);
            assert!(Profile::ALL[..at].iter().all(|other| other.name != profile.name), "{}", profile.name);
        }
    }

    #[test]
    fn a_script_may_use_no_key_that_its_call_does_not_declare() {
        let strict = Profile::ALL.iter().find(|profile| profile.keys == Keys::Declared).expect("a strict profile");
        let service = Service::start(strict, &Binary::any().expect("a server"));
        let mut connection = crate::Connection::connect(service.addr()).expect("a connection");
        let mut eval = |script: &str, keys: &[&str]| {
            let count = keys.len().to_string();
            connection.command(&[&["EVAL", script, &count], keys].concat()).expect("a reply")
        };
        let set = "return redis.call('SET', KEYS[1], 1)";
        assert!(!eval(set, &["a *[b"]).is_error());
        assert!(eval("return redis.call('SET', 'other', 1)", &["a"]).is_error());
        assert!(eval("return 1", &[]).is_error(), "no key");
        assert_eq!(connection.command(&["GET", "a *[b"]).expect("a reply"), Resp::Bulk(b"1".to_vec()));
    }
}
