//! Plain commands to the server, for what no lock needs: its description of itself, and its clock.

use crate::args::ServerOptions;
use crate::certificates::Certificates;
use crate::connection;
use leasehold::fred::clients::{Client, WithOptions};
use leasehold::fred::interfaces::ClientLike as _;
use leasehold::fred::rustls::pki_types::pem::PemObject as _;
use leasehold::fred::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use leasehold::fred::rustls::{ClientConfig, RootCertStore, crypto};
use leasehold::fred::rustls_native_certs::load_native_certs;
use leasehold::fred::types::config::{
    Config, ConnectionConfig, HostMapping, Options, Server, ServerConfig, TlsConfig, TlsHostMapping,
};
use leasehold::fred::types::{ClusterHash, CustomCommand, FromValue};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// How long a command may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// The parameters of a URL that lead to the server. The others are settings of a lock's client.
const OF_THE_WAY: [&str; 4] = ["node", "sentinelServiceName", "sentinelUsername", "sentinelPassword"];

/// A connection for plain commands.
pub(crate) struct Raw(Client);

impl Raw {
    /// Connects to the same server as the locks' client.
    ///
    /// # Errors
    ///
    /// The reason, in words that hold no password.
    pub(crate) async fn connect(options: &ServerOptions) -> Result<Self, String> {
        let config = config(options)?;
        let why = match Self::open(config.clone()).await {
            Ok(raw) => return Ok(raw),
            Err(why) => why,
        };
        // Without one of its nodes a cluster cannot be connected to as a whole. Any node that is there tells of it.
        if let ServerConfig::Clustered { hosts, .. } = &config.server {
            for host in hosts {
                let server = ServerConfig::Centralized { server: host.clone() };
                if let Ok(raw) = Self::open(Config { server, ..config.clone() }).await {
                    return Ok(raw);
                }
            }
        }
        Err(why)
    }

    async fn open(config: Config) -> Result<Self, String> {
        let timeouts = ConnectionConfig {
            connection_timeout: PATIENCE,
            internal_command_timeout: PATIENCE,
            max_command_attempts: 1,
            ..ConnectionConfig::default()
        };
        let client = Client::new(config, None, Some(timeouts), None);
        client.init().await.map_err(|error| in_words(error.details()))?;
        Ok(Self(client))
    }

    /// The servers that keep locks: the one that there is, or the primaries of a cluster, whose order is that of their addresses.
    pub(crate) fn primaries(&self) -> Vec<Node> {
        if !self.0.is_clustered() {
            return vec![self.any()];
        }
        let mut servers = self.0.active_connections();
        servers.sort_by_key(ToString::to_string);
        let node = |server: Server| Node { address: Some(written(&server)), client: self.0.with_cluster_node(server) };
        servers.into_iter().map(node).collect()
    }

    /// The server that there is, or of a cluster the node of the key that a command names.
    pub(crate) fn any(&self) -> Node {
        Node { address: None, client: self.0.with_options(&Options::default()) }
    }

    /// Removes what locks leave behind under a name that was made up for them: the counter of a semaphore, the register of fencing tokens, and
    /// the marks of a queue. A server that does not answer is given up.
    pub(crate) async fn remove(&self, options: &ServerOptions, name: &str) {
        let name = format!("{}{name}", connection::prefix(options));
        let removed = async {
            for key in [name.clone(), format!("redisson_lock_token:{{{name}}}"), format!("leasehold:1:fair:{{{name}}}")]
            {
                // A user without the right to do so leaves three small keys.
                let _ = self.any().ask::<i64>("DEL", &[&key]).await;
            }
            let _ = self.0.quit().await;
        };
        let _ = tokio::time::timeout(PATIENCE, removed).await;
    }
}

/// The Sentinels that a URL names, and the service that they watch.
pub(crate) struct Sentinels {
    pub(crate) service: String,
    hosts: Vec<Server>,
    /// The way to one of them, once its address is in it.
    way: Config,
}

impl Sentinels {
    /// The Sentinels by which the server is found; `None` if it is found without.
    pub(crate) fn of(options: &ServerOptions) -> Option<Self> {
        let way = config(options).ok()?;
        let ServerConfig::Sentinel { hosts, service_name, username, password } = way.server.clone() else {
            return None;
        };
        let way = Config { username, password, database: None, ..way };
        Some(Self { service: service_name, hosts, way })
    }

    /// The address of each, and what it answers.
    pub(crate) async fn ask(&self, command: &'static str, args: &[&str]) -> Vec<(String, Result<String, String>)> {
        let mut answers = Vec::new();
        for host in &self.hosts {
            let server = ServerConfig::new_centralized(host.host.to_string(), host.port);
            let answer = match Raw::open(Config { server, ..self.way.clone() }).await {
                Ok(raw) => {
                    let answer = raw.any().ask(command, args).await;
                    let _ = raw.0.quit().await;
                    answer
                }
                Err(why) => Err(format!("it cannot be reached: {why}")),
            };
            answers.push((written(host), answer));
        }
        answers
    }
}

