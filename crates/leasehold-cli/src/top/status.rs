//! The lines above and below the table.

use super::state::{Mode, State};
use crate::overview::column::Column;
use crate::overview::words::{self, age};
use crate::shown::shown;
use std::time::{Duration, Instant};

/// The status line reports a scan that takes longer.
const LONG: Duration = Duration::from_secs(2);

/// The urgency of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Calm,
    Warning,
}

/// Returns the first line: age, totals, pattern and server.
pub(super) fn title(state: &State, now: Instant) -> String {
    let place = shown(&format!("{} on {}", state.wanted().pattern, state.place()));
    match words::summary(state.picture(), now) {
        Some(summary) => format!("{summary}; {place}"),
        None => place,
    }
}

/// Returns the second line: outage, pause, filter, warnings and scroll position.
pub(super) fn status(state: &State, now: Instant) -> (String, Tone) {
    let picture = state.picture();
    if let Some(outage) = words::outage(&picture.server, now) {
        return (shown(&outage), Tone::Warning);
    }
    if state.is_paused() {
        return ("PAUSED: press p to resume".to_owned(), Tone::Warning);
    }
    let mut parts = Vec::new();
    if !state.filter().is_empty() {
        parts.push(format!("{} matching {:?}", state.shown(), state.filter()));
    }
    match (picture.scanning, &picture.table) {
        (Some(scanning), None) => parts.push(words::first_scan(scanning, now)),
        (Some((since, _)), _) if now.saturating_duration_since(since) > LONG => {
            parts.push(format!("scan running for {}", age(now.saturating_duration_since(since))));
        }
        (_, Some(table)) => {
            parts.push(words::pace(table.took, state.wanted().every));
        }
        (None, None) => parts.push("no scan yet".to_owned()),
    }
    let visible = state.visible().count();
    if (1..state.shown()).contains(&visible) {
        parts.push(format!("rows {} to {} of {}", state.first() + 1, state.first() + visible, state.shown()));
    }
    let gaps = picture.table.as_ref().map(words::gaps).unwrap_or_default();
    let tone = if gaps.is_empty() { Tone::Calm } else { Tone::Warning };
    parts.splice(0..0, gaps);
    (shown(&parts.join("; ")), tone)
}

/// Returns the last line: the longest list of keys that fits.
pub(super) fn footer(state: &State, fits: impl Fn(&str) -> bool) -> String {
    let lines = match state.mode() {
        Mode::Filter { .. } => {
            let typed = shown(state.filter());
            vec![format!("/{typed}_   Enter: keep the filter, Esc: cancel"), format!("/{typed}_")]
        }
        Mode::Help { .. } => {
            vec!["arrows scroll  ? or Esc back  q quit".to_owned(), "? back  q quit".to_owned()]
        }
        Mode::Inspect { .. } => {
            vec!["arrows scroll  Enter or Esc back  q quit".to_owned(), "Esc back  q quit".to_owned()]
        }
        Mode::Table => {
            let named = Column::all()
                .map(|column| format!("{} {}", column.key().0, column.key().1))
                .collect::<Vec<_>>()
                .join("  ");
            let keys = Column::all().map(|column| column.key().0.to_string()).collect::<Vec<_>>().join(" ");
            vec![
                format!("sort: {named}   / filter  p pause  ? help  q quit"),
                format!("sort: {keys}   / filter  p pause  ? help  q quit"),
                format!("sort {}  / p ? q", keys.replace(' ', "")),
                "? help  q quit".to_owned(),
            ]
        }
    };
    let shortest = lines.last().cloned().unwrap_or_default();
    lines.into_iter().find(|line| fits(line)).unwrap_or(shortest)
}

/// The help, one paragraph per line.
pub(super) const HELP: [&str; 17] = [
    "n k o g h l w u t !   sort by name, kind, holder, grants, held, lease, waiters, queue, wait, problems; again: reverse the order",
    "/                     filter by a text in name, kind, holder or problems; * matches any text",
    "arrows PageUp PageDown Home End   select a lock and scroll; Enter inspects the lock",
    "p                     pause or resume",
    "q Esc Ctrl-C          quit",
    "",
    "GRANTS/S      new holders per second, over the last ten seconds: a lower bound, because some holds start and end between two scans. \
     Shows - without a complete list of holders.",
    "HELD FOR      as published by the holder after one second; a > marks the time since top first saw the hold.",
    "LEASE LEFT    time until the lock is free without another renewal.",
    "WAITERS       for locks without a queue: clients that listen for a release, including some holders.",
    "QUEUE         waiters in the queue of a fair lock.",
    "LONGEST WAIT  longest wait in this queue, as published by the waiters.",
    "PROBLEMS      such as a held lock without a lease. On a narrow screen, a ! before the name marks a problem instead.",
    "",
    "A free lock stays in the table for ten seconds.",
    "All values are from the last scan; the first line shows its age.",
    "A free lock without waiters has no key on the server, so top cannot find it.",
];

#[cfg(test)]
mod tests {
    use super::super::sample::state;
    use super::*;
    use crate::overview::sample::lock;
    use crate::overview::scans::{Scan, Told};

    #[test]
    fn outage_and_its_reason_are_one_line() {
        let (mut state, now) = (state(), Instant::now());
        state.take(Told::Done(Scan { begun: now, ended: now, found: vec![lock("a")], is_cut: false, unseen: None }));
        state.take(Told::Failed { at: now, why: "connection\nrefused\u{1b}[2J".to_owned() });
        let later = now + Duration::from_millis(7_900);
        let line = r"NO ANSWER for 7 s: connection\nrefused\u{1b}[2J".to_owned();
        assert_eq!(status(&state, later), (line, Tone::Warning));
        assert!(title(&state, later).starts_with("7 s old: 1 lock, 1 held, 0 waiting; * on redis://"));
    }

    #[test]
    fn names_that_may_not_be_looked_at_are_told_first() {
        let (mut state, now) = (state(), Instant::now());
        let unseen = Some("cannot inspect 3 matching names".to_owned());
        state.take(Told::Done(Scan { begun: now, ended: now, found: Vec::new(), is_cut: false, unseen }));
        let (line, tone) = status(&state, now);
        assert!(line.starts_with("cannot inspect 3 matching names; "), "{line}");
        assert_eq!(tone, Tone::Warning);
    }

    #[test]
    fn running_scan_is_reported() {
        let (mut state, now) = (state(), Instant::now());
        let at = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(status(&state, now).0, "no scan yet");
        state.take(Told::Begun(now));
        state.take(Told::Progress(120));
        assert_eq!(status(&state, at(3)).0, "first scan running for 3 s, 120 locks so far");
        state.take(Told::Done(Scan { begun: now, ended: at(1), found: vec![lock("a")], is_cut: true, unseen: None }));
        let (line, tone) = status(&state, at(3));
        assert!(line.starts_with("TOO MANY LOCKS") && line.ends_with("scan takes 1.0 s, interval 2.0 s"), "{line}");
        assert_eq!(tone, Tone::Warning);
        state.take(Told::Begun(at(3)));
        assert!(status(&state, at(10)).0.ends_with("scan running for 7 s"));
    }
}
