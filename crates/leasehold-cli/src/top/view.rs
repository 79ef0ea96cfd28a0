//! Draws the table.

use super::state::{Mode, State};
use super::status::{self, Tone};
use crate::overview::column::Column;
use crate::overview::row::Row;
use crate::shown::shown;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;
use std::time::Instant;

/// Width of the gap between two columns.
const GAP: u16 = 1;

/// The columns by priority, because a narrow screen omits the last columns. The sort column follows the name.
const WANTED: [Column; 10] = [
    Column::Name,
    Column::Held,
    Column::Queue,
    Column::Waiters,
    Column::Grants,
    Column::Holder,
    Column::Lease,
    Column::Kind,
    Column::Wait,
    Column::Problems,
];

/// The columns that share the remaining width.
const GROWING: [Column; 4] = [Column::Name, Column::Holder, Column::Kind, Column::Problems];

/// Whether to use colours. The table has the same information without colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colours {
    Some,
    None,
}

impl Colours {
    /// Reads the variable `NO_COLOR`.
    pub(super) fn of_environment() -> Self {
        if std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) { Self::None } else { Self::Some }
    }

    fn style(self, colour: Color, modifier: Modifier) -> Style {
        let style = Style::new().add_modifier(modifier);
        if self == Self::Some { style.fg(colour) } else { style }
    }
}

/// Lays out the lines of the screen. A low screen omits the title, then the column titles.
struct Places {
    title: Option<u16>,
    status: Option<u16>,
    head: Option<u16>,
    rows: (u16, u16),
    footer: Option<u16>,
}

impl Places {
    const fn of(height: u16) -> Self {
        let has_title = height >= 5;
        let status = if has_title { 1 } else { 0 };
        let has_head = height >= 3;
        let first = status + if has_head { 2 } else { 1 };
        let has_footer = height >= 2;
        let end = if has_footer { height - 1 } else { height };
        Self {
            title: if has_title { Some(0) } else { None },
            status: if height >= 1 { Some(status) } else { None },
            head: if has_head { Some(status + 1) } else { None },
            rows: (first, end.saturating_sub(first)),
            footer: if has_footer { Some(height - 1) } else { None },
        }
    }

    /// Returns the first line and the height of the help, which covers rows and column titles.
    const fn help(&self) -> (u16, u16) {
        match self.head {
            Some(head) => (head, self.rows.1 + 1),
            None => self.rows,
        }
    }
}

/// Returns the number of rows on a screen.
pub(super) fn rows_of(area: Rect) -> usize {
    usize::from(Places::of(area.height).rows.1)
}

/// Returns the last scroll position of the help.
pub(super) fn last_help_of(area: Rect) -> usize {
    help_lines(area.width).len().saturating_sub(usize::from(Places::of(area.height).help().1))
}

/// Draws the whole screen.
pub(super) fn draw(state: &State, now: Instant, colours: Colours, area: Rect, buffer: &mut Buffer) {
    let places = Places::of(area.height);
    let mut line = |y: Option<u16>, text: &str, style: Style| {
        if let Some(y) = y {
            put(buffer, Rect { y: area.y + y, height: 1, ..area }, text, style);
        }
    };
    let (text, tone) = status::status(state, now);
    let style = match tone {
        Tone::Calm => Style::new(),
        Tone::Warning => colours.style(Color::Red, Modifier::BOLD),
    };
    line(places.title, &status::title(state, now), Style::new().add_modifier(Modifier::BOLD));
    line(places.status, &text, style);
    let footer = status::footer(state, |text| width(text) <= area.width);
    line(places.footer, &footer, colours.style(Color::Cyan, Modifier::empty()));
    let below = |y: u16, height: u16| Rect { y: area.y + y, height, ..area };
    match state.mode() {
        Mode::Help { first } => {
            let (from, height) = places.help();
            write(help_lines(area.width).get(*first..).unwrap_or_default(), below(from, height), buffer);
        }
        Mode::Inspect { name, lines, first } => {
            let (from, height) = places.help();
            let waiting = [format!("inspecting {}", shown(name))];
            let lines = if lines.is_empty() { &waiting[..] } else { lines };
            let wrapped: Vec<_> = lines.iter().skip(*first).flat_map(|text| wrapped(text, area.width)).collect();
            write(&wrapped, below(from, height), buffer);
        }
        _ => table(state, colours, places.head.map(|y| below(y, 1)), below(places.rows.0, places.rows.1), buffer),
    }
}

