//! The changes of a view since the last message to a browser.

use super::view::{Line, View};
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// The last view of a browser.
#[derive(Debug, Default)]
pub(super) struct Sent(Option<View>);

impl Sent {
    /// The changes from the browser's view to this view. `None` without a change. The first message contains everything.
    pub(super) fn message(&mut self, view: &View) -> Option<String> {
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
        if before.is_none_or(|before| before.lines.counts != view.lines.counts) {
            add("counts", json!(view.lines.counts));
            add("pages", json!(view.lines.pages));
        }
        if before.is_none_or(|before| before.lines.lines != view.lines.lines) {
            let before = before.map_or(&[][..], |before| &before.lines.lines);
            add("rows", rows(before, &view.lines.lines));
        }
        self.0 = Some(view.clone());
        if message.is_empty() { None } else { Some(Value::Object(message).to_string()) }
    }
}

/// The rows in their order. An unchanged row is only its key.
fn rows(before: &[Line], now: &[Line]) -> Value {
    let before: HashMap<&str, &Line> = before.iter().map(|line| (line.key.as_str(), line)).collect();
    let row = |line: &Line| match before.get(line.key.as_str()) {
        Some(same) if *same == line => json!([line.key]),
        _ => json!([line.key, line.class, line.cells]),
    };
    now.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::super::view::Lines;
    use super::*;
    use std::sync::Arc;

    fn view(held: &[(&str, &str)]) -> View {
        let line = |(key, text): &(&str, &str)| Line {
            key: (*key).to_owned(),
            class: "",
            cells: vec![(*key).to_owned(), (*text).to_owned()],
        };
        let lines = Lines { lines: held.iter().map(line).collect(), ..Lines::default() };
        let text = String::new;
        View { summary: text(), status: text(), is_warning: false, lines: Arc::new(lines), holders: Vec::new() }
    }

    #[test]
    fn message_has_only_what_has_changed() {
        let mut sent = Sent::default();
        let first = sent.message(&view(&[("a", "1"), ("b", "1")])).expect("everything");
        assert!(first.contains(r#""all":true"#) && first.contains(r#"["a","",["a","1"]]"#), "{first}");
        assert_eq!(sent.message(&view(&[("a", "1"), ("b", "1")])), None);
        let next = sent.message(&view(&[("b", "2"), ("a", "1")])).expect("a change");
        assert_eq!(next, r#"{"rows":[["b","",["b","2"]],["a"]]}"#);
    }

    #[test]
    fn message_is_one_line_whatever_a_name_has() {
        let message = Sent::default().message(&view(&[("a\n\ndata: b\r\u{0}", "</script>")])).expect("everything");
        assert_eq!(message.lines().count(), 1, "{message:?}");
        assert!(!message.contains('\r'), "{message:?}");
    }
}
