//! Connects a client by the command-line options.

use crate::args::ServerOptions;
use crate::certificates::Certificates;
use crate::duration;
use crate::failure::{Exit, Failure};
use crate::files::{one_line, read};
use crate::output;
use crate::run;
use crate::shown::counted;
use leasehold::{Client, ClientBuilder, ConnectError, Credentials};
use std::env::VarError;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// Timeout of the client's shutdown at the end of a command.
pub(crate) const FAREWELL: Duration = Duration::from_secs(2);

/// The first and the longest pause between attempts to connect.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

/// The shortest `connect_deadline` that the library accepts.
const SHORTEST: Duration = Duration::from_millis(10);

/// Connects to the server from the options or the environment.
///
/// # Errors
///
/// The options are contradictory or incomplete, a file cannot be read, or the connect fails.
pub(crate) async fn connect(options: &ServerOptions, as_whom: &str) -> Result<Client, Failure> {
    Ok(attempt(options, None, as_whom, None, None).await??)
}

/// How `run` connects.
pub(crate) struct Patience<'a> {
    pub(crate) lease: Option<Duration>,
    pub(crate) as_whom: &'a str,
    /// The reason for the locks.
    pub(crate) note: Option<&'a str>,
    /// The time limit; `None` for no limit.
    pub(crate) limit: Option<Duration>,
    /// The option that sets the limit.
    pub(crate) option: &'static str,
    /// Whether to retry until the server is reachable. Otherwise the limit applies to one attempt.
    pub(crate) waits: bool,
}

/// Connects as [`connect`] does, and retries until the time limit. A permanent failure ends the wait at once. Each
/// temporary failure calls `hears`.
///
/// # Errors
///
/// As [`connect`], or the server was not reachable in time. The message then contains the error of the last attempt.
pub(crate) async fn connect_with(
    patience: &Patience<'_>,
    options: &ServerOptions,
    mut hears: impl FnMut(&Failure),
) -> Result<Client, Failure> {
    let begun = Instant::now();
    let [mut pause, longest] = PAUSES;
    loop {
        let left = patience.limit.map(|limit| limit.saturating_sub(begun.elapsed()));
        let error = match attempt(options, patience.lease, patience.as_whom, patience.note, left).await? {
            Ok(client) => return Ok(client),
            Err(error) => error,
        };
        let passes = matches!(error, ConnectError::Unreachable { .. } | ConnectError::Loading { .. });
        let failure = Failure::from(error);
        let left = patience.limit.map_or(Duration::MAX, |limit| limit.saturating_sub(begun.elapsed()));
        // Leave time for a last attempt before the limit.
        let pause_left = left.saturating_sub(PAUSES[0]);
        let over = pause_left.is_zero();
        if !passes || !patience.waits || over {
            // An attempt may fail before its limit, for example with a refused connection.
            let limit = patience.limit.filter(|limit| passes && (patience.waits || begun.elapsed() >= *limit));
            return Err(match limit {
                Some(limit) => failure.in_other_words(|text| within(text, limit, patience.option)),
                None => failure,
            });
        }
        hears(&failure);
        tokio::time::sleep(pause.min(pause_left)).await;
        pause = (pause * 2).min(longest);
    }
}

/// Replaces the limit of one attempt in an error message with the caller's limit.
fn within(text: &str, limit: Duration, option: &str) -> String {
    let reason = text.split_once("; retried for").map_or(text, |(reason, _)| reason);
    let reason = reason.split_once("; try again in a moment").map_or(reason, |(reason, _)| reason);
    format!("{reason}; waited for {limit:?} ({option})")
}

/// Makes one attempt to connect, within the limits of the caller and of the URL.
async fn attempt(
    options: &ServerOptions,
    lease: Option<Duration>,
    as_whom: &str,
    note: Option<&str>,
    limit: Option<Duration>,
) -> Result<Result<Client, ConnectError>, Failure> {
    let (builder, url) = prepare(options, lease, as_whom, limit)?;
    let builder = builder.announce_note(note.unwrap_or_default());
    Ok(builder.connect(&url).await)
}

