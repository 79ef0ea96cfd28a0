//! Snapshots of the table at several sizes, in `screens/`.

use super::super::keys::Key;
use super::super::sample::state;
use super::*;
use crate::overview::row::Found;
use crate::overview::sample::{hold, lock};
use crate::overview::scans::{Scan, Told};
use leasehold::inspect::FoundKind;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::time::Duration;

/// Returns the text of a screen, without trailing blanks.
fn screen(state: &mut State, now: Instant, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen in memory");
    let drawn = terminal.draw(|frame| {
        let area = frame.area();
        state.fit(rows_of(area), last_help_of(area));
        draw(state, now, Colours::None, area, frame.buffer_mut());
    });
    let buffer = drawn.expect("it draws").buffer;
    let symbols: Vec<_> = buffer.content().iter().map(ratatui::buffer::Cell::symbol).collect();
    let lines = symbols.chunks(usize::from(width.max(1))).map(|line| line.concat().trim_end().to_owned() + "\n");
    lines.collect()
}

/// Returns a three-second-old table with locks of several kinds.
fn sample_table() -> (State, Instant) {
    let (mut state, now) = (state(), Instant::now());
    let (seconds, minutes) = (Duration::from_secs, |minutes: u64| Duration::from_secs(60 * minutes));
    let process = "worker, process 4711 on shop-7";
    let found = |more: u64| {
        vec![
            Found { said: Some(minutes(61)), lease: Some(seconds(25)), holder: process.to_owned(), ..lock("backup") },
            Found {
                kind: FoundKind::FencedFairLock,
                listeners: None,
                queue: Some(12 + more),
                wait: Some(seconds(9)),
                lease: Some(seconds(29)),
                holds: vec![hold(&format!("6f0c:{more}"))],
                ..lock("till:3")
            },
            Found { problems: "the key has no time to live".to_owned(), ..lock("order:a\u{1b}[2J\u{202e}b") },
            Found { kind: FoundKind::Counter, holds: Vec::new(), holder: "-3 available".to_owned(), ..lock("gate") },
            Found {
                kind: FoundKind::Semaphore,
                is_listed_whole: false,
                holder: "40 held, 2 available".to_owned(),
                listeners: Some(3),
                ..lock("\u{5728}\u{5eab}:\u{6771}\u{4eac}:a name that is longer than any column is wide, by far")
            },
        ]
    };
    for second in 0..3 {
        let begun = now + seconds(second);
        let mut found = found(second);
        if second == 2 {
            found.retain(|found| found.name != "gate");
        }
        let ended = begun + Duration::from_millis(12);
        state.take(Told::Done(Scan { begun, ended, found, is_cut: false, unseen: None }));
    }
    (state, now + seconds(5))
}

/// Compares a screen with its file. The variable `KEEP_SCREENS` rewrites the file.
#[track_caller]
fn is_kept(name: &str, screen: &str) {
    let path = format!("{}/src/top/view/screens/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("KEEP_SCREENS").is_some() {
        std::fs::write(&path, screen).expect("the file can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(kept, screen, "{path}, and the screen:\n{screen}");
}

#[test]
fn wide_screen_has_every_column() {
    let (mut state, now) = sample_table();
    is_kept("wide", &screen(&mut state, now, 160, 12));
}

#[test]
fn usual_screen_has_the_columns_that_matter() {
    let (mut state, now) = sample_table();
    is_kept("usual", &screen(&mut state, now, 80, 24));
}

#[test]
fn narrow_screen_has_the_column_of_the_order() {
    let (mut state, now) = sample_table();
    state.press(Key::Character('t'));
    is_kept("narrow", &screen(&mut state, now, 40, 10));
}

#[test]
fn tiny_screen_has_a_row() {
    let (mut state, now) = sample_table();
    state.press(Key::Down);
    is_kept("tiny", &screen(&mut state, now, 20, 5));
}

#[test]
fn filter_and_help_have_screens_of_their_own() {
    let (mut state, now) = sample_table();
    for key in "/till".chars() {
        state.press(Key::Character(key));
    }
    is_kept("filter", &screen(&mut state, now, 80, 7));
    state.press(Key::Escape);
    state.press(Key::Character('?'));
    is_kept("help", &screen(&mut state, now, 80, 30));
}

#[test]
fn help_is_scrolled_to_its_end_and_back() {
    let (mut state, now) = sample_table();
    state.press(Key::Character('?'));
    state.press(Key::End);
    assert!(screen(&mut state, now, 60, 12).contains("cannot find it."));
    state.press(Key::PageUp);
    assert!(!screen(&mut state, now, 60, 12).contains("cannot find it."));
    state.press(Key::Home);
    assert!(screen(&mut state, now, 60, 12).contains("sort by name"));
}

#[test]
fn outage_stands_above_the_old_table() {
    let (mut state, now) = sample_table();
    state.take(Told::Failed { at: now, why: "the server cannot be reached: connection refused".to_owned() });
    is_kept("outage", &screen(&mut state, now + Duration::from_secs(7), 80, 8));
}

#[test]
fn every_size_and_every_mode_can_be_drawn() {
    for keys in ["", "p", "/x", "?", "n", "!"] {
        let (mut state, now) = sample_table();
        for key in keys.chars() {
            state.press(Key::Character(key));
        }
        state.press(Key::End);
        for width in (0..60).chain([200, 500]) {
            for height in (0..14).chain([60]) {
                screen(&mut state, now, width, height);
            }
        }
        screen(&mut super::super::sample::state(), now, 80, 24);
    }
}

#[test]
fn screens_without_colour_have_none() {
    let (mut state, now) = sample_table();
    state.take(Told::Failed { at: now, why: "gone".to_owned() });
    for (colours, has_some) in [(Colours::None, false), (Colours::Some, true)] {
        let area = Rect::new(0, 0, 80, 24);
        let mut buffer = Buffer::empty(area);
        state.fit(rows_of(area), last_help_of(area));
        draw(&state, now, colours, area, &mut buffer);
        assert_eq!(buffer.content().iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset), has_some);
    }
}

#[test]
fn cells_that_are_cut_say_so() {
    let mut buffer = Buffer::empty(Rect::new(0, 0, 6, 1));
    put(&mut buffer, Rect::new(0, 0, 4, 1), "\u{5728}\u{5eab}\u{6771}", Style::new());
    let text: String = buffer.content().iter().map(ratatui::buffer::Cell::symbol).collect();
    assert_eq!(text.trim_end(), "\u{5728} \u{2026}", "a wide character is never cut in half");
}