fn table(state: &State, colours: Colours, head: Option<Rect>, area: Rect, buffer: &mut Buffer) {
    let rows: Vec<_> = state.visible().collect();
    let columns = columns(&rows, state.sort().column, area.width);
    if let Some(head) = head {
        let style = Style::new().add_modifier(Modifier::REVERSED);
        buffer.set_style(head, style);
        for (column, x, width) in &columns {
            let sort = state.sort();
            let mark = match (*column == sort.column, sort.is_reversed) {
                (false, _) => "",
                (true, false) => "\u{2193}",
                (true, true) => "\u{2191}",
            };
            let title = format!("{}{mark}", column.title());
            cell(buffer, (*column, head.x + x, *width), head.y, &title, style);
        }
    }
    let hides_problems = columns.iter().all(|(column, ..)| *column != Column::Problems);
    for (row, y) in rows.into_iter().zip(area.y..area.bottom()) {
        let style = if !row.found.problems.is_empty() {
            colours.style(Color::Yellow, Modifier::empty())
        } else if row.is_gone {
            Style::new().add_modifier(Modifier::DIM)
        } else {
            Style::new()
        };
        let is_selected = state.selected() == Some(&*row.found.name);
        let style = if is_selected { style.add_modifier(Modifier::REVERSED) } else { style };
        buffer.set_style(Rect { y, height: 1, ..area }, style);
        for (column, x, width) in &columns {
            let text = column.text(row);
            // Without the problems column, a mark before the name shows a problem.
            let text = if *column == Column::Name && hides_problems && !row.found.problems.is_empty() {
                format!("! {text}")
            } else {
                text
            };
            cell(buffer, (*column, area.x + x, *width), y, &text, style);
        }
    }
}

/// Returns the columns that fit, each with its position and width.
fn columns(rows: &[&Row], sorted: Column, room: u16) -> Vec<(Column, u16, u16)> {
    let mut widths: Vec<(Column, u16)> = Vec::new();
    let mut left = room;
    let wanted = WANTED[..1].iter().chain([&sorted]).chain(&WANTED[1..]);
    for column in wanted {
        let gap = if widths.is_empty() { 0 } else { GAP };
        // The name is always visible.
        let least = if widths.is_empty() { least(*column).min(room) } else { least(*column) };
        if least + gap <= left && !widths.iter().any(|(other, _)| other == column) {
            widths.push((*column, least));
            left -= least + gap;
        }
    }
    grow(&mut widths, left, |column| rows.iter().map(|row| width(&column.text(row))).max().unwrap_or_default());
    let mut x = 0;
    let in_order = Column::all().filter_map(|column| widths.iter().find(|(other, _)| *other == column));
    let placed = in_order.map(|(column, width)| {
        let at = x;
        x += width + GAP;
        (*column, at, *width)
    });
    placed.collect()
}

/// Distributes the remaining width, one cell per column in turn.
fn grow(widths: &mut [(Column, u16)], mut left: u16, wish: impl Fn(Column) -> u16) {
    let wishes = GROWING.map(&wish);
    let mut before = None;
    while left > 0 && before != Some(left) {
        before = Some(left);
        for (growing, wish) in GROWING.into_iter().zip(wishes) {
            let column = widths.iter_mut().find(|(column, width)| *column == growing && *width < wish);
            if let Some((_, width)) = column.filter(|_| left > 0) {
                *width += 1;
                left -= 1;
            }
        }
    }
}

/// Returns the minimum width of a column, for its title with the sort mark and for typical cells.
const fn least(column: Column) -> u16 {
    match column {
        Column::Name | Column::Lease | Column::Problems => 12,
        Column::Kind | Column::Grants => 9,
        Column::Holder => 24,
        Column::Held | Column::Wait => 13,
        Column::Waiters => 8,
        Column::Queue => 6,
    }
}

fn write(lines: &[String], area: Rect, buffer: &mut Buffer) {
    for (text, y) in lines.iter().zip(area.y..area.bottom()) {
        put(buffer, Rect { y, height: 1, ..area }, text, Style::new());
    }
}

fn help_lines(room: u16) -> Vec<String> {
    status::HELP.iter().flat_map(|text| wrapped(text, room)).collect()
}

/// Wraps a paragraph.
fn wrapped(text: &str, room: u16) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last().map_or("", String::as_str);
        if !line.trim().is_empty() && width(line) + 1 + width(word) > room {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() || word.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

/// Draws a cell. Numbers are right-aligned.
fn cell(buffer: &mut Buffer, (column, x, room): (Column, u16, u16), y: u16, text: &str, style: Style) {
    let indent = if column.is_number() { room.saturating_sub(width(text)) } else { 0 };
    put(buffer, Rect { x: x + indent, y, width: room - indent, height: 1 }, text, style);
}

/// Draws a text, cut to the available width.
fn put(buffer: &mut Buffer, place: Rect, text: &str, style: Style) {
    let place = place.intersection(*buffer.area());
    if place.is_empty() {
        return;
    }
    if width(text) <= place.width {
        buffer.set_stringn(place.x, place.y, text, place.width.into(), style);
        return;
    }
    let (end, _) = buffer.set_stringn(place.x, place.y, text, usize::from(place.width - 1), style);
    buffer.set_stringn(end, place.y, "\u{2026}", 1, style);
}

/// Returns the width of a text in cells.
fn width(text: &str) -> u16 {
    u16::try_from(Span::raw(text).width()).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests;
