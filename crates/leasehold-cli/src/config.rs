//! The configuration file: the server for callers without environment variables, such as cron and sudo.
//!
//! The file has lines such as `url = "redis://db:6379"`, a subset of TOML without tables. Options and environment
//! variables override the file.

use crate::args::{Cli, ServerOptions, Task};
use crate::connection::{has_password, variable};
use crate::failure::{Exit, Failure};
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The environment variable with the path of the configuration file.
const VARIABLE: &str = "LEASEHOLD_CONFIG";

/// The default path. The file may be missing.
const USUAL: &str = "/etc/leasehold.toml";

/// The keys of the file.
const KEYS: [&str; 7] = ["url", "password", "password-file", "prefix", "tls-ca", "tls-cert", "tls-key"];

/// The values of a file, in the order of [`KEYS`].
type Values = [Option<String>; KEYS.len()];

/// The server settings from a configuration file.
#[derive(Clone, Debug, Default)]
pub(crate) struct FromFile {
    pub(crate) url: Option<String>,
    pub(crate) password: Option<String>,
}

/// Fills unset options from the configuration file.
///
/// # Errors
///
/// The file cannot be read or is invalid, or every user of the machine can read its password.
pub(crate) fn complete(cli: &mut Cli) -> Result<(), Failure> {
    if matches!(cli.task, Task::Completions { .. } | Task::Man) {
        return Ok(());
    }
    let has_other =
        cli.server.url.is_some() || variable("LEASEHOLD_URL")?.is_some() || variable("REDIS_URL")?.is_some();
    let named = variable(VARIABLE)?;
    let path = PathBuf::from(named.as_deref().unwrap_or(USUAL));
    let (text, mode) = match contents(&path) {
        Ok(found) => found,
        Err(error) if named.is_none() && error.kind() == ErrorKind::NotFound => return Ok(()),
        // An unreadable default file must not stop a user who names a server.
        Err(error) if named.is_none() && has_other && error.kind() == ErrorKind::PermissionDenied => return Ok(()),
        Err(error) => {
            let text = format!("the configuration file {} cannot be read: {error}", path.display());
            return Err(Failure::new(Exit::Io, text));
        }
    };
    let values = parse(&text).map_err(|(line, why)| usage(&path, Some(line), &why))?;
    merge(&mut cli.server, values, &path, mode, has_other)
}

fn contents(path: &Path) -> std::io::Result<(String, u32)> {
    let mut file = File::open(path)?;
    let mode = file.metadata()?.permissions().mode();
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok((text, mode))
}

/// Sets the values that neither options nor environment variables set.
fn merge(server: &mut ServerOptions, values: Values, path: &Path, mode: u32, has_other: bool) -> Result<(), Failure> {
    let [url, password, password_file, prefix, ca, cert, key] = values;
    if password.is_some() && password_file.is_some() {
        return Err(usage(path, None, "password and password-file are mutually exclusive; remove one"));
    }
    if is_for_all(mode) && (password.is_some() || url.as_deref().is_some_and(has_password)) {
        return Err(readable(path));
    }
    // The file's password belongs to the file's server. Never send it to another server.
    if has_other && url.is_some() {
        return Ok(());
    }
    let beside = |file: String| path.parent().unwrap_or_else(|| Path::new("")).join(file);
    if server.password_file.is_none() && variable("LEASEHOLD_PASSWORD")?.is_none() {
        if let Some(file) = password_file.map(beside) {
            if std::fs::metadata(&file).is_ok_and(|found| is_for_all(found.permissions().mode())) {
                return Err(readable(&file));
            }
            server.password_file = Some(file);
        }
        server.from_file.password = password;
    }
    server.from_file.url = url;
    server.prefix = server.prefix.take().or(prefix);
    for (option, name, file) in [
        (&mut server.tls_ca, "LEASEHOLD_TLS_CA", ca),
        (&mut server.tls_cert, "LEASEHOLD_TLS_CERT", cert),
        (&mut server.tls_key, "LEASEHOLD_TLS_KEY", key),
    ] {
        if option.is_none() && std::env::var_os(name).is_none_or(|value| value.is_empty()) {
            *option = file.map(beside);
        }
    }
    Ok(())
}

