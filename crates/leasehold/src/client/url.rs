//! The URL of a server, with settings in its query, and the environment variables that contain it.

use crate::client::builder::{ClientBuilder, PublishCommand, Tuning};
use crate::error::ConnectError;
use crate::link::{ENCODE, ServerTarget};
use std::collections::HashSet;
use std::env::VarError;

/// The environment variables for the URL. The first non-empty variable wins.
const VARIABLES: [&str; 2] = ["LEASEHOLD_URL", "REDIS_URL"];

/// The settings that a URL accepts, named after the builder's methods.
const SETTINGS: [&str; 13] = [
    "prefix",
    "announce",
    "lease",
    "default_wait",
    "recheck",
    "unreachable_after",
    "command_timeout",
    "connect_deadline",
    "require_noeviction",
    "fsync",
    "hand_over",
    "publish",
    "batch_calls",
];

/// Returns the variable and the URL from the environment. An empty variable counts as unset.
///
/// # Errors
///
/// No variable is set, or its value is not Unicode.
pub(crate) fn of_environment(
    value: impl Fn(&str) -> Result<String, VarError>,
) -> Result<(&'static str, String), ConnectError> {
    for variable in VARIABLES {
        match value(variable) {
            Ok(url) if !url.is_empty() => return Ok((variable, url)),
            Ok(_) | Err(VarError::NotPresent) => {}
            Err(VarError::NotUnicode(_)) => {
                return Err(ConnectError::invalid(format!("{variable} is not valid Unicode")));
            }
        }
    }
    let names = VARIABLES.join(" nor ");
    Err(ConnectError::invalid(format!(
        "the environment has no URL of a server: neither {names} is set; set one to a URL such as redis://host:6379"
    )))
}

/// Applies the settings in the query of `url`, and parses the rest.
///
/// # Errors
///
/// The URL is malformed, or its query contains an unknown setting. The error text contains no value, because a value may be a password.
pub(crate) fn read(mut builder: ClientBuilder, url: &str) -> Result<(ClientBuilder, ServerTarget), ConnectError> {
    // A file or a variable may end with a line feed, which does not belong to the last setting.
    let url = url.trim_matches(|end: char| end.is_ascii_whitespace());
    if url.contains(|inner: char| inner.is_ascii_control()) {
        return Err(ConnectError::invalid("the URL contains a line feed or another control character: remove it"));
    }
    if url.contains('#') {
        return Err(ConnectError::invalid(format!(
            "the URL contains a #, and the text after it would be ignored; {ENCODE}"
        )));
    }
    let Some((address, query)) = url.split_once('?') else { return Ok((builder, ServerTarget::parse(url)?)) };
    let of_link = ServerTarget::parameters(url);
    let (mut others, mut said) = (Vec::new(), HashSet::new());
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, _) = part.split_once('=').unwrap_or((part, ""));
        let is_known = SETTINGS.contains(&name) || of_link.contains(&name);
        if is_known && name != "node" && !said.insert(name) {
            return Err(ConnectError::invalid(format!("the URL contains {name} twice: remove one")));
        }
        if SETTINGS.contains(&name) {
            // Values are percent-decoded, as in any URL.
            let value = form_urlencoded::parse(part.as_bytes()).next().map(|(_, value)| value.into_owned());
            builder = set(builder, name, &value.unwrap_or_default())
                .map_err(|form| ConnectError::invalid(format!("{name} in the URL must be {form}")))?;
        } else if of_link.contains(&name) {
            others.push(part);
        } else {
            return Err(unknown(query, part, of_link));
        }
    }
    let rest = if others.is_empty() { address.to_owned() } else { format!("{address}?{}", others.join("&")) };
    Ok((builder, ServerTarget::parse(&rest)?))
}

