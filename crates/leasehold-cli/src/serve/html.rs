//! HTML with escaping. No other code adds untrusted text to a page.

use crate::shown::shown;

/// A page or a fragment.
#[derive(Debug, Default)]
pub(super) struct Html(String);

impl Html {
    /// Appends literal markup.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Appends an escaped text, between tags or in a quoted attribute.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        for next in shown(text).chars() {
            match next {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                next => self.0.push(next),
            }
        }
        self
    }

    /// Appends an element with an escaped text. The tag may have attributes.
    pub(super) fn element(&mut self, open: &'static str, text: &str, close: &'static str) -> &mut Self {
        self.raw(open).text(text).raw(close)
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_no_markup_and_move_no_cursor() {
        let mut html = Html::default();
        html.element("<a title=\"", "\"><script>alert('1')</script>&\u{0}\r\n\u{202e}", "\">");
        let expected =
            "<a title=\"&quot;&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;\\u{0}\\r\\n\\u{202e}\">";
        assert_eq!(html.into_string(), expected);
    }
}
