//! Shell completions and manual pages, generated from the command line.

use crate::args::Cli;
use crate::failure::{Exit, Failure};
use crate::output;
use clap::CommandFactory as _;
use clap_complete::Shell;

/// Prints the completions for a shell.
///
/// # Errors
///
/// The output cannot be written.
pub(crate) fn completions(shell: Shell) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "leasehold", &mut text);
    output::write(&text)
}

/// Prints the manual pages of `leasehold` and of its subcommands.
///
/// # Errors
///
/// The output cannot be written.
pub(crate) fn man_pages() -> Result<(), Failure> {
    let mut text = Vec::new();
    let mut command = Cli::command();
    command.build();
    render(&command, &mut text)?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        render(sub, &mut text)?;
    }
    output::write(&text)
}

fn render(command: &clap::Command, text: &mut Vec<u8>) -> Result<(), Failure> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let page = clap_mangen::Man::new(command.clone().version(env!("CARGO_PKG_VERSION")));
    let page = page.title(name).source(concat!("leasehold ", env!("CARGO_PKG_VERSION"))).manual("leasehold");
    page.render(text).map_err(|error| Failure::new(Exit::Other, format!("cannot generate the manual page: {error}")))
}
