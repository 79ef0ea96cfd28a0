//! Histories that follow from a seed.

/// Plays a history for each seed: those of the usual slice, or `n` by `LEASEHOLD_SEEDS=n`, or that of `LEASEHOLD_SEED=s` alone. Names the seed
/// of a history that panics, and gives how many there were.
pub(crate) fn each_seed(usual: u64, mut history: impl FnMut(u64)) -> u64 {
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    let seeds = match number("LEASEHOLD_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("LEASEHOLD_SEEDS").unwrap_or(usual),
    };
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let _note = Note(seed);
        history(seed);
    }
    count
}

struct Note(u64);

impl Drop for Note {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("LEASEHOLD_SEED={} plays this history again", self.0);
        }
    }
}
