//! `cargo xtask services`: the behaviour suite on imitations of services.

use leasehold_test_support::{Outcome as Fate, Profile, Shape};

use crate::{Outcome, cargo, run as run_command};

/// Runs the suite on each service in turn. Goes on after a failure.
pub(crate) fn run(names: &[String]) -> Outcome {
    if let Some(name) = names.iter().find(|name| Profile::of(name).is_none()) {
        let known: Vec<_> = Profile::ALL.iter().map(|profile| profile.name).collect();
        return Err(format!("no service is named {name}; known: {}", known.join(", ")));
    }
    let is_asked = |profile: &&Profile| match names {
        [] => profile.outcome == Fate::Works,
        names => names.iter().any(|name| name == profile.name),
    };
    let mut failed = Vec::new();
    for profile in Profile::ALL.iter().filter(is_asked) {
        // A fault proxy cannot stand in front of a node that names itself.
        let filter = if profile.shape == Shape::OneNode { "service::everywhere::" } else { "service::" };
        println!("\n{}, as in {}", profile.name, profile.source);
        let mut command = cargo(&["test", "--all-features", "--test", "conformance", "--", "--ignored", filter]);
        if run_command(command.env("LEASEHOLD_SERVICE", profile.name)).is_err() {
            failed.push(profile.name);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("the suite failed on: {}", failed.join(", "))) }
}
