//! The long help of a subcommand: all options on one screen, then the details of each option.

use super::Cli;
use clap::builder::Resettable;
use clap::{Arg, Command, CommandFactory as _};
use std::ffi::OsString;
use std::fmt::Write as _;

/// Maximum length of a line of details.
const WIDTH: usize = 100;

/// Returns the long help that a command line requests. `None` for the short help and for the help of `leasehold`
/// itself.
pub(crate) fn long(words: &[OsString]) -> Option<String> {
    let before = words.iter().skip(1).take_while(|word| *word != "--");
    let mut words = before.filter_map(|word| word.to_str());
    let is_long = words.clone().next() == Some("help") || words.clone().any(|word| word == "--help");
    let mut command = Cli::command();
    command.build();
    let name = words.find(|word| *word != "help" && command.find_subcommand(word).is_some())?;
    is_long.then(|| of(command.find_subcommand(name)?)).flatten()
}

fn of(command: &Command) -> Option<String> {
    let end = command.get_after_long_help().or_else(|| command.get_after_help()).map(ToString::to_string);
    let mut list = command.clone().after_help(Resettable::Reset).mut_args(|arg| arg.hide_short_help(false));
    let mut text = list.render_help().to_string().replace(" (see more with '--help')", "");
    if let Some(about) = command.get_long_about() {
        add(&mut text, "", about.to_string().split_once("\n\n")?.1);
    }
    for arg in command.get_arguments() {
        let details = arg.get_long_help().map(ToString::to_string);
        if let Some((_, details)) = details.as_deref().and_then(|details| details.split_once("\n\n")) {
            let _ = write!(text, "\n{}:\n", name(arg));
            add(&mut text, "    ", details);
        }
    }
    Some(format!("{}\n\n{}\n", text.trim_end(), end?.trim_end()))
}

fn name(arg: &Arg) -> String {
    arg.get_long().map_or_else(|| arg.get_id().as_str().to_uppercase(), |long| format!("--{long}"))
}

/// Appends wrapped paragraphs.
fn add(text: &mut String, indent: &str, paragraphs: &str) {
    for paragraph in paragraphs.split("\n\n") {
        if !text.ends_with(":\n") {
            text.push('\n');
        }
        let mut line = String::new();
        for word in paragraph.split_whitespace() {
            if !line.is_empty() && indent.len() + line.len() + word.len() >= WIDTH {
                let _ = writeln!(text, "{indent}{line}");
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        let _ = writeln!(text, "{indent}{line}");
    }
}
