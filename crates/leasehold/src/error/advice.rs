//! Advice for refusals of servers that lack a required feature.

use leasehold_core::link::ServerError;

/// Phrases of a refusal, and the advice.
const KNOWN: [(&str, &str); 7] = [
    (
        "undeclared key",
        "this server refuses the keys of a JVM's readers: allow undeclared keys, or use no JVM beside this lock",
    ),
    // Tair refuses a script that keeps a key in a variable.
    ("using the KEYS array", "set script_check_enable to 0 on this server"),
    ("appendonly is disabled", "set appendonly yes on this server, or build the client without fsync"),
    ("WAITAOF", "ClientBuilder::fsync needs WAITAOF: build the client without fsync, or use Redis 7.2 or Valkey"),
    ("WAIT", "Acquire::durable needs WAIT: acquire without it, or use another server"),
    ("SUBSCRIBE", "waiters of this kind need it: use a spin lock or a simple lock, or another server"),
    ("EVAL", "locks need EVALSHA and EVAL: use a server that runs scripts"),
];

/// Returns the suffix for the message of a refusal: the advice, or an empty string.
pub(super) fn advice(refusal: &ServerError) -> String {
    let text = refusal.text();
    let lacks = text.contains("unknown command") || text.contains("disabled");
    let fits = |(words, _): &&(&str, &str)| text.contains(words) && (lacks || words.contains(' '));
    KNOWN.iter().find(fits).map(|(_, advice)| format!("; {advice}; see docs/servers.md")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_of_a_server_that_lacks_something_has_an_advice() {
        for (text, words) in [
            ("ERR unknown command 'EVALSHA', with args beginning with: '9f'", "EVALSHA and EVAL"),
            ("ERR unknown command 'SUBSCRIBE', with args beginning with: 'a'", "a spin lock"),
            ("ERR WAIT was refused after the script: ERR unknown command 'WAIT'", "without it"),
            ("ERR unknown command 'WAITAOF', with args beginning with: '1'", "without fsync"),
            ("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.", "appendonly yes"),
            ("ERR Error running script: @user_script:4: script tried accessing undeclared key", "undeclared keys"),
            (
                "ERR bad lua script for redis cluster, all the keys that the script uses should be passed using the KEYS array",
                "script_check",
            ),
        ] {
            let advice = advice(&ServerError::new(text));
            assert!(advice.contains(words) && advice.ends_with("see docs/servers.md"), "{text}{advice}");
        }
        assert_eq!(advice(&ServerError::new("OOM command not allowed when used memory > 'maxmemory'.")), "");
        assert_eq!(advice(&ServerError::new("NOPERM User app has no permissions to run the 'evalsha' command")), "");
    }
}
