//! Telling tests that failed for want of a server from those that failed.
//!
//! A test that needs a server and finds none fails by itself, and says which command gets one. Here its failure becomes "left out": in the
//! output and in the sums of each test program.

use std::mem;

/// The text of such a failure.
const COMMAND: &str = "cargo xtask servers";

/// The facts that are read of one test program. Failures are held back until their texts have come, which is at the end of the program.
#[derive(Default)]
pub(super) struct LeftOut {
    failures: Vec<Failure>,
    place: Place,
}

struct Failure {
    name: String,
    text: String,
}

#[derive(Default, PartialEq, Eq)]
enum Place {
    /// The part in which the results come, one a line.
    #[default]
    Results,
    /// The part in which the texts of the failures come.
    Texts,
    /// The part in which their names come once more.
    Names,
}

impl LeftOut {
    /// Takes one line of the output, and gives the lines that can be shown now.
    pub(super) fn line(&mut self, line: &str) -> Vec<String> {
        let text = line.trim_end();
        if text == "failures:" && !self.failures.is_empty() {
            self.place = if self.place == Place::Results { Place::Texts } else { Place::Names };
            return Vec::new();
        }
        if let Some(summary) = text.strip_prefix("test result: ") {
            return self.end(summary);
        }
        match self.place {
            Place::Results => match text.strip_prefix("test ").and_then(|test| test.strip_suffix(" ... FAILED")) {
                Some(name) => self.failures.push(Failure { name: name.to_owned(), text: String::new() }),
                None => return vec![line.to_owned()],
            },
            Place::Texts => self.text(line),
            Place::Names => {}
        }
        Vec::new()
    }

    fn text(&mut self, line: &str) {
        let head = line.trim_end().strip_prefix("---- ").and_then(|head| head.strip_suffix(" stdout ----"));
        if let Some(at) = head.and_then(|name| self.failures.iter().position(|failure| failure.name == name)) {
            // The one whose text comes is the last.
            let failure = self.failures.remove(at);
            self.failures.push(failure);
        }
        if let Some(failure) = self.failures.last_mut() {
            failure.text.push_str(line);
        }
    }

    /// The end of the program: what became of each failure, and its sums.
    fn end(&mut self, summary: &str) -> Vec<String> {
        self.place = Place::Results;
        let failures = mem::take(&mut self.failures);
        let (left_out, failed): (Vec<_>, Vec<_>) =
            failures.into_iter().partition(|failure| failure.text.contains(COMMAND));
        let mut shown: Vec<_> =
            left_out.iter().map(|failure| format!("test {} ... left out: it needs a server\n", failure.name)).collect();
        shown.extend(failed.iter().map(|failure| format!("test {} ... FAILED\n{}", failure.name, failure.text)));
        let all = format!("{} failed", left_out.len() + failed.len());
        let those = format!("{} failed; {} left out", failed.len(), left_out.len());
        let summary = if left_out.is_empty() { summary.to_owned() } else { summary.replacen(&all, &those, 1) };
        let summary = if failed.is_empty() { summary.replacen("FAILED", "ok", 1) } else { summary };
        shown.push(format!("test result: {summary}\n"));
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(lines: &[&str]) -> String {
        let mut left_out = LeftOut::default();
        lines.iter().flat_map(|line| left_out.line(&format!("{line}\n"))).collect()
    }

    const NO_SERVER: &str = "a server: no Redis server was found; install one for the tests with:  cargo xtask servers";

    #[test]
    fn test_without_its_server_is_left_out_and_failures_stay() {
        let shown = shown(&[
            "running 3 tests",
            "test a ... ok",
            "test b ... FAILED",
            "test c ... FAILED",
            "",
            "failures:",
            "",
            "---- c stdout ----",
            "left: 1",
            "",
            "---- b stdout ----",
            NO_SERVER,
            "",
            "failures:",
            "    b",
            "    c",
            "",
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
        ]);
        let wanted = "running 3 tests\ntest a ... ok\n\ntest b ... left out: it needs a server\ntest c ... FAILED\n\n\
                      ---- c stdout ----\nleft: 1\n\n\
                      test result: FAILED. 1 passed; 1 failed; 1 left out; 0 ignored; 0 measured; 0 filtered out; \
                      finished in 0.01s\n";
        assert_eq!(shown, wanted);
    }

    #[test]
    fn a_program_without_other_failures_is_well() {
        let lines = ["test b ... FAILED", "failures:", "---- b stdout ----", NO_SERVER, "failures:", "    b"];
        let end = "test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s";
        let shown = shown(&[&lines[..], &[end]].concat());
        assert!(shown.contains("test result: ok. 0 passed; 0 failed; 1 left out; 0 ignored"), "{shown}");
    }
}
