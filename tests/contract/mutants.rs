//! The mutants of `cargo xtask mutate` still fit the code that they break.

use super::files::{read, tracked};

// The reader with which the tool reads them.
#[path = "../../crates/xtask/src/mutate/mutant.rs"]
mod mutant;

use mutant::{Detector, Mutant};

#[test]
fn every_mutant_applies() {
    let mut count = 0;
    for file in tracked() {
        let path = &file.path;
        let place = path.strip_prefix("tests/mutants/").and_then(|rest| rest.strip_suffix(".txt")?.split_once('/'));
        let Some((promise, name)) = place else { continue };
        let mutant = Mutant::parse(promise, name, &file.text).unwrap_or_else(|why| panic!("{path}: {why}"));
        let text = read(&mutant.file);
        let broken = mutant.apply(&text).unwrap_or_else(|why| panic!("{path} is stale: {why}"));
        assert_ne!(broken, text, "{path} changes nothing");
        for detector in &mutant.detectors {
            let Detector::Test(build, filters) = detector else { continue };
            assert!(build.len() > 2 && !filters.is_empty(), "{path} asks more tests than it needs: {detector}");
        }
        count += 1;
    }
    assert!(count > 0, "no mutant was read");
}
