//! The meaning of each event while the command runs: a change of its process, a signal, the loss of the lock.

use super::child::{Change, Child, Ended};
use super::hold::Held;
use super::terminal::Terminal;
use crate::signals::{Signals, stop_this_process};
use leasehold::Lost;
use rustix::process::Signal;
use std::io;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// How often the rest of a group is looked for that is being stopped.
const LOOK: Duration = Duration::from_millis(20);

/// How the command came to its end.
pub(super) enum End {
    /// It ended by itself, or by a signal that was passed on.
    Done { ended: Ended, held_to_the_end: bool },
    /// The lock was lost before, and the command was stopped.
    Stopped { lost: Lost, ended: Ended },
    /// It was not started.
    NotStarted(io::Error),
}

/// Follows the command to its end.
pub(super) async fn to_the_end(
    child: &mut Child,
    held: &Held,
    signals: &mut Signals,
    terminal: &Terminal,
    grace: Duration,
) -> End {
    let end = loop {
        tokio::select! {
            biased;
            change = child.changed() => match change {
                Change::Ended(ended) => break End::Done { ended, held_to_the_end: held.is_held() },
                Change::Stopped(signal) => stopped(child, signal, terminal),
            },
            lost = held.lost() => break End::Stopped { lost, ended: stop(child, signals, grace).await },
            signal = signals.next() => match signal {
                Signal::TSTP => pause(child, held, terminal),
                other => child.signal(other),
            },
        }
    };
    terminal.take_back(child.group());
    end
}

/// A signal has stopped the command. The terminal is what it may want; otherwise this process stops with it, so that its shell sees a job
/// that is stopped. A stop that has nothing to do with the terminal concerns the command alone.
fn stopped(child: &Child, signal: i32, terminal: &Terminal) {
    let wants_terminal = signal == Signal::TTIN.as_raw() || signal == Signal::TTOU.as_raw();
    if wants_terminal && terminal.lend(child.group()) {
        child.signal(Signal::CONT);
    } else if wants_terminal || signal == Signal::TSTP.as_raw() {
        // This process hears the signal too, and then pauses; so do the others of its pipeline.
        let _ = rustix::process::kill_current_process_group(Signal::TSTP);
    }
}

/// Stops the command and this process, until a shell tells it to go on. Meanwhile the lock is not renewed. If it was lost by then, the
/// command is not woken here: the next event is the loss.
fn pause(child: &Child, held: &Held, terminal: &Terminal) {
    child.signal(Signal::TSTP);
    terminal.take_back(child.group());
    stop_this_process();
    if held.is_held() {
        if terminal.is_interactive() {
            terminal.lend(child.group());
        }
        child.signal(Signal::CONT);
    }
}

/// Ends the command and its group: SIGTERM, and SIGKILL after the grace. SIGCONT wakes a process that is stopped, so that it can end.
async fn stop(child: &mut Child, signals: &mut Signals, grace: Duration) -> Ended {
    child.signal(Signal::TERM);
    child.signal(Signal::CONT);
    let end = Instant::now().checked_add(grace);
    let over = async move {
        match end {
            Some(end) => sleep_until(end).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(over);
    let mut ended = None;
    loop {
        tokio::select! {
            biased;
            change = child.changed() => if let Change::Ended(how) = change {
                ended = Some(how);
            },
            () = &mut over => break,
            () = sleep(LOOK), if ended.is_some() => {}
            signal = signals.next() => child.signal(signal),
        }
        if ended.is_some() && !child.has_processes() {
            break;
        }
    }
    if ended.is_none() || child.has_processes() {
        child.signal(Signal::KILL);
    }
    loop {
        match ended {
            Some(how) => return how,
            None => {
                if let Change::Ended(how) = child.changed().await {
                    ended = Some(how);
                }
            }
        }
    }
}