/// Connects for a command that reports outages: the client keeps retrying an unreachable server.
///
/// # Errors
///
/// As [`connect`], except for an unreachable server.
pub(crate) async fn connect_or_wait(options: &ServerOptions, as_whom: &str) -> Result<Client, Failure> {
    match connect(options, as_whom).await {
        Err(failure) if failure.exit() == Exit::Unreachable => {
            output::note(&format!("{failure}; retrying"), options.json);
            let (builder, url) = prepare(options, None, as_whom, None)?;
            Ok(builder.connect_lazy(&url)?)
        }
        other => other,
    }
}

/// Returns the settings of a client, and the URL of its server.
fn prepare(
    options: &ServerOptions,
    lease: Option<Duration>,
    as_whom: &str,
    limit: Option<Duration>,
) -> Result<(ClientBuilder, String), Failure> {
    let mut url = url(options)?;
    let builder = Client::builder().announce(as_whom).announce_within(run::around());
    if let Some(lease) = lease {
        url = with_setting(&url, "lease", &format!("{}ms", lease.as_millis()));
    }
    // The URL's limit applies if it is shorter, or if the library cannot parse it.
    let own = setting(&url, "connect_deadline").map(|own| duration::parse(&own).ok());
    if let Some(limit) = limit.filter(|limit| own.is_none_or(|own| own.is_some_and(|own| own > *limit))) {
        url = with_setting(&url, "connect_deadline", &format!("{}ms", limit.max(SHORTEST).as_millis()));
    }
    Ok((with_secrets(builder, &url, options)?, url))
}

/// Returns the settings for raw commands, and the URL of the server.
///
/// # Errors
///
/// As [`connect`], except for errors from the server.
pub(crate) fn raw(options: &ServerOptions, patience: Duration) -> Result<(ClientBuilder, String), Failure> {
    let url = with_setting(&url(options)?, "command_timeout", &format!("{}ms", patience.as_millis()));
    Ok((with_secrets(Client::builder(), &url, options)?, url))
}

/// Adds the certificates and the password file. Each connect rereads the password file.
fn with_secrets(mut builder: ClientBuilder, url: &str, options: &ServerOptions) -> Result<ClientBuilder, Failure> {
    if let Some(path) = options.password_file.clone() {
        let user = parts(url).1.and_then(|user| user.split(':').next()).map(decoded).unwrap_or_default();
        builder = builder.credentials(move || {
            let password = read(&path).and_then(|bytes| one_line(bytes, &path)).map_err(|failure| failure.to_string());
            let user = user.clone();
            async move {
                let password = password?;
                Ok(if user.is_empty() {
                    Credentials::of_default_user(password)
                } else {
                    Credentials::new(user, password)
                })
            }
        });
    }
    let certificates = Certificates::of(options)?;
    if let Some(ca) = certificates.ca {
        builder = builder.tls_ca(ca);
    }
    if let Some((chain, key)) = certificates.identity {
        builder = builder.tls_identity(chain, key);
    }
    Ok(builder)
}