/// Applies one setting.
///
/// # Errors
///
/// Describes the accepted values.
fn set(builder: ClientBuilder, name: &str, value: &str) -> Result<ClientBuilder, &'static str> {
    let time = || {
        humantime::parse_duration(value).map_err(|_| "a time: a whole number and its unit, such as 500ms, 30s or 1h30m")
    };
    let switch = || value.parse::<bool>().map_err(|_| "true or false");
    // An unset shell variable expands to an empty value. An empty prefix would then select different locks.
    let text = || {
        if value.is_empty() { Err("a text that is not empty; to unset it, remove the parameter") } else { Ok(value) }
    };
    Ok(match name {
        "prefix" => builder.prefix(text()?),
        "announce" => builder.announce(text()?),
        "lease" => builder.lease(time()?),
        "default_wait" => builder.default_wait(time()?),
        "recheck" => builder.tuning(Tuning::new().recheck(time()?)),
        "unreachable_after" => builder.unreachable_after(time()?),
        "command_timeout" => builder.command_timeout(time()?),
        "connect_deadline" => builder.connect_deadline(time()?),
        "require_noeviction" => builder.require_noeviction(switch()?),
        "fsync" => builder.fsync(switch()?),
        "hand_over" => builder.hand_over(switch()?),
        "publish" => builder.tuning(Tuning::new().publish(match value {
            "auto" => PublishCommand::Auto,
            "classic" => PublishCommand::Classic,
            "sharded" => PublishCommand::Sharded,
            _ => return Err("auto, classic or sharded"),
        })),
        "batch_calls" => builder.tuning(Tuning::new().batch_calls(switch()?)),
        _ => return Err("a known setting"),
    })
}

