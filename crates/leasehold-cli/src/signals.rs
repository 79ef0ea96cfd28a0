//! The signals to this process.

use crate::failure::{Exit, Failure};
use futures_util::FutureExt as _;
use rustix::process::{self, Signal};
use std::future::poll_fn;
use std::task::Poll;
use tokio::signal::unix::{self, SignalKind};

/// The signals that end a wait for the lock: terminating signals, except signals for faults of the process itself.
const ENDING: [Signal; 10] = [
    Signal::TERM,
    Signal::INT,
    Signal::HUP,
    Signal::QUIT,
    Signal::ABORT,
    Signal::ALARM,
    Signal::VTALARM,
    Signal::PROF,
    Signal::XCPU,
    Signal::XFSZ,
];

/// Signals of some systems only.
#[cfg(target_os = "linux")]
const ENDING_HERE: &[Signal] = &[Signal::IO, Signal::POWER];
#[cfg(not(target_os = "linux"))]
const ENDING_HERE: &[Signal] = &[];

/// The other signals that `run` forwards, and SIGTSTP.
const OTHERS: [Signal; 4] = [Signal::USR1, Signal::USR2, Signal::WINCH, Signal::TSTP];

/// The real-time signals. The C library reserves the first numbers.
#[cfg(target_os = "linux")]
const REAL_TIME: std::ops::RangeInclusive<i32> = 34..=64;
#[cfg(not(target_os = "linux"))]
const REAL_TIME: std::ops::Range<i32> = 0..0;

/// The signals to this process, with handlers that keep it alive.
pub(crate) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    /// Installs the handlers. An ignored signal stays ignored, as `nohup` intends. A real-time signal counts as SIGTERM,
    /// because forwarding it needs `unsafe`.
    ///
    /// # Errors
    ///
    /// The system call fails, which should not happen.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let ignored = ignored();
        let is_heard = |number: i32| ignored >> (number - 1) & 1 == 0;
        let listen = |number| unix::signal(SignalKind::from_raw(number));
        let named = ENDING.iter().chain(ENDING_HERE).chain(&OTHERS).filter(|signal| is_heard(signal.as_raw()));
        let streams = named.map(|signal| Ok((*signal, listen(signal.as_raw())?)));
        let mut streams = streams
            .collect::<std::io::Result<Vec<_>>>()
            .map_err(|error| Failure::new(Exit::Other, format!("cannot handle signals: {error}")))?;
        let real_time = REAL_TIME.filter(|number| is_heard(*number)).filter_map(|number| listen(number).ok());
        streams.extend(real_time.map(|stream| (Signal::TERM, stream)));
        Ok(Self(streams))
    }

    /// Returns the next signal.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|cx| {
            for (signal, stream) in &mut self.0 {
                if let Poll::Ready(Some(())) = stream.poll_recv(cx) {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Handles a signal while no command runs.
    fn heed(signal: Signal) -> Result<(), Signal> {
        match signal {
            signal if asks_to_end(signal) => return Err(signal),
            Signal::TSTP => _ = stop_this_process(),
            _ => {}
        }
        Ok(())
    }

    /// Runs `work`. A terminating signal drops `work`.
    ///
    /// # Errors
    ///
    /// The signal.
    pub(crate) async fn unless_ended<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Signal> {
        tokio::pin!(work);
        let done = loop {
            tokio::select! {
                biased;
                signal = self.next() => Self::heed(signal)?,
                value = &mut work => break value,
            }
        };
        // The runtime reads an earlier signal at its next poll for I/O.
        tokio::task::yield_now().await;
        while let Some(signal) = self.next().now_or_never() {
            Self::heed(signal)?;
        }
        Ok(done)
    }
}

/// Returns whether a signal requests the end of this process.
pub(crate) fn asks_to_end(signal: Signal) -> bool {
    ENDING.contains(&signal) || ENDING_HERE.contains(&signal)
}

/// Stops this process until SIGCONT, as Ctrl-Z does. Does nothing without a shell that can resume the process. Returns
/// whether the process stopped. The main thread sends the signal, so the kernel delivers it before the call returns.
pub(crate) fn stop_this_process() -> bool {
    is_a_job() && process::kill_process(process::getpid(), Signal::STOP).is_ok()
}

/// Returns whether a shell controls this process as a job, in a process group of its own.
pub(crate) fn is_a_job() -> bool {
    process::getsid(None).is_ok_and(|session| session != process::getpgrp())
}

/// Returns whether this process ignores a signal. `false` if unknown.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    ignored() >> (signal.as_raw() - 1) & 1 == 1
}

/// Returns the bit set of ignored signals from /proc. Empty on systems other than Linux.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or_default()
}
