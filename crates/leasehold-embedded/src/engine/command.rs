//! The commands of the embedded engine: a table for each type, and the dispatch.

mod hash;
mod key;
mod list;
mod pubsub;
mod range;
mod sorted_set;
mod string;

use crate::engine::answer::Outcome;
use crate::engine::keyspace::Keyspace;
use leasehold_core::link::ServerError;
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// Runs a command. The case of its name is ignored.
pub(crate) fn run(keyspace: &mut Keyspace, words: &[&[u8]]) -> Outcome {
    let Some((name, args)) = words.split_first() else {
        return Err(ServerError::new("ERR Please specify at least one argument for this redis lib call"));
    };
    let Some(command) = find(name) else { return Err(unknown(name, args)) };
    if !command.arity.admits(args.len()) {
        return Err(wrong_arity(command, keyspace.in_script));
    }
    if keyspace.in_script
        && let Some(refusal) = keyspace.refusals.of(name, keyspace.dirty)
    {
        return Err(refusal);
    }
    // A script that has already written may finish.
    if keyspace.deny_growth && command.effect == Effect::Grows && !(keyspace.in_script && keyspace.dirty) {
        return Err(ServerError::new("OOM command not allowed when used memory > 'maxmemory'."));
    }
    if command.effect != Effect::Reads {
        keyspace.dirty = true;
    }
    (command.run)(keyspace, args)
}

/// An entry of the table.
struct Command {
    /// The name in upper case.
    name: &'static str,
    arity: Arity,
    effect: Effect,
    run: fn(&mut Keyspace, &[&[u8]]) -> Outcome,
}

/// Number of arguments, without the command's name.
#[derive(Clone, Copy, Debug)]
enum Arity {
    Exactly(usize),
    AtLeast(usize),
}

impl Arity {
    const fn admits(self, count: usize) -> bool {
        match self {
            Self::Exactly(wanted) => count == wanted,
            Self::AtLeast(least) => count >= least,
        }
    }
}

/// The effect of a command on the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// Reads.
    Reads,
    /// Writes without new memory.
    Writes,
    /// Writes that may need memory. Refused while memory is full.
    Grows,
}

const fn entry(
    name: &'static str,
    arity: Arity,
    effect: Effect,
    run: fn(&mut Keyspace, &[&[u8]]) -> Outcome,
) -> Command {
    Command { name, arity, effect, run }
}

static TABLE: LazyLock<FxHashMap<&'static [u8], &'static Command>> = LazyLock::new(|| {
    [key::COMMANDS, string::COMMANDS, hash::COMMANDS, list::COMMANDS, sorted_set::COMMANDS, pubsub::COMMANDS]
        .into_iter()
        .flatten()
        .map(|command| (command.name.as_bytes(), command))
        .collect()
});

fn find(name: &[u8]) -> Option<&'static Command> {
    TABLE.get(name).or_else(|| TABLE.get(name.to_ascii_uppercase().as_slice())).copied()
}

fn unknown(name: &[u8], args: &[&[u8]]) -> ServerError {
    let mut shown = String::new();
    for arg in args.iter().take(8) {
        shown.push_str(&format!("'{}' ", String::from_utf8_lossy(arg)));
    }
    ServerError::new(format!(
        "ERR unknown command '{}', with args beginning with: {shown}(the embedded engine does not have this command)",
        String::from_utf8_lossy(name)
    ))
}

fn wrong_arity(command: &Command, in_script: bool) -> ServerError {
    if in_script {
        ServerError::new("ERR Wrong number of args calling Redis command from script")
    } else {
        let name = command.name.to_ascii_lowercase();
        ServerError::new(format!("ERR wrong number of arguments for '{name}' command"))
    }
}

/// The error for an unsupported option.
fn syntax_error() -> ServerError {
    ServerError::new("ERR syntax error")
}

/// The error for a value that is not an integer.
fn not_an_integer() -> ServerError {
    ServerError::new("ERR value is not an integer or out of range")
}

/// The error for an overflow.
fn overflow() -> ServerError {
    ServerError::new("ERR increment or decrement would overflow")
}
