//! Handles the events while the command runs: state changes, signals, the loss of the lock.

use super::child::{Change, Child, Ended, Reached};
use super::hold::Held;
use super::stops::Stops;
use super::terminal::Terminal;
use crate::output;
use crate::signals::{Signals, asks_to_end};
use leasehold::{LossReason, Lost};
use rustix::process::Signal;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// Interval between two checks of a stopping process group.
const LOOK: Duration = Duration::from_millis(20);

/// The time after SIGKILL in which a process ends and its parent reaps it.
const KILLED: Duration = Duration::from_millis(500);

/// The longest time between SIGKILL and the end of a lease.
const SPARE: Duration = Duration::from_millis(500);

/// How the command ended.
pub(super) enum End {
    /// The command ended by itself, or by a forwarded signal.
    Done {
        ended: Ended,
        held_to_the_end: bool,
        /// A terminal key such as Ctrl-C killed the command, and only its group received the signal.
        by_key: bool,
    },
    /// `leasehold` stopped the command.
    Stopped { why: Why, ended: Ended, in_reach: bool },
    /// The command did not start.
    NotStarted(io::Error),
}

/// The reason to stop the command.
pub(super) enum Why {
    /// The lock was lost.
    Lost(Lost),
    /// Renewals fail, and the lease ends soon.
    NotRenewed,
    /// `--max-hold` has elapsed.
    MaxHold(Duration),
}

/// The time limits of a command under a lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The time between SIGTERM and SIGKILL.
    pub(super) grace: Duration,
    pub(super) lease: Duration,
    pub(super) max_hold: Option<Duration>,
}

impl Limits {
    /// Returns the time between SIGTERM and the end of the lease if renewals fail. More than a third of the lease would
    /// leave no time for a second renewal.
    fn notice(self) -> Duration {
        self.grace.saturating_add(self.spare()).min(self.lease / 3)
    }

    /// Returns the time between SIGKILL and the end of the lease.
    fn spare(self) -> Duration {
        (self.lease / 30).min(SPARE)
    }
}

/// A command under its lock.
pub(super) struct Supervised<'a> {
    pub(super) child: &'a mut Child,
    pub(super) held: &'a Held,
    pub(super) signals: &'a mut Signals,
    pub(super) terminal: &'a Terminal,
    pub(super) limits: Limits,
    pub(super) name: &'a str,
    pub(super) json: bool,
    /// Whether this process is stopping the command.
    pub(super) is_stopping: &'a AtomicBool,
    /// The forwarded signals.
    pub(super) passed: Vec<Signal>,
}

