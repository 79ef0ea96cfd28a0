//! A name of `run` or `leader` that begins with a dash: `leasehold run -- -name -- COMMAND`.
//!
//! Before the first `--`, such a name looks like an option, and a misspelt option must not become a name. So the name
//! follows `--`, as in the other subcommands, and a second `--` precedes the command.

use super::{Cli, Task};
use clap::Parser as _;
use clap::error::ErrorKind;
use std::ffi::OsString;

/// Parses a command line.
///
/// # Errors
///
/// The command line is invalid.
pub(crate) fn parse(words: &[OsString]) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(words).or_else(|error| match error.kind() {
        ErrorKind::MissingRequiredArgument => behind_dashes(words).ok_or(error),
        _ => Err(error),
    })
}

/// Parses a command line whose name follows `--`. Returns `None` for any other command line.
fn behind_dashes(words: &[OsString]) -> Option<Cli> {
    let (before, behind) = words.split_at(words.iter().position(|word| word == "--")?);
    let [_, name, dashes, _, ..] = behind else { return None };
    if dashes != "--" {
        return None;
    }
    // clap parses the line with a placeholder as the name.
    let standing_in = [before, &[OsString::from("name")], &behind[2..]].concat();
    let mut cli = Cli::try_parse_from(standing_in).ok()?;
    let of_task = match &mut cli.task {
        Task::Run(options) => &mut options.name,
        Task::Leader(options) => &mut options.name,
        _ => return None,
    };
    name.to_str()?.clone_into(of_task);
    Some(cli)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Option<(String, Vec<OsString>)> {
        let words: Vec<_> = line.split(' ').map(OsString::from).collect();
        match parse(&words).ok()?.task {
            Task::Run(options) => Some((options.name, options.command)),
            Task::Leader(options) => Some((options.name, options.command)),
            _ => None,
        }
    }

    #[test]
    fn name_behind_dashes_is_read() {
        for (line, name, command) in [
            ("leasehold run -- -x -- true", "-x", &["true"][..]),
            ("leasehold run --try -- --name -- sh -- y", "--name", &["sh", "--", "y"]),
            ("leasehold run x -- sudo -- true", "x", &["sudo", "--", "true"]),
            ("leasehold run x -- -y -- true", "x", &["-y", "--", "true"]),
            ("leasehold leader -- -x -- true", "-x", &["true"]),
        ] {
            let command = command.iter().map(OsString::from).collect();
            assert_eq!(read(line), Some((name.to_owned(), command)), "{line}");
        }
        for line in
            ["leasehold run -- -x", "leasehold run -- -x --", "leasehold run -- true x", "leasehold run -x -- true"]
        {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