fn unknown(query: &str, part: &str, of_link: &[&str]) -> ConnectError {
    let known = || {
        let names: Vec<_> = SETTINGS.iter().chain(of_link).copied().collect();
        names.join(", ")
    };
    ConnectError::invalid(match part.split_once('=') {
        // The cause may be an unencoded question mark in a password.
        _ if query.contains('@') => {
            format!("the query of the URL contains an unknown setting; {ENCODE}")
        }
        Some((name, _)) => {
            format!("{name:?} in the query of the URL is not a known setting here; known settings: {}", known())
        }
        None => format!("the query of the URL contains a part without a value; known settings: {}", known()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Client;
    use std::time::Duration;

    fn settings(url: &str) -> String {
        let (builder, _) = read(Client::builder().lease(Duration::from_secs(7)), url).expect(url);
        format!("{builder:?}")
    }

    fn refusal(url: &str) -> String {
        read(Client::builder(), url).expect_err(url).to_string()
    }

    #[test]
    fn every_query_setting_does_what_its_method_does() {
        let query = "prefix=a%26b%3A&announce=the+orders&lease=20s&default_wait=2m&recheck=1h&unreachable_after=900ms\
                     &command_timeout=250ms&connect_deadline=3s&require_noeviction=true&fsync=true&hand_over=true&publish=classic\
                     &batch_calls=true";
        let told = Client::builder()
            .prefix("a&b:")
            .announce("the orders")
            .lease(Duration::from_secs(20))
            .default_wait(Duration::from_secs(120))
            .tuning(Tuning::new().recheck(Duration::from_secs(3600)))
            .unreachable_after(Duration::from_millis(900))
            .command_timeout(Duration::from_millis(250))
            .connect_deadline(Duration::from_secs(3))
            .require_noeviction(true)
            .fsync(true)
            .hand_over(true)
            .tuning(Tuning::new().publish(PublishCommand::Classic))
            .tuning(Tuning::new().batch_calls(true));
        assert_eq!(settings(&format!("redis://host?{query}")), format!("{told:?}"));
        let names: Vec<_> = query.split('&').filter_map(|part| Some(part.split_once('=')?.0)).collect();
        assert_eq!(names, SETTINGS, "each setting is tried here");
        assert_eq!(settings("redis://host"), settings("redis://host?lease=7s"), "the URL counts over the builder");
    }

    #[test]
    fn what_leads_to_the_server_stays_beside_the_settings() {
        for (url, label) in [
            ("redis-cluster://a:1?node=b:2&lease=20s&node=c:3&protocol=resp2", "the cluster at a:1, b:2, c:3"),
            ("redis-sentinel://a:1?lease=20s&sentinelServiceName=main", "main, by the Sentinels at a:1"),
            ("redis+unix:///run/redis.sock?prefix=x&db=2", "/run/redis.sock"),
            ("redis://:a%3Fb@host:1/2?&lease=20s&", "host:1"),
        ] {
            assert_eq!(read(Client::builder(), url).expect(url).1.to_string(), label);
        }
    }

    #[test]
    fn what_is_no_setting_is_refused_with_those_that_there_are() {
        let text = refusal("redis://host?leese=20s");
        assert!(
            text.contains("\"leese\"") && text.contains("lease, default_wait") && text.contains("protocol"),
            "{text}"
        );
        // The other topologies.
        assert!(refusal("redis://host?sentinelServiceName=main").contains("not a known setting here"));
        assert!(refusal("redis-cluster://host?db=2").contains("not a known setting here"));
        for url in ["redis://host?lease=20", "redis://host?lease=s", "redis://host?lease=-1s", "redis://host?lease"] {
            assert!(refusal(url).contains("lease in the URL must be a time"), "{url}");
        }
        assert!(refusal("redis://host?lease=99999999999999999999h").contains("a time"));
        assert!(refusal("redis://host?publish=loud").contains("auto, classic or sharded"));
        assert!(refusal("redis://host?require_noeviction=yes").contains("true or false"));
        assert!(refusal("redis://host?hand_over=on").contains("true or false"));
    }

    #[test]
    fn what_would_be_ignored_is_refused() {
        for url in ["redis://host?lease=20s&lease=30s", "redis://host?prefix=a:&lease=20s&prefix=a:"] {
            assert!(refusal(url).contains("twice"), "{url}");
        }
        for url in ["redis://host?protocol=2&protocol=3", "redis+unix:///run/redis.sock?db=1&db=2"] {
            assert!(refusal(url).contains("twice"), "{url}");
        }
        for url in ["redis://host#2", "redis://host/1#2", "redis-cluster://host#", "redis://host?prefix=a#b"] {
            assert!(refusal(url).contains('#'), "{url}");
        }
        for url in ["redis://ho\nst", "redis://host/1\t0", "redis://host?prefix=shop\r\n:"] {
            assert!(refusal(url).contains("control character"), "{url:?}");
        }
        // The expansion of an unset shell variable.
        for url in
            ["redis://host?prefix", "redis://host?prefix=", "redis://host?announce&lease=20s", "redis://host?announce="]
        {
            assert!(refusal(url).contains("not empty"), "{url}");
        }
        for end in ["\n", "\r\n", " ", "\t\n"] {
            let url = "redis://host/2?prefix=shop:";
            assert_eq!(settings(&format!("{url}{end}")), settings(url), "{end:?} ends no prefix");
            assert_eq!(settings(&format!("{end}{url}")), settings(url), "{end:?} begins no scheme");
        }
    }

    #[test]
    fn no_refusal_of_a_query_shows_what_may_be_a_password() {
        for url in [
            "redis://:hun?ter2@host",
            "redis://:hunt?er2=x@host",
            "redis://host?ter2",
            "redis://host?lease=ter2",
            "redis://host?unknown=ter2",
        ] {
            let text = refusal(url);
            assert!(!text.contains("ter2") && !text.contains("er2"), "{url}: {text}");
        }
    }

    #[test]
    fn the_first_variable_that_is_set_names_the_server() {
        let environment = |set: &'static [(&'static str, &'static str)]| {
            of_environment(move |name| {
                let found = set.iter().find(|(known, _)| *known == name);
                found.map(|(_, url)| (*url).to_owned()).ok_or(VarError::NotPresent)
            })
        };
        let url = |text: &str| text.to_owned();
        let both = environment(&[("REDIS_URL", "redis://b"), ("LEASEHOLD_URL", "redis://a")]);
        assert_eq!(both, Ok(("LEASEHOLD_URL", url("redis://a"))));
        let empty = environment(&[("LEASEHOLD_URL", ""), ("REDIS_URL", "redis://b")]);
        assert_eq!(empty, Ok(("REDIS_URL", url("redis://b"))));
        let none = environment(&[]).expect_err("no URL").to_string();
        assert!(none.contains("neither LEASEHOLD_URL nor REDIS_URL is set"), "{none}");
        let odd = of_environment(|_| Err(VarError::NotUnicode("x".into()))).expect_err("no text").to_string();
        assert!(odd.contains("LEASEHOLD_URL"), "{odd}");
    }
}