impl Supervised<'_> {
    /// Returns whether a forwarded signal requests the end of this process.
    pub(super) fn is_asked_to_end(&self) -> bool {
        self.passed.iter().copied().any(asks_to_end)
    }

    /// Supervises the command until its end.
    pub(super) async fn follow(&mut self) -> End {
        let mut stops = Stops::new(self.terminal, self.name, self.json);
        let over = self.limits.max_hold.map(|most| (most, Instant::now().checked_add(most)));
        let end = loop {
            let left = self.held.remaining().saturating_sub(self.limits.notice());
            tokio::select! {
                biased;
                change = self.child.changed() => match change {
                    Change::Ended(ended) => break End::Done {
                        ended,
                        held_to_the_end: self.held.is_held(),
                        by_key: self.is_by_key(ended),
                    },
                    Change::Stopped(signal) => stops.stopped(self.child, self.held, signal),
                    Change::Orphan => {}
                },
                lost = self.held.lost() => break self.stop(Why::Lost(lost)).await,
                () = sleep(left) => if self.held.remaining() <= self.limits.notice() {
                    break self.stop(Why::NotRenewed).await;
                },
                () = until(over.and_then(|(_, at)| at)) => if let Some((most, _)) = over {
                    break self.stop(Why::MaxHold(most)).await;
                },
                () = stops.due() => stops.look(self.child),
                signal = self.signals.next() => match signal {
                    Signal::TSTP => stops.pause(self.child, self.held),
                    other => self.pass_on(other),
                },
            }
        };
        self.terminal.take_back(self.child.group());
        end
    }

    /// Returns whether a terminal key killed the command. The command was in the foreground, and this process did not
    /// receive the signal.
    fn is_by_key(&self, ended: Ended) -> bool {
        let is_in_front = self.terminal.front() == Some(self.child.group());
        let keys = [Signal::INT, Signal::QUIT].into_iter().filter(|key| !self.passed.contains(key));
        is_in_front && keys.map(Signal::as_raw).any(|key| ended == Ended::Killed(key))
    }

    /// Forwards a signal to the command, and reports a signal that cannot be delivered.
    fn pass_on(&mut self, signal: Signal) {
        self.passed.push(signal);
        if self.child.signal(signal) == Reached::Forbidden {
            let text = format!(
                "cannot forward signal {} to the command under the lock {:?}: it runs as another user",
                signal.as_raw(),
                self.name
            );
            output::warn("not_passed_on", self.name, &text, self.json);
        }
    }

    /// Ends the command and its group: SIGTERM, then SIGKILL after the grace or before the lease ends. SIGCONT lets a
    /// stopped process handle SIGTERM.
    async fn stop(&mut self, why: Why) -> End {
        self.is_stopping.store(true, Ordering::Release);
        // After a pause of this process, the command and the lease may both have ended.
        while self.child.is_over() {
            if let Change::Ended(ended) = self.child.changed().await {
                return End::Done { ended, held_to_the_end: self.held.is_held(), by_key: self.is_by_key(ended) };
            }
        }
        // The lease ended during a pause of this process, so send SIGKILL at once. If the command was paused too, it
        // must not run again, even for SIGTERM.
        if matches!(&why, Why::Lost(lost) if matches!(lost.reason(), LossReason::NotRenewed)) {
            let (ended, in_reach) = self.kill(None).await;
            return End::Stopped { why, ended, in_reach };
        }
        let was_held = self.held.is_held();
        let end = Instant::now().checked_add(self.limits.grace);
        self.child.signal(Signal::TERM);
        self.child.signal(Signal::CONT);
        let mut ended = None;
        loop {
            if ended.is_some() && self.child.left() == Reached::Nobody {
                break;
            }
            // A late renewal may still extend the lease.
            let left = self.held.remaining().saturating_sub(self.limits.spare());
            tokio::select! {
                biased;
                change = self.child.changed() => if let Change::Ended(how) = change {
                    ended = Some(how);
                },
                () = until(end) => break,
                () = sleep(left), if was_held => if self.held.remaining() <= self.limits.spare() {
                    break;
                },
                () = sleep(LOOK), if ended.is_some() => {}
                signal = self.signals.next() => self.pass_on(signal),
            }
        }
        let (ended, in_reach) = self.kill(ended).await;
        End::Stopped { why, ended, in_reach }
    }

    /// Sends SIGKILL to the rest of the group, and waits for its end. Returns how the command ended, and whether the
    /// group is empty.
    async fn kill(&mut self, mut ended: Option<Ended>) -> (Ended, bool) {
        let mut in_reach = true;
        if ended.is_none() || self.child.left() != Reached::Nobody {
            self.child.signal(Signal::KILL);
        }
        let late = Instant::now() + KILLED;
        loop {
            let left = self.child.left();
            if in_reach && left != Reached::Nobody && Instant::now() >= late {
                in_reach = false;
                self.tell_of_a_survivor(left);
            }
            // Keep a held lock until the group ends. A lost lock needs no wait.
            if let Some(how) = ended.filter(|_| left == Reached::Nobody || !in_reach && !self.held.is_held()) {
                return (how, in_reach);
            }
            tokio::select! {
                biased;
                change = self.child.changed() => if let Change::Ended(how) = change {
                    ended = Some(how);
                },
                () = sleep(LOOK) => {}
                signal = self.signals.next() => self.pass_on(signal),
            }
        }
    }

    /// Reports a command that cannot be stopped.
    fn tell_of_a_survivor(&self, left: Reached) {
        let why = match left {
            Reached::Forbidden => "it runs as another user",
            _ => "SIGKILL had no effect",
        };
        let lock =
            if self.held.is_held() { "the lock is held until it ends" } else { "another holder may have the lock" };
        let text = format!("cannot stop the command under the lock {:?}: {why}; it continues, and {lock}", self.name);
        output::warn("not_stopped", self.name, &text, self.json);
    }
}

async fn until(end: Option<Instant>) {
    match end {
        Some(end) => sleep_until(end).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notice_is_the_grace_and_leaves_renewals_a_third_of_the_lease() {
        let of = |lease, grace| {
            let [lease, grace] = [lease, grace].map(Duration::from_millis);
            let limits = Limits { grace, lease, max_hold: None };
            (limits.notice().as_millis(), limits.spare().as_millis())
        };
        assert_eq!(of(30_000, 10_000), (10_000, 500));
        assert_eq!(of(30_000, 2_000), (2_500, 500));
        assert_eq!(of(3_000, 10_000), (1_000, 100));
        assert_eq!(of(30_000, 0), (500, 500));
        assert_eq!(of(30_000, u64::MAX), (10_000, 500));
    }
}
