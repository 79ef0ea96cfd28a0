//! Counting what the test programs report.

use std::fmt;

/// The kinds of engines, as modules of tests are named after them: `redis`, `redis_7_0`, `cluster` and so on.
const ENGINES: [&str; 5] = ["embedded", "redis", "valkey", "cluster", "sentinel"];

/// How many tests passed and failed, on which engine.
#[derive(Default)]
pub(super) struct Tally {
    /// In the order of [`ENGINES`], and last the tests that name none.
    engines: [Counts; ENGINES.len() + 1],
    /// From the summary lines, which count every test.
    total: Counts,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Tally {
    /// Takes one line of output: `test <path> ... <result>` or `test result: …`.
    pub(super) fn count(&mut self, line: &str) {
        let line = line.trim_end();
        if let Some(summary) = line.strip_prefix("test result: ") {
            let number = |what| {
                let words = summary.split([' ', ';', '.']).collect::<Vec<_>>();
                words.windows(2).find(|pair| pair[1] == what).and_then(|pair| pair[0].parse::<u64>().ok()).unwrap_or(0)
            };
            self.total.passed += number("passed");
            self.total.failed += number("failed");
            self.total.ignored += number("ignored");
        } else if let Some((path, result)) = line.strip_prefix("test ").and_then(|line| line.rsplit_once(" ... ")) {
            let counts = &mut self.engines[engine_of(path)];
            match result.split([' ', ',']).next() {
                Some("ok") => counts.passed += 1,
                Some("FAILED") => counts.failed += 1,
                Some("ignored") => counts.ignored += 1,
                _ => {}
            }
        }
    }
}

/// The index of the engine that a part of the path of a test names.
fn engine_of(path: &str) -> usize {
    let names = |engine: &str| {
        path.split("::")
            .filter_map(|part| part.strip_prefix(engine))
            .any(|behind| behind.is_empty() || behind.starts_with('_'))
    };
    ENGINES.iter().position(|engine| names(engine)).unwrap_or(ENGINES.len())
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (engine, counts) in ENGINES.iter().chain([&"no engine"]).zip(self.engines) {
            writeln!(f, "{engine:<10} {counts}")?;
        }
        write!(f, "{}", self.total)
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { passed, failed, ignored } = self;
        write!(f, "{passed} passed, {failed} failed")?;
        if *ignored > 0 { write!(f, " ({ignored} ignored)") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_by_engine_and_in_all() {
        let mut tally = Tally::default();
        for line in [
            "running 5 tests",
            "test redis_7_0::lock::one_at_a_time ... ok",
            "test conformance::valkey::lock::one_at_a_time ... FAILED",
            "test lock::redistribution ... ok",
            "test cluster::moved ... ignored, needs six nodes",
            "test crates/leasehold/src/lib.rs - embedded (line 3) - compile ... ok",
            "test result: FAILED. 3 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        ] {
            tally.count(line);
        }
        let text = tally.to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[1], "redis      1 passed, 0 failed");
        assert_eq!(lines[2], "valkey     0 passed, 1 failed");
        assert_eq!(lines[3], "cluster    0 passed, 0 failed (1 ignored)");
        assert_eq!(lines[5], "no engine  2 passed, 0 failed");
        assert_eq!(lines[6], "10 passed, 1 failed (1 ignored)");
    }
}
