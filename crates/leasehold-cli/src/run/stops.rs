//! Stopped commands, and when to resume them.

use super::child::Child;
use super::hold::Held;
use super::terminal::Terminal;
use crate::output;
use crate::signals::{is_a_job, stop_this_process};
use rustix::process::{Signal, kill_current_process_group};
use std::time::Duration;
use tokio::time::Instant;

/// Maximum number of resumes within [`PAUSE`]. More resumes of a command that always stops again would waste CPU time.
const MOST: u32 = 8;

/// The time until the next check of a command that stays stopped.
const PAUSE: Duration = Duration::from_secs(1);

/// The stops of a command, and the reactions to them.
pub(super) struct Stops<'a> {
    terminal: &'a Terminal,
    name: &'a str,
    json: bool,
    since: Instant,
    wakes: u32,
    told: bool,
    /// For a command that stays stopped: the time of the next check, and whether the command needs the terminal.
    left: Option<(Instant, bool)>,
}

impl<'a> Stops<'a> {
    pub(super) fn new(terminal: &'a Terminal, name: &'a str, json: bool) -> Self {
        Self { terminal, name, json, since: Instant::now(), wakes: 0, told: false, left: None }
    }

    /// Handles a stop of the command by a signal. A command that needs the terminal moves to the foreground if
    /// possible. Otherwise this process stops too, to show its shell a stopped job. Any other stop only affects the
    /// command.
    pub(super) fn stopped(&mut self, child: &Child, held: &Held, signal: i32) {
        let is_by = |stop: Signal| signal == stop.as_raw();
        if is_by(Signal::TTIN) || is_by(Signal::TTOU) {
            if !self.terminal.lend(child.group()) && is_a_job() {
                // This process does not handle SIGTTIN, so it stops here with its pipeline. An enclosing `run` sees
                // that this group needs the terminal.
                let _ = kill_current_process_group(Signal::TTIN);
            }
            if held.is_held() {
                self.wake(child, true);
            }
        } else if is_by(Signal::TSTP) || is_by(Signal::STOP) && self.terminal.front() == Some(child.group()) {
            // A nested `run` handles SIGTSTP, and then stops itself by SIGSTOP. Stop the whole pipeline as Ctrl-Z does.
            let _ = kill_current_process_group(Signal::TSTP);
        }
    }

    /// Stops the command and this process until a shell resumes this process. A stopped process does not renew the
    /// lock. After a loss, the command stays stopped: the next event is the loss.
    pub(super) fn pause(&mut self, child: &Child, held: &Held) {
        child.signal(Signal::TSTP);
        self.terminal.take_back(child.group());
        if stop_this_process() {
            self.wakes = 0;
        }
        if held.is_held() {
            if self.terminal.is_interactive() {
                self.terminal.lend(child.group());
            }
            self.wake(child, false);
        }
    }

    /// Completes at the next check of a command that stays stopped.
    pub(super) async fn due(&self) {
        match self.left {
            Some((at, _)) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Checks a command that stays stopped.
    pub(super) fn look(&mut self, child: &Child) {
        if let Some((_, needs_terminal)) = self.left.take() {
            self.wake(child, needs_terminal);
        }
    }

    /// Resumes the command, unless it needs the terminal or was resumed too often.
    fn wake(&mut self, child: &Child, needs_terminal: bool) {
        if self.since.elapsed() >= PAUSE {
            (self.since, self.wakes) = (Instant::now(), 0);
        }
        self.wakes += 1;
        if self.wakes <= MOST && (!needs_terminal || self.terminal.lend(child.group())) {
            child.signal(Signal::CONT);
            return;
        }
        self.left = Some((Instant::now() + PAUSE, needs_terminal));
        if !std::mem::replace(&mut self.told, true) {
            let why = if needs_terminal {
                "it needs the terminal, which another program uses; it continues when the terminal is free"
            } else {
                "it stopped again after each resume; retrying once a second"
            };
            let text = format!("the command under the lock {:?} is stopped: {why}", self.name);
            output::warn("stopped", self.name, &text, self.json);
        }
    }
}
