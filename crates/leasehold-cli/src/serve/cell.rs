//! The cells and columns of the tables.

use crate::look::is_of_a_client;
use crate::moment;
use crate::overview::column::Column;
use crate::overview::row::Process;
use crate::shown::shown;
use serde_json::{Value, json};

/// The text of an empty cell.
pub(super) const NOTHING: &str = "–";

/// The content of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Text,
    /// A text that a narrow column truncates.
    Long,
    Number,
    /// A link to another view.
    Link,
    /// A time, which the browser shows in its own time zone.
    Time,
    /// A command to copy.
    Command,
    /// A sentence below the rest of the row.
    Note,
}

impl Content {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Long => "long",
            Self::Number => "number",
            Self::Link => "link",
            Self::Time => "time",
            Self::Command => "command",
            Self::Note => "note",
        }
    }
}

/// A column heading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) title: &'static str,
    pub(super) content: Content,
    /// The column of `top` that this heading sorts by.
    pub(super) sort: Option<Column>,
}

const fn head(title: &'static str, content: Content, sort: Option<Column>) -> Head {
    Head { title, content, sort }
}

/// The columns of more than one table.
const HOST: Head = head("Host", Content::Long, None);
const PID: Head = head("PID", Content::Number, None);
const SINCE: Head = head("Since", Content::Time, None);
const NOTE: Head = head("Note", Content::Note, None);
const FREE: Head = head("Free", Content::Command, None);
const HOLDER: Head = head("Holder", Content::Long, None);
const HELD_FOR: Head = head("Held for", Content::Number, None);
const ENDED: Head = head("Ended", Content::Time, None);
const OUTCOME: Head = head("Outcome", Content::Text, None);

/// The columns of the table of all locks.
pub(super) const LOCKS: [Head; 13] = [
    head("Lock", Content::Link, Some(Column::Name)),
    head("Kind", Content::Text, Some(Column::Kind)),
    head("Holder", Content::Long, Some(Column::Holder)),
    HOST,
    PID,
    SINCE,
    head("Held for", Content::Number, Some(Column::Held)),
    head("Lease left", Content::Number, Some(Column::Lease)),
    head("Waiting", Content::Number, Some(Column::Waiters)),
    head("Longest wait", Content::Number, Some(Column::Wait)),
    head("Grants/s", Content::Number, Some(Column::Grants)),
    FREE,
    head("Problem", Content::Note, Some(Column::Problems)),
];

/// The columns of the tables for holders, queues, waits and past holds.
pub(super) const FACTS: [Head; 2] = [head("Field", Content::Text, None), head("Value", Content::Text, None)];
pub(super) const HOLDERS: [Head; 8] =
    [HOLDER, HOST, PID, SINCE, HELD_FOR, head("Lease left", Content::Number, None), FREE, NOTE];
pub(super) const QUEUE: [Head; 6] = [
    head("Place", Content::Number, None),
    head("Waiter", Content::Long, None),
    HOST,
    PID,
    head("Waits for", Content::Number, None),
    NOTE,
];
pub(super) const PAST: [Head; 6] = [ENDED, HOLDER, HOST, PID, HELD_FOR, OUTCOME];
pub(super) const HISTORY: [Head; 7] = [head("Lock", Content::Link, None), ENDED, HOLDER, HOST, PID, HELD_FOR, OUTCOME];
pub(super) const WAITS: [Head; 6] = [
    head("Lock and waiters", Content::Link, None),
    head("Process", Content::Long, None),
    HOST,
    PID,
    head("Time", Content::Number, None),
    NOTE,
];

/// A cell: its text, and its link target, time or command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) more: Option<String>,
}

impl Cell {
    /// Escapes a text for output.
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), more: None }
    }

    pub(super) fn or_nothing(text: Option<String>) -> Self {
        Self::text(text.unwrap_or_else(|| NOTHING.to_owned()))
    }

    pub(super) fn link(name: &str, to: String) -> Self {
        Self { text: shown(name), more: Some(to) }
    }

    /// Creates a cell for a time in milliseconds since 1970. The text is the time of day in UTC.
    pub(super) fn time(millis: Option<u64>) -> Self {
        let Some(millis) = millis else { return Self::text(NOTHING) };
        let written = moment::written(millis);
        Self { text: written.get(11..19).unwrap_or_default().to_owned(), more: Some(millis.to_string()) }
    }

    /// Marks the time as a bound, for a hold that began earlier.
    pub(super) fn or_earlier(self, is_older: bool) -> Self {
        if is_older { Self { text: format!("< {}", self.text), ..self } } else { self }
    }

    pub(super) fn command(command: Option<String>) -> Self {
        Self { text: command.clone().unwrap_or_default(), more: command }
    }

    /// Returns the cells for application and note, host and pid. Without a process, returns the id.
    pub(super) fn of_process(process: Option<&Process>, id: &str, half: Option<&str>) -> [Self; 3] {
        let half = half.map(|half| format!("{half}: ")).unwrap_or_default();
        match process {
            Some(Process { application, host, pid, note }) => {
                let note = if note.is_empty() { String::new() } else { format!(": {note}") };
                [Self::text(half + application + &note), Self::text(host), Self::text(pid.to_string())]
            }
            None => [Self::text(half + &shown(id)), Self::text(NOTHING), Self::text(NOTHING)],
        }
    }

    pub(super) fn as_json(&self) -> Value {
        match &self.more {
            Some(more) => json!([self.text, more]),
            None => json!(self.text),
        }
    }
}

/// Shortens the id of a hold for a narrow column, but keeps the hold's number.
pub(super) fn short(id: &str) -> String {
    match id.split_once(':') {
        Some((client, number)) if is_of_a_client(id) => format!("{}…:{number}", &client[..8]),
        _ => id.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_in_a_narrow_column_keeps_the_number_of_its_hold() {
        assert_eq!(short("6f0c1de2-4a53-4b0e-9f0a-0c2d7b1f3a55:61"), "6f0c1de2…:61");
        for other in ["order-service-17", "ä:1", ""] {
            assert_eq!(short(other), other);
        }
    }
}
