//! The checks of everything that parses, whatever it is given: names, URLs, the wire protocol, replies, notices, script results, commands.
//!
//! The bodies below `tests/fuzz/` are those of the targets of `cargo fuzz` in `fuzz/`. Here each gets a few thousand inputs that
//! follow from a seed: inputs that mean something, mutated, and noise. `LEASEHOLD_SEEDS=n` gives it that many.

mod commands;
mod names;
mod noise;
mod replies;
mod scripts;
mod sessions;
mod source;
mod urls;
mod wire;

use noise::inputs;

#[test]
fn names_and_what_is_derived_from_them() {
    inputs(800, &names::CORPUS, names::check);
}

#[test]
fn urls_of_servers() {
    inputs(4_000, &urls::CORPUS, urls::check);
}

#[test]
fn replies_of_scripts() {
    inputs(40_000, &[], replies::check);
}

#[test]
fn notices_and_replies_to_a_session() {
    inputs(10_000, &[], sessions::check);
}

#[test]
fn results_of_scripts() {
    inputs(120, &[], scripts::check);
}

#[test]
fn commands_of_the_embedded_engine() {
    inputs(1_200, &commands::CORPUS, commands::check);
}

#[test]
fn bytes_of_servers() {
    inputs(20_000, wire::CORPUS, wire::check);
}