/// Returns the URL with password and prefix.
///
/// # Errors
///
/// No server URL is set, two passwords are set, or the password file cannot be read.
pub(crate) fn url(options: &ServerOptions) -> Result<String, Failure> {
    let mut url = match &options.url {
        // Every user of the machine can read the arguments of every process.
        Some(url) if has_password(url) => {
            return Err(usage(
                "--url contains a password, which every user of this machine can read; set LEASEHOLD_URL or \
                 LEASEHOLD_PASSWORD instead, or use --password-file",
            ));
        }
        Some(url) => url.clone(),
        None => variable("LEASEHOLD_URL")?
            .map_or_else(|| variable("REDIS_URL"), |url| Ok(Some(url)))?
            .or_else(|| options.from_file.url.clone())
            .ok_or_else(|| {
                usage("no server URL; use --url redis://host:6379, or set LEASEHOLD_URL, or url in /etc/leasehold.toml")
            })?,
    };
    if let Some(odd) = url.chars().next().filter(|first| !first.is_ascii_alphanumeric()) {
        let text = format!(
            "the URL begins with {odd:?}; it must begin with its scheme, such as redis://; remove quotes and blanks from a docker --env-file"
        );
        return Err(usage(&text));
    }
    let password = match &options.password_file {
        Some(path) => Some(one_line(read(path)?, path)?),
        None => variable("LEASEHOLD_PASSWORD")?.or_else(|| options.from_file.password.clone()),
    };
    if let Some(password) = password {
        url = with_password(&url, &password)?;
    }
    if let Some(prefix) = &options.prefix {
        if prefix.is_empty() {
            return Err(usage("--prefix is empty; set a prefix, or remove the option"));
        }
        url = with_setting(&url, "prefix", prefix);
    }
    Ok(url)
}

/// Returns the value of an environment variable. An empty value counts as unset.
///
/// # Errors
///
/// The value is not UTF-8. Ignoring it could connect to another server, or without a password.
pub(crate) fn variable(name: &str) -> Result<Option<String>, Failure> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(usage(&format!("{name} is not UTF-8; percent-encode its other bytes"))),
    }
}

/// Returns the prefix of every lock name, from the option or the URL.
pub(crate) fn prefix(options: &ServerOptions) -> String {
    setting(&url(options).unwrap_or_default(), "prefix").unwrap_or_default()
}

/// Returns a setting from the query of a URL. The last occurrence counts.
fn setting(url: &str, name: &str) -> Option<String> {
    let settings = url.split_once('?').map_or("", |(_, settings)| settings);
    let all = form_urlencoded::parse(settings.as_bytes()).filter(|(found, _)| found == name);
    all.last().map(|(_, value)| value.into_owned())
}

/// Returns the URL of the server for output, without user, password and settings.
///
/// # Errors
///
/// As [`url`].
pub(crate) fn place(options: &ServerOptions) -> Result<String, Failure> {
    Ok(without_secrets(&url(options)?))
}

/// Returns the message about names that this user may not inspect. They may be held locks.
pub(crate) fn unseen(count: u64, refusal: &str) -> String {
    let names = counted(i128::from(count), "matching name");
    format!("cannot inspect {names}, which may be held locks: {refusal}")
}

fn without_secrets(url: &str) -> String {
    let (scheme, _, address, _) = parts(url);
    format!("{scheme}://{address}")
}

/// Splits a URL into scheme, user, address, and settings with their question mark.
fn parts(url: &str) -> (&str, Option<&str>, &str, &str) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("redis", url));
    let (rest, settings) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
    // The path of a socket may contain an @, and the user comes before the path.
    let end = if scheme.ends_with("unix") { rest.find('/').unwrap_or(rest.len()) } else { rest.len() };
    match rest[..end].rfind('@') {
        Some(at) => (scheme, Some(&rest[..at]), &rest[at + 1..], settings),
        None => (scheme, None, rest, settings),
    }
}

/// Returns whether a URL contains a password for the server or its Sentinels.
pub(crate) fn has_password(url: &str) -> bool {
    let (_, user, _, settings) = parts(url);
    let mut settings = form_urlencoded::parse(settings.trim_start_matches('?').as_bytes());
    user.is_some_and(|user| user.contains(':')) || settings.any(|(name, _)| name == "sentinelPassword")
}