/// The words in an error of the system, which fred passes on in the form for programmers.
fn in_words(details: &str) -> String {
    let is_shown = details.starts_with("Os {") || details.starts_with("Custom {");
    let quoted = |before: &str| details.split_once(before).and_then(|(_, rest)| rest.split('"').next());
    let words = quoted("message: \"").or_else(|| quoted("error: \"")).filter(|_| is_shown);
    words.unwrap_or(details).to_owned()
}

/// An address as URLs have it: an IPv6 address has brackets.
fn written(server: &Server) -> String {
    let (host, port) = (&server.host, server.port);
    if host.contains(':') && !host.starts_with('[') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// A server that is asked.
pub(crate) struct Node {
    /// Its address, if it is one of several.
    pub(crate) address: Option<String>,
    client: WithOptions<Client>,
}

impl Node {
    /// The reply to a command.
    ///
    /// # Errors
    ///
    /// The server's refusal, or that it gave no answer.
    pub(crate) async fn ask<R: FromValue>(&self, command: &'static str, args: &[&str]) -> Result<R, String> {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        let call = self.client.custom(CustomCommand::new_static(command, ClusterHash::FirstKey, false), args);
        match tokio::time::timeout(PATIENCE, call).await {
            Ok(reply) => reply.map_err(|error| error.details().to_owned()),
            Err(_) => Err("no answer in time".to_owned()),
        }
    }

    /// The fields of `INFO`.
    ///
    /// # Errors
    ///
    /// As [`Self::ask`].
    pub(crate) async fn info(&self) -> Result<BTreeMap<String, String>, String> {
        let text: String = self.ask("INFO", &["all"]).await?;
        let fields = text.lines().filter_map(|line| line.trim_end().split_once(':'));
        Ok(fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }
}

/// The way to the server, as the locks' client has it.
fn config(options: &ServerOptions) -> Result<Config, String> {
    let url = connection::url(options).map_err(|failure| failure.to_string())?;
    let (scheme, rest) = url.split_once("://").ok_or("the URL has no scheme")?;
    let secure = scheme.starts_with("rediss") || scheme.starts_with("valkeys");
    let kind = scheme.trim_start_matches("redis").trim_start_matches("valkey").trim_start_matches('s');
    let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
    let kept = query.split('&').filter(|part| OF_THE_WAY.contains(&part.split('=').next().unwrap_or_default()));
    let plain = format!("redis{kind}://{address}?{}", kept.collect::<Vec<_>>().join("&"));
    let config = match kind {
        "-cluster" => Config::from_url_clustered(&plain),
        "-sentinel" => Config::from_url_sentinel(&plain),
        "+unix" => Config::from_url_unix(plain.trim_end_matches('?')),
        _ => Config::from_url_centralized(&plain),
    };
    let mut config = config.map_err(|error| error.details().to_owned())?;
    if secure {
        config.tls = Some(tls(options, &config.server)?);
    }
    config.fail_fast = true;
    Ok(config)
}

/// The TLS side of the connection, as the locks' client has it.
fn tls(options: &ServerOptions, server: &ServerConfig) -> Result<TlsConfig, String> {
    let certificates = Certificates::of(options).map_err(|failure| failure.to_string())?;
    let mut roots = RootCertStore::empty();
    match &certificates.ca {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem).flatten() {
                roots.add(certificate).map_err(|error| error.to_string())?;
            }
        }
        None => drop(roots.add_parsable_certificates(load_native_certs().certs)),
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let builder = builder.with_root_certificates(roots);
    let config = match &certificates.identity {
        Some((chain, key)) => {
            let chain = CertificateDer::pem_slice_iter(chain).flatten().collect();
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| error.to_string())?;
            builder.with_client_auth_cert(chain, key).map_err(|error| error.to_string())?
        }
        None => builder.with_no_client_auth(),
    };
    Ok(TlsConfig { connector: config.into(), hostnames: names(server) })
}

/// The names by which the certificates of a cluster's nodes are checked. A cluster that is found by a name may call its nodes by their
/// addresses, for which they have no certificates. That name counts then, as for the locks' client.
fn names(server: &ServerConfig) -> TlsHostMapping {
    // The host of the URL stands behind those of its parameters.
    let ServerConfig::Clustered { hosts, .. } = server else { return TlsHostMapping::None };
    match hosts.last() {
        Some(first) if first.host.parse::<IpAddr>().is_err() => {
            TlsHostMapping::Custom(Arc::new(OneName(first.host.to_string())))
        }
        _ => TlsHostMapping::None,
    }
}

/// The name that the certificates of all nodes are for.
#[derive(Debug)]
struct OneName(String);

impl HostMapping for OneName {
    fn map(&self, _: &IpAddr, _: &str) -> Option<String> {
        Some(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_are_told_in_words() {
        for (details, words) in [
            ("Os { code: 111, kind: ConnectionRefused, message: \"Connection refused\" }", "Connection refused"),
            ("Custom { kind: UnexpectedEof, error: \"tls handshake eof\" }", "tls handshake eof"),
            ("NOAUTH Authentication required.", "NOAUTH Authentication required."),
        ] {
            assert_eq!(in_words(details), words);
        }
    }
}
