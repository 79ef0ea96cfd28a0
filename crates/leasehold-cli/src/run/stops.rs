//! A command that a signal has stopped, and when it is woken.

use super::child::Child;
use super::hold::Held;
use super::terminal::Terminal;
use crate::output;
use crate::signals::{is_a_job, stop_this_process};
use rustix::process::{Signal, kill_current_process_group};
use std::time::Duration;
use tokio::time::Instant;

/// How often the command is woken within [`PAUSE`]. To wake a command at once that is stopped again each time would keep a processor busy.
const MOST: u32 = 8;

/// The time after which a command that was left stopped is looked after.
const PAUSE: Duration = Duration::from_secs(1);

/// The stops of a command, and the answers to them.
pub(super) struct Stops<'a> {
    terminal: &'a Terminal,
    name: &'a str,
    json: bool,
    since: Instant,
    wakes: u32,
    told: bool,
    /// A command that was left stopped: when it is looked after, and whether it needs the terminal to go on.
    left: Option<(Instant, bool)>,
}

impl<'a> Stops<'a> {
    pub(super) fn new(terminal: &'a Terminal, name: &'a str, json: bool) -> Self {
        Self { terminal, name, json, since: Instant::now(), wakes: 0, told: false, left: None }
    }

    /// A signal has stopped the command. The terminal is what it may want; otherwise this process stops with it, so that its shell sees a
    /// job that is stopped. A stop that has nothing to do with the terminal concerns the command alone.
    pub(super) fn stopped(&mut self, child: &Child, signal: i32) {
        let wants_terminal = signal == Signal::TTIN.as_raw() || signal == Signal::TTOU.as_raw();
        if wants_terminal && (self.terminal.lend(child.group()) || !is_a_job()) {
            self.wake(child, true);
        } else if wants_terminal || signal == Signal::TSTP.as_raw() {
            // This process hears the signal too, and then pauses; so do the others of its pipeline.
            let _ = kill_current_process_group(Signal::TSTP);
        }
    }

    /// Stops the command and this process, until a shell tells it to go on. Meanwhile the lock is not renewed. If it was lost by then, the
    /// command is not woken here: the next event is the loss.
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

    /// Completes when a command that was left stopped is to be looked after.
    pub(super) async fn due(&self) {
        match self.left {
            Some((at, _)) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Looks after a command that was left stopped.
    pub(super) fn look(&mut self, child: &Child) {
        if let Some((_, needs_terminal)) = self.left.take() {
            self.wake(child, needs_terminal);
        }
    }

    /// Wakes the command, unless it lacks the terminal or was woken too often.
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
                "it wants the terminal, which belongs to another program; it goes on when the terminal is free"
            } else {
                "it was stopped again each time it was woken, and is now woken once a second"
            };
            let text = format!("the command under the lock {:?} is stopped: {why}", self.name);
            output::warn("stopped", self.name, &text, self.json);
        }
    }
}
