//! Inputs that follow from a seed.

use fastrand::Rng;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Gives `check` so many inputs: those of the corpus, mutations of them, and noise. An input that fails is told.
pub(crate) fn inputs(usual: u64, corpus: &[&[u8]], check: fn(&[u8])) {
    let count = std::env::var("LEASEHOLD_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let mutated = (0..count).map(|seed| {
        let rng = &mut Rng::with_seed(seed);
        if corpus.is_empty() || rng.u8(..4) == 0 {
            let length = rng.usize(..200);
            return (0..length).map(|_| byte(rng)).collect();
        }
        let mut input = corpus[rng.usize(..corpus.len())].to_vec();
        for _ in 0..rng.u8(1..6) {
            mutate(rng, &mut input, corpus);
        }
        input
    });
    for input in corpus.iter().map(|input| input.to_vec()).chain(mutated) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(&input))) {
            eprintln!("the input that fails is b\"{}\"", input.escape_ascii());
            resume_unwind(panic);
        }
    }
}

/// Small numbers say most, because the bodies take them for choices.
fn byte(rng: &mut Rng) -> u8 {
    if rng.bool() { rng.u8(..16) } else { rng.u8(..) }
}

fn mutate(rng: &mut Rng, input: &mut Vec<u8>, corpus: &[&[u8]]) {
    let at = rng.usize(..=input.len());
    match rng.u8(..6) {
        0 => input.insert(at, byte(rng)),
        1 if at < input.len() => _ = input.remove(at),
        2 if at < input.len() => input[at] = rng.u8(..),
        3 if at < input.len() => input[at] ^= 1 << rng.u8(..8),
        4 => input.truncate(at),
        _ => {
            let other = corpus[rng.usize(..corpus.len())];
            let from = rng.usize(..=other.len());
            input.splice(at..at, other[from..rng.usize(from..=other.len())].iter().copied());
        }
    }
}
