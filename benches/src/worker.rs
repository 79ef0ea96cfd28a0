//! The process of a peer, which is told what to do line by line.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

/// The longest time for a task whose window is some seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest time for a task that takes or waits for many locks.
const PATIENCE_WITH_MANY: Duration = Duration::from_secs(300);

/// A process that runs. It is ended with its handle.
pub(crate) struct Worker {
    process: Child,
    tasks: ChildStdin,
    answers: Receiver<String>,
    patience: Duration,
}

/// The figures of an answer, by their names.
pub(crate) type Answer = BTreeMap<String, f64>;

impl Worker {
    /// Starts the process, and waits until it is connected to the server.
    pub(crate) fn start(command: &mut Command) -> Result<Self, String> {
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = started.map_err(|error| format!("it cannot be started ({error})"))?;
        let (Some(tasks), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("it has no pipes".to_owned());
        };
        let (sender, answers) = channel();
        // A thread of its own, so that a process that does not answer does not hold up the run.
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut worker = Self { process, tasks, answers, patience: PATIENCE };
        match worker.line()?.as_str() {
            "ready" => Ok(worker),
            other => Err(format!("it is not ready, but says {other:?}")),
        }
    }

    /// Has it do one task, and waits for the figures.
    pub(crate) fn ask(&mut self, task: &str) -> Result<Answer, String> {
        self.tell(task)?;
        self.answer()
    }

    /// Has it begin a task.
    pub(crate) fn tell(&mut self, task: &str) -> Result<(), String> {
        let takes_many = ["hold ", "wait ", "queue "].iter().any(|verb| task.starts_with(verb));
        self.patience = if takes_many { PATIENCE_WITH_MANY } else { PATIENCE };
        writeln!(self.tasks, "{task}").map_err(|error| format!("it reads no more ({error})"))
    }

    /// Waits for the figures of the task that it was told.
    pub(crate) fn answer(&mut self) -> Result<Answer, String> {
        parse(&self.line()?)
    }

    fn line(&mut self) -> Result<String, String> {
        self.answers.recv_timeout(self.patience).map_err(|error| match error {
            RecvTimeoutError::Timeout => format!("it did not answer within {} s", self.patience.as_secs()),
            RecvTimeoutError::Disconnected => "it ended".to_owned(),
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Reads `ok name=value name=value`.
fn parse(line: &str) -> Result<Answer, String> {
    let figures = line.strip_prefix("ok").filter(|rest| rest.is_empty() || rest.starts_with(' '));
    let figures = figures.ok_or_else(|| format!("it says {line:?}"))?;
    let pair = |word: &str| {
        let (name, value) = word.split_once('=')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    let pairs: Option<Answer> = figures.split_whitespace().map(pair).collect();
    pairs.ok_or_else(|| format!("its figures cannot be read: {line:?}"))
}

/// A figure that the answer must have.
pub(crate) fn figure(answer: &Answer, name: &str) -> Result<f64, String> {
    answer.get(name).copied().ok_or_else(|| format!("its answer has no {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_or_refused_as_a_whole() {
        let answer = parse("ok pairs=12 wall=3000000000").expect("figures");
        assert_eq!(figure(&answer, "pairs"), Ok(12.0));
        assert!(figure(&answer, "p50").is_err());
        assert!(parse("ok").expect("no figures").is_empty());
        for refused in ["error no such task", "ok pairs", "ok pairs=many", "okay", "", "pairs=1"] {
            assert!(parse(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn process_that_ends_or_does_not_start_is_told() {
        let ended = Worker::start(&mut Command::new("true")).err();
        assert_eq!(ended.as_deref(), Some("it ended"));
        let missing = Worker::start(&mut Command::new("no-such-program-is-here")).err().expect("an error");
        assert!(missing.starts_with("it cannot be started"), "{missing}");
    }

    #[test]
    fn tasks_go_out_and_figures_come_back() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo ready; while read -r verb number; do echo \"ok $verb=$number\"; done"]);
        let mut worker = Worker::start(&mut shell).expect("a shell");
        let answer = worker.ask("twice 7").expect("figures");
        assert_eq!(figure(&answer, "twice"), Ok(7.0));
    }
}