/// Adds a password to the URL, after the user if there is one.
fn with_password(url: &str, password: &str) -> Result<String, Failure> {
    if has_password(url) {
        return Err(usage(
            "the URL contains a password, and LEASEHOLD_PASSWORD, --password-file or the configuration file sets another; remove one",
        ));
    }
    let (scheme, user, address, settings) = parts(url);
    Ok(format!("{scheme}://{}:{}@{address}{settings}", user.unwrap_or_default(), encoded(password)))
}

/// Replaces a setting of the URL.
fn with_setting(url: &str, name: &str, value: &str) -> String {
    let url = url.trim_ascii();
    let (address, query) = url.split_once('?').unwrap_or((url, ""));
    let others = query.split('&').filter(|part| !part.is_empty() && part.split('=').next() != Some(name));
    let all: Vec<_> = others.map(str::to_owned).chain([format!("{name}={}", encoded(value))]).collect();
    format!("{address}?{}", all.join("&"))
}

/// Decodes a part of a URL.
fn decoded(part: &str) -> String {
    percent_encoding::percent_decode_str(part).decode_utf8_lossy().into_owned()
}

/// Percent-encodes a text for a URL.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut done, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            done.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(done, "%{byte:02X}");
        }
        done
    })
}

fn usage(text: &str) -> Failure {
    Failure::new(Exit::Usage, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_go_where_the_user_stands_and_are_encoded() {
        for (url, expected) in [
            ("redis://host:1/2", "redis://:a%40b%3A@host:1/2"),
            ("redis://app@host", "redis://app:a%40b%3A@host"),
            ("rediss-cluster://host?node=b:2", "rediss-cluster://:a%40b%3A@host?node=b:2"),
            ("redis+unix:///run/redis.sock", "redis+unix://:a%40b%3A@/run/redis.sock"),
            ("redis+unix:///run/a@b.sock", "redis+unix://:a%40b%3A@/run/a@b.sock"),
            ("redis://host?prefix=me@host:", "redis://:a%40b%3A@host?prefix=me@host:"),
            ("redis://app@host/2?announce=me@host", "redis://app:a%40b%3A@host/2?announce=me@host"),
        ] {
            assert_eq!(with_password(url, "a@b:").expect(url), expected);
        }
        assert!(with_password("redis://:x@host", "y").is_err());
    }

    #[test]
    fn place_of_a_server_has_no_secrets() {
        for (url, place) in [
            ("redis://app:p%40ss@host:1/2?lease=9ms", "redis://host:1/2"),
            ("redis-sentinel://:x@a:1/m?sentinelPassword=y&node=b:1", "redis-sentinel://a:1/m"),
            ("redis-sentinel://:x@a:1/m?sentinelPassword=y@z", "redis-sentinel://a:1/m"),
            ("redis+unix:///run/redis.sock", "redis+unix:///run/redis.sock"),
            ("redis+unix://app:x@/run/a@b.sock?prefix=a@b", "redis+unix:///run/a@b.sock"),
        ] {
            assert_eq!(without_secrets(url), place);
        }
    }

    #[test]
    fn passwords_in_a_url_are_noticed() {
        for url in ["redis://:x@host", "redis://app:x@host", "redis-sentinel://host?sentinelPassword=x"] {
            assert!(has_password(url), "{url}");
        }
        for url in [
            "redis://host:6379",
            "redis://app@host:6379",
            "redis+unix:///run/redis.sock",
            "redis+unix:///run/a:b@c.sock",
            "redis-cluster://a?node=b:1",
            "redis://host?prefix=me@host:",
            "redis://host?announce=me:you@host",
            "redis://host?prefix=sentinelPassword=",
        ] {
            assert!(!has_password(url), "{url}");
        }
    }

    #[test]
    fn settings_replace_those_that_the_url_has() {
        assert_eq!(with_setting("redis://host", "prefix", "a&b:"), "redis://host?prefix=a%26b%3A");
        assert_eq!(with_setting("redis://host?lease=2s&node=b:1", "lease", "9ms"), "redis://host?node=b:1&lease=9ms");
    }
}
