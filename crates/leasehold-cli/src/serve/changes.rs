//! The changes of a view since the last message to a browser.

use super::cell::Cell;
use super::view::{Line, Lines, View};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// The last view of a browser.
#[derive(Debug, Default)]
pub(super) struct Sent(Option<View>);

impl Sent {
    /// Returns the changes from the browser's view to this view. `None` without a change. The first message contains
    /// the whole view.
    pub(super) fn message(&mut self, view: &View) -> Option<Map<String, Value>> {
        let before = self.0.as_ref();
        let mut message = Map::new();
        let mut add = |name: &str, value: Value| drop(message.insert(name.to_owned(), value));
        if before.is_none() {
            add("all", json!(true));
        }
        if before.is_none_or(|before| before.summary != view.summary) {
            add("summary", json!(view.summary));
        }
        if before.is_none_or(|before| (&before.status, before.is_warning) != (&view.status, view.is_warning)) {
            add("status", json!(view.status));
            add("warning", json!(view.is_warning));
        }
        if before.is_none_or(|before| before.holders != view.holders) {
            add("holders", json!(view.holders));
        }
        let known = |tile: &(String, String)| before.is_some_and(|before| before.tiles.contains(tile));
        let tiles: Map<_, _> =
            view.tiles.iter().filter(|tile| !known(tile)).cloned().map(|(id, text)| (id, json!(text))).collect();
        if !tiles.is_empty() {
            add("tiles", json!(tiles));
        }
        let tables: Map<_, _> = view
            .tables
            .iter()
            .filter_map(|(id, lines)| {
                let before = before.and_then(|before| before.tables.iter().find(|(other, _)| other == id));
                table(before.map(|(_, lines)| lines), lines).map(|table| ((*id).to_owned(), table))
            })
            .collect();
        if !tables.is_empty() {
            add("tables", json!(tables));
        }
        self.0 = Some(view.clone());
        if message.is_empty() { None } else { Some(message) }
    }
}

/// Returns the changes of a table.
fn table(before: Option<&Arc<Lines>>, now: &Arc<Lines>) -> Option<Value> {
    if before.is_some_and(|before| Arc::ptr_eq(before, now)) {
        return None;
    }
    let mut table = Map::new();
    if before.is_none_or(|before| (&before.counts, before.pages) != (&now.counts, now.pages)) {
        table.insert("counts".to_owned(), json!(now.counts));
        table.insert("pages".to_owned(), json!(now.pages));
    }
    if before.is_none_or(|before| before.lines != now.lines) {
        table.insert("rows".to_owned(), rows(before.map_or(&[][..], |before| &before.lines), &now.lines));
    }
    if table.is_empty() { None } else { Some(table.into()) }
}

/// Returns the rows in order. An unchanged row consists of its key.
fn rows(before: &[Line], now: &[Line]) -> Value {
    let before: HashMap<&str, &Line> = before.iter().map(|line| (line.key.as_str(), line)).collect();
    let row = |line: &Line| match before.get(line.key.as_str()) {
        Some(same) if *same == line => json!([line.key]),
        _ => json!([line.key, line.class, line.cells.iter().map(Cell::as_json).collect::<Vec<_>>()]),
    };
    now.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(held: &[(&str, &str)]) -> View {
        let line = |(key, text): &(&str, &str)| Line {
            key: (*key).to_owned(),
            class: "",
            cells: vec![Cell::text(*key), Cell { text: (*text).to_owned(), more: Some("more".to_owned()) }],
        };
        let lines = Lines { lines: held.iter().map(line).collect(), ..Lines::default() };
        View { tables: vec![("locks", Arc::new(lines))], ..View::default() }
    }

    fn text(message: Option<Map<String, Value>>) -> String {
        Value::from(message.expect("a change")).to_string()
    }

    #[test]
    fn message_has_only_what_has_changed() {
        let mut sent = Sent::default();
        let first = text(sent.message(&view(&[("a", "1"), ("b", "1")])));
        assert!(first.contains(r#""all":true"#) && first.contains(r#"["a","",["a",["1","more"]]]"#), "{first}");
        assert_eq!(sent.message(&view(&[("a", "1"), ("b", "1")])), None);
        let next = text(sent.message(&view(&[("b", "2"), ("a", "1")])));
        assert_eq!(next, r#"{"tables":{"locks":{"rows":[["b","",["b",["2","more"]]],["a"]]}}}"#);
    }

    #[test]
    fn message_is_one_line_whatever_a_name_has() {
        let message = text(Sent::default().message(&view(&[("a\n\ndata: b\r\u{0}", "</script>")])));
        assert_eq!(message.lines().count(), 1, "{message:?}");
        assert!(!message.contains('\r'), "{message:?}");
    }
}
