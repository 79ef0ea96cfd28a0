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
    left_out: u64,
}

impl Tally {
    pub(super) const fn failed(&self) -> u64 {
        self.total.failed
    }

    /// How many tests could not run for want of a server.
    pub(super) const fn left_out(&self) -> u64 {
        self.total.left_out
    }

    /// Takes one line of output: `test <path> ... <result>` or `test result: …`.
    pub(super) fn count(&mut self, line: &str) {
        let line = line.trim_end();
        if let Some(summary) = line.strip_prefix("test result: ") {
            let number = |what: &str| {
                let words = summary.split([' ', ';', '.']).collect::<Vec<_>>();
                words
                    .windows(what.split(' ').count() + 1)
                    .find(|words| words[1..].join(" ") == what)
                    .and_then(|words| words[0].parse::<u64>().ok())
                    .unwrap_or(0)
            };
            self.total.passed += number("passed");
            self.total.failed += number("failed");
            self.total.ignored += number("ignored");
            self.total.left_out += number("left out");
        } else if let Some((path, result)) = line.strip_prefix("test ").and_then(|line| line.rsplit_once(" ... ")) {
            let counts = &mut self.engines[engine_of(path)];
            match result.split([' ', ',', ':']).next() {
                Some("ok") => counts.passed += 1,
                Some("FAILED") => counts.failed += 1,
                Some("ignored") => counts.ignored += 1,
                Some("left") => counts.left_out += 1,
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
        let Self { passed, failed, ignored, left_out } = self;
        write!(f, "{passed} passed, {failed} failed")?;
        if *left_out > 0 {
            write!(f, ", {left_out} left out")?;
        }
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
            "test cluster::asked ... left out: it needs a server",
            "test crates/leasehold/src/lib.rs - embedded (line 3) - compile ... ok",
            "test result: FAILED. 3 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "test result: ok. 7 passed; 0 failed; 1 left out; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        ] {
            tally.count(line);
        }
        let text = tally.to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[1], "redis      1 passed, 0 failed");
        assert_eq!(lines[2], "valkey     0 passed, 1 failed");
        assert_eq!(lines[3], "cluster    0 passed, 0 failed, 1 left out (1 ignored)");
        assert_eq!(lines[5], "no engine  2 passed, 0 failed");
        assert_eq!(lines[6], "10 passed, 1 failed, 1 left out (1 ignored)");
    }
}