/// Returns whether every user of the machine can read a file.
const fn is_for_all(mode: u32) -> bool {
    mode & 0o004 != 0
}

fn readable(path: &Path) -> Failure {
    let path = path.display();
    let text = format!("every user of this machine can read the password in {path}; run chmod o-rwx {path}");
    Failure::new(Exit::Usage, text)
}

fn usage(path: &Path, line: Option<usize>, why: &str) -> Failure {
    let line = line.map(|line| format!("{line}: ")).unwrap_or_else(|| " ".to_owned());
    Failure::new(Exit::Usage, format!("{}:{line}{why}", path.display()))
}

/// Returns the values of a file, or the number and the error of an invalid line.
fn parse(text: &str) -> Result<Values, (usize, String)> {
    let mut values = Values::default();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (place, value) = setting(line).map_err(|why| (at + 1, why))?;
        if values[place].replace(value).is_some() {
            return Err((at + 1, format!("{} is set twice", KEYS[place])));
        }
    }
    Ok(values)
}

/// Returns the index of a key in [`KEYS`], and its value.
fn setting(line: &str) -> Result<(usize, String), String> {
    let (key, value) = line.split_once('=').ok_or("expected a line such as url = \"redis://host:6379\"")?;
    let key = key.trim();
    let place = KEYS.iter().position(|known| *known == key);
    let place = place.ok_or_else(|| format!("unknown key {key:?}; the keys are {}", KEYS.join(", ")))?;
    let (value, rest) = string(value.trim_start()).ok_or_else(|| format!("{key} needs a value in quotes"))?;
    match rest.trim_start() {
        rest if rest.is_empty() || rest.starts_with('#') => {}
        rest => return Err(format!("{rest:?} follows the value of {key}")),
    }
    if value.is_empty() { Err(format!("{key} is empty; set a value, or remove the line")) } else { Ok((place, value)) }
}

/// Parses a TOML string, and returns it with the rest of the line. In double quotes, a backslash escapes a quote or a
/// backslash.
fn string(text: &str) -> Option<(String, &str)> {
    if let Some(rest) = text.strip_prefix('\'') {
        return rest.split_once('\'').map(|(value, rest)| (value.to_owned(), rest));
    }
    let rest = text.strip_prefix('"')?;
    let (mut value, mut letters) = (String::new(), rest.char_indices());
    while let Some((at, next)) = letters.next() {
        match next {
            '"' => return Some((value, &rest[at + 1..])),
            '\\' => value.push(letters.next().map(|(_, quoted)| quoted).filter(|quoted| matches!(quoted, '"' | '\\'))?),
            next => value.push(next),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_set_keys_in_both_kinds_of_quotes() {
        let text =
            "# the server\n\nurl = \"redis://db:6379\"  # a comment\n  password='a\"b\\'\nprefix = \"s\\\"h\\\\op:\"\n";
        let [url, password, file, prefix, ..] = parse(text).expect("values");
        let expected = ["redis://db:6379", "a\"b\\", "s\"h\\op:"].map(|value| Some(value.to_owned()));
        assert_eq!([url, password, prefix], expected);
        assert_eq!(file, None);
        assert_eq!(parse("").expect("values"), Values::default());
    }

    #[test]
    fn invalid_lines_are_named_with_their_number() {
        for (text, line, said) in [
            ("url", 1, "expected a line"),
            ("\n[server]\n", 2, "expected a line"),
            ("url = redis://db", 1, "in quotes"),
            ("url = \"redis://db", 1, "in quotes"),
            ("prefix = \"a\\n\"", 1, "in quotes"),
            ("url = \"a\" b", 1, "follows the value"),
            ("uri = \"a\"", 1, "unknown key \"uri\"; the keys are url, password"),
            ("url = \"a\"\nurl = \"b\"", 2, "set twice"),
            ("prefix = \"\"", 1, "is empty"),
        ] {
            let (at, why) = parse(text).expect_err(text);
            assert!(at == line && why.contains(said), "{text:?} {at} {why}");
        }
    }
}
