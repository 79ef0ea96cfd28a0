//! Commands that a server refuses within a script, because it lacks the command or the user lacks the permission.
//!
//! Depending on the version, the server reports the command, the line of the script, both or neither. The client has
//! the script, so it can always name the command.

use super::ServerError;
use crate::script::Script;

/// The missing permission or command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lack {
    Right,
    Key,
    Channel,
    Command,
}

impl ServerError {
    /// Converts this error into the refusal of a call of `script`. `ran` is that script or its batch. If a permission
    /// or command is missing, the message names it.
    #[must_use]
    pub fn of_script(self, script: &Script, ran: &Script) -> Self {
        if self.code() == "NOPERM" && self.text.contains(" key") {
            let name = script.name();
            let words =
                format!("; a call of {name} needs all of its keys, and the user lacks the right to one (~pattern)");
            return self.adding(&words, "");
        }
        let Some(lack) = lack(&self.text) else { return self };
        let line = line_of(&self.text).and_then(|number| ran.source().lines().nth(number.checked_sub(1)?));
        let named = named(&self.text).map(|name| vec![name]);
        let commands = named.unwrap_or_else(|| match line {
            Some(line) => commands_of(line),
            // The script caught the error with `redis.pcall` and returned it, or raised it in a batch.
            None => {
                let may_be = |line: &&str| line.contains("redis.pcall(") || !std::ptr::eq(script, ran);
                listed(script.source().lines().filter(may_be).flat_map(commands_of))
            }
        });
        if commands.is_empty() {
            return self;
        }
        let needed = commands.join(" or ");
        let rights: Vec<_> = commands
            .iter()
            .flat_map(|name| name.split(" or "))
            .map(|name| format!("+{}", name.to_lowercase()))
            .collect();
        let wanted = match lack {
            Lack::Right => format!("and the user lacks the right {}", rights.join(" or ")),
            Lack::Key => "and the user lacks the right to one of its keys (~pattern)".to_owned(),
            Lack::Channel => "and the user lacks the right to its channel (&pattern)".to_owned(),
            Lack::Command => "which the server does not have, or not in scripts".to_owned(),
        };
        let text = format!("{}; the script {} needs {needed}, {wanted}", self.text, script.name());
        // A script returns its own error if the server refuses a command after the grant.
        Self { text, ungranted: true }
    }
}

/// The missing command or permission, if that is the reason for the refusal.
fn lack(text: &str) -> Option<Lack> {
    let says = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
    if says(&["can't run this command", "no permissions to run"]) && says(&["script"]) {
        return Some(Lack::Right);
    }
    if says(&["script"]) && says(&["can't access", "o permissions to access"]) {
        return Some(if says(&["channel"]) { Lack::Channel } else { Lack::Key });
    }
    let is_missing = says(&["called from script", "called from Lua script", "not allowed from script"])
        || says(&["unknown command", "Unknown Redis command"]) && says(&["script:", "user_script"]);
    is_missing.then_some(Lack::Command)
}

/// The script line in the server's error message.
fn line_of(text: &str) -> Option<usize> {
    let (_, rest) = text.split_once("user_script:")?;
    let rest = rest.trim_start();
    rest[..rest.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(rest.len())].parse().ok()
}

/// The command in the server's error message.
fn named(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("to run the '").or_else(|| text.split_once("unknown command '"))?;
    let (name, _) = rest.split_once('\'')?;
    Some(name.to_uppercase())
}

/// The commands that a line of a script calls.
fn commands_of(line: &str) -> Vec<String> {
    listed(line.split("redis.").skip(1).filter_map(|part| {
        let call = part.strip_prefix("call(").or_else(|| part.strip_prefix("pcall("))?;
        let literal = call.strip_prefix('\'').and_then(|name| Some(name.split_once('\'')?.0.to_owned()));
        // The only command that scripts pass in a variable.
        Some(literal.unwrap_or_else(|| "PUBLISH or SPUBLISH".to_owned()))
    }))
}

