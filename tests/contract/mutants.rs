//! The mutants of `cargo xtask mutate` still fit the code that they break.

use super::files::{File, read, tracked};
use std::collections::{BTreeMap, BTreeSet};

// The reader with which the tool reads them.
#[path = "../../crates/xtask/src/mutate/mutant.rs"]
mod mutant;

use mutant::{Detector, Mutant};

fn mutants() -> Vec<Mutant> {
    let place = |file: &File| {
        let (promise, name) = file.path.strip_prefix("tests/mutants/")?.strip_suffix(".txt")?.split_once('/')?;
        Some((promise.to_owned(), name.to_owned()))
    };
    let files = tracked().into_iter().filter_map(|file| Some((place(&file)?, file)));
    files
        .map(|((promise, name), file)| {
            Mutant::parse(&promise, &name, &file.text).unwrap_or_else(|why| panic!("{}: {why}", file.path))
        })
        .collect()
}

#[test]
fn every_mutant_applies() {
    let mut texts = BTreeMap::new();
    for mutant in mutants() {
        let text = texts.entry(mutant.file.clone()).or_insert_with(|| read(&mutant.file));
        let place = format!("tests/mutants/{}/{}.txt", mutant.promise, mutant.name);
        let broken = mutant.apply(text).unwrap_or_else(|why| panic!("{place} is stale: {why}"));
        assert_ne!(broken, *text, "{place} changes nothing");
        assert!(mutant.breaks.ends_with('.'), "{place} says what it breaks in a sentence");
        for detector in &mutant.detectors {
            let Detector::Test(build, filters) = detector else { continue };
            assert!(build.len() > 2 && !filters.is_empty(), "{place} asks more tests than it needs: {detector}");
        }
    }
}

#[test]
fn every_promise_is_broken_in_more_than_one_way() {
    let mutants = mutants();
    let mut counts = BTreeMap::new();
    for mutant in &mutants {
        *counts.entry(mutant.promise.as_str()).or_insert(0) += 1;
    }
    let readme = read("tests/mutants/README.md");
    let told: BTreeSet<_> =
        readme.lines().filter_map(|line| line.strip_prefix("| `")).filter_map(|line| line.split('`').next()).collect();
    assert_eq!(counts.keys().copied().collect::<BTreeSet<_>>(), told, "the promises that the README tells");
    for (promise, count) in counts {
        assert!(count >= 2, "{promise} is broken in one way only");
    }
    assert!(mutants.len() >= 40);
    let runtime = mutants.iter().filter(|mutant| mutant.file.starts_with("crates/leasehold/src/")).count();
    assert!(runtime >= 8, "{runtime} mutants are in the runtime and the link");
}
