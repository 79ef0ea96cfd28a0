//! `leasehold top`: a live table of the locks on the terminal.
//!
//! `overview/scans.rs` scans the server, and `top/keys.rs` reads the keyboard. Both send events to `top/state.rs`,
//! which does no I/O. `top/view.rs` draws the state, `top/terminal.rs` manages the terminal, and this file runs the
//! event loop.

mod keys;
#[cfg(test)]
mod sample;
mod state;
mod status;
mod terminal;
mod view;

use crate::args::{ServerOptions, TopOptions};
use crate::connection::{self, FAREWELL};
use crate::ending::Ending;
use crate::failure::{Exit, Failure};
use crate::inspect;
use crate::overview::foreign::Foreign;
use crate::overview::scans::{self, Told, Wanted};
use crate::signals::{Signals, asks_to_end, stop_this_process};
use leasehold::Client;
use rustix::process::Signal;
use state::{Asked, State};
use std::convert::Infallible;
use std::time::{Duration, Instant};
use terminal::Screen;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, sleep};
use view::Colours;

/// Redraw interval without events, for the age on the screen.
const TICK: Duration = Duration::from_millis(500);

/// The pause between two inspections of the selected lock.
const INSPECT: Duration = Duration::from_secs(1);

/// Interval between two checks for the foreground after a stop.
const BACKGROUND: Duration = Duration::from_millis(200);

/// Shows the table until a key or a signal ends it.
///
/// # Errors
///
/// Stdout is not a terminal or fails, the connect fails, or the server refuses the search.
pub(crate) async fn top(options: &TopOptions, server: &ServerOptions) -> Result<Ending, Failure> {
    if server.json || !terminal::can_be_drawn_on() {
        let why =
            if server.json { "top has no JSON output" } else { "top needs a terminal, and stdout is not a terminal" };
        let text = format!("{why}; use `leasehold ls --json` for a list, or `leasehold watch --json` for changes");
        return Err(Failure::new(Exit::Usage, text));
    }
    let mut signals = Signals::listen()?;
    let client = match signals.unless_ended(connection::connect(server, "leasehold top")).await {
        Ok(client) => client?,
        Err(signal) => return Ok(ending(signal)),
    };
    let wanted = Wanted { pattern: options.pattern.clone(), kinds: options.kinds(), every: options.every };
    let (told, scans) = mpsc::unbounded_channel();
    let (viewers, viewing) = watch::channel(1);
    let (inspected, inspecting) = watch::channel(None);
    let (seen, details) = mpsc::unbounded_channel();
    let table = Table {
        state: State::new(connection::place(server)?, wanted.clone(), options.sort),
        viewers,
        inspected,
        colours: Colours::of_environment(),
    };
    let (foreign, prefix) = (Foreign::default(), connection::prefix(server));
    let result = tokio::select! {
        failure = scans::repeat(&client, &wanted, &foreign, viewing, told) => Err(failure),
        never = inspect_all(&client, &prefix, inspecting, seen) => match never {},
        end = table.show(scans, details, &mut signals) => end,
    };
    // This command holds no lock.
    let _ = client.shutdown(FAREWELL).await;
    result
}

/// Returns the end after a signal. SIGINT ends the table like the key `q`.
fn ending(signal: Signal) -> Ending {
    if signal == Signal::INT { 0.into() } else { Ending::by(signal) }
}

/// Inspects the selected lock in a loop. Never completes.
async fn inspect_all(
    client: &Client,
    prefix: &str,
    mut wanted: watch::Receiver<Option<String>>,
    seen: mpsc::UnboundedSender<(String, Vec<String>)>,
) -> Infallible {
    loop {
        let name = wanted.borrow_and_update().clone();
        if let Some(name) = &name {
            let key = format!("{prefix}{name}");
            let looked = tokio::select! {
                biased;
                _ = wanted.changed() => continue,
                lines = inspect::as_lines(client, name, &key) => lines,
            };
            // After the end of the table, the caller drops this future.
            let _ = seen.send((name.clone(), looked));
        }
        tokio::select! {
            changed = wanted.changed() => if changed.is_err() {
                std::future::pending::<()>().await;
            },
            () = sleep(INSPECT), if name.is_some() => {}
        }
    }
}

/// The table, and its channels to the scans.
struct Table {
    state: State,
    /// The number of viewers: 0 during a pause, otherwise 1.
    viewers: watch::Sender<usize>,
    /// The lock to inspect.
    inspected: watch::Sender<Option<String>>,
    colours: Colours,
}

impl Table {
    /// Draws the table, and handles keys and signals until a key or signal ends it. Restores the screen on return and
    /// on drop.
    async fn show(
        mut self,
        mut scans: mpsc::UnboundedReceiver<Told>,
        mut details: mpsc::UnboundedReceiver<(String, Vec<String>)>,
        signals: &mut Signals,
    ) -> Result<Ending, Failure> {
        let mut screen = Screen::open()?;
        let mut keys = keys::read();
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            screen.draw(|area, buffer| {
                self.state.fit(view::rows_of(area), view::last_help_of(area));
                view::draw(&self.state, Instant::now(), self.colours, area, buffer);
            })?;
            let asked = tokio::select! {
                biased;
                signal = signals.next() => match signal {
                    signal if asks_to_end(signal) => return Ok(ending(signal)),
                    Signal::TSTP => Asked::Stop,
                    _ => Asked::Nothing,
                },
                event = keys.recv() => match event {
                    Some(Ok(event)) => keys::key_of(&event).map_or(Asked::Nothing, |key| self.state.press(key)),
                    Some(Err(error)) => return Err(Failure::new(Exit::Io, format!("cannot read keys: {error}"))),
                    None => return Err(Failure::new(Exit::Io, "cannot read keys: the terminal is closed")),
                },
                Some(told) = scans.recv() => {
                    self.state.take(told);
                    Asked::Nothing
                }
                Some((name, lines)) = details.recv() => {
                    self.state.take_inspected(&name, lines);
                    Asked::Nothing
                }
                _ = tick.tick() => Asked::Nothing,
            };
            match asked {
                Asked::Nothing => {}
                Asked::Quit => return Ok(0.into()),
                Asked::Redraw => screen.forget()?,
                Asked::Stop => {
                    if let Some(signal) = stop(&mut screen, signals).await? {
                        return Ok(ending(signal));
                    }
                }
            }
            let inspected = self.state.inspected();
            self.inspected.send_if_modified(|before| {
                let changes = before.as_deref() != inspected;
                if changes {
                    *before = inspected.map(str::to_owned);
                }
                changes
            });
            let viewers = usize::from(!self.state.is_paused());
            self.viewers.send_if_modified(|before| std::mem::replace(before, viewers) != viewers);
        }
    }
}

/// Stops this process until it returns to the foreground. Returns a terminating signal.
async fn stop(screen: &mut Screen, signals: &mut Signals) -> Result<Option<Signal>, Failure> {
    Screen::lend();
    stop_this_process();
    while !terminal::is_in_front() {
        tokio::select! {
            signal = signals.next() => if asks_to_end(signal) {
                return Ok(Some(signal));
            },
            () = sleep(BACKGROUND) => {}
        }
    }
    screen.take_back()?;
    Ok(None)
}