/// Removes duplicates, in order.
fn listed(names: impl Iterator<Item = String>) -> Vec<String> {
    names.fold(Vec::new(), |mut all, name| {
        if !all.contains(&name) {
            all.push(name);
        }
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{ACQUIRE, ALL, RELEASE, SEMAPHORE_ACQUIRE};

    /// The number of the script line that contains this text.
    fn line(script: &Script, part: &str) -> usize {
        1 + script.source().lines().position(|line| line.contains(part)).expect("a line")
    }

    fn told(text: &str, script: &Script) -> String {
        ServerError::new(text).of_script(script, script).text
    }

    #[test]
    fn a_command_that_is_refused_in_a_script_is_named_on_each_server() {
        let at = line(&ACQUIRE, "'EXISTS'");
        let needs = "; the script lock/acquire needs EXISTS, and the user lacks the right +exists";
        for text in [
            // Redis 6.2, by `redis.call` and by `redis.pcall`.
            format!("ERR Error running script (call to f_72): @user_script:{at}: @user_script: {at}: The user executing the script can't run this command or subcommand"),
            format!("@user_script: {at}: The user executing the script can't run this command or subcommand"),
            // Redis 7.0.
            format!("ERR The user executing the script can't run this command or subcommand script: 72, on @user_script:{at}."),
            // Redis 7.2 and 8, Valkey.
            "ERR ACL failure in script: User app has no permissions to run the 'exists' command script: 72, on @user_script:9.".to_owned(),
            "ERR ACL failure in script: User app has no permissions to run the 'exists' command".to_owned(),
        ] {
            assert_eq!(told(&text, &ACQUIRE), format!("{text}{needs}"));
        }
        let bare = "ERR The user executing the script can't run this command or subcommand";
        assert!(
            told(bare, &SEMAPHORE_ACQUIRE).contains("needs GETRANGE or INCRBY or DEL, "),
            "{}",
            told(bare, &SEMAPHORE_ACQUIRE)
        );
        let key = format!(
            "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments script: 72, on @user_script:{at}."
        );
        assert!(
            told(&key, &ACQUIRE).ends_with("needs EXISTS, and the user lacks the right to one of its keys (~pattern)")
        );
        let at = line(&RELEASE, "publish, channel");
        for text in [
            format!(
                "ERR ACL failure in script: User app has no permissions to access the 'x' channel script: 72, on @user_script:{at}."
            ),
            format!("ERR ACL failure in script: No permissions to access a channel script: on @user_script:{at}."),
        ] {
            let needs = "needs PUBLISH or SPUBLISH, and the user lacks the right to its channel (&pattern)";
            assert!(told(&text, &RELEASE).ends_with(needs), "{text}");
        }
        let key = "NOPERM No permissions to access a key";
        assert!(told(key, &RELEASE).ends_with("the user lacks the right to one (~pattern)"));
        assert!(ServerError::new(key).of_script(&RELEASE, &RELEASE).proves_nothing_done());
    }

    #[test]
    fn a_command_that_a_server_lacks_in_a_script_is_named() {
        let at = line(&ACQUIRE, "'EXISTS'");
        for text in [
            format!("ERR Unknown Redis command called from script script: 72, on @user_script:{at}."),
            format!(
                "ERR Error running script (call to f_72): @user_script:{at}: @user_script: {at}: Unknown Redis command called from Lua script"
            ),
            format!("ERR This Redis command is not allowed from script script: 72, on @user_script:{at}."),
        ] {
            let needs = "; the script lock/acquire needs EXISTS, which the server does not have, or not in scripts";
            assert_eq!(told(&text, &ACQUIRE), format!("{text}{needs}"));
            assert!(!ServerError::new(text).of_script(&ACQUIRE, &ACQUIRE).is_transient());
        }
    }

    #[test]
    fn only_a_command_behind_the_grant_leaves_it_open_whether_there_is_one() {
        let proves = |text: &str| ServerError::new(text).of_script(&ACQUIRE, &ACQUIRE).proves_no_grant();
        let text = "ERR ACL failure in script: User app has no permissions to run the 'pexpire' command";
        assert!(proves(text));
        for other in [
            "ERR the lock was granted, and PEXPIRE and DEL are refused",
            "WRONGTYPE Operation against a key",
            "ERR user_script:1: x script: 9f, on @user_script:1.",
            "ERR whatever",
        ] {
            assert!(!proves(other), "{other}");
            assert_eq!(told(other, &ACQUIRE), other);
        }
    }

    #[test]
    fn a_command_that_is_refused_in_a_batch_is_among_those_of_its_own_script() {
        let bare = ServerError::new("ERR The user executing the script can't run this command or subcommand");
        let text = bare.of_script(&ACQUIRE, &RELEASE).text;
        assert!(text.contains("the script lock/acquire needs HSET or PEXPIRE or DEL or EXISTS"), "{text}");
    }

    #[test]
    fn each_line_of_a_script_names_the_commands_that_it_runs() {
        for script in ALL {
            for line in script.source().lines().filter(|line| line.contains("redis.call(")) {
                assert!(!commands_of(line).is_empty(), "{}: {line}", script.name());
            }
        }
    }
}
