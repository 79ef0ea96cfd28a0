//! Safe output of untrusted text.

/// Escapes characters that a terminal interprets: control characters, line breaks, and changes of the text direction.
pub(crate) fn shown(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut safe, next| {
        match next {
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' => {
                safe.extend(next.escape_unicode());
            }
            next if next.is_control() => safe.extend(next.escape_default()),
            next => safe.push(next),
        }
        safe
    })
}

/// Formats a count, such as `1 lock` or `2 locks`.
pub(crate) fn counted<N: Into<i128>>(number: N, thing: &str) -> String {
    let number = number.into();
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_none_of_many() {
        assert_eq!([0, 1, 2].map(|number| counted(number, "lock")), ["0 locks", "1 lock", "2 locks"]);
    }

    #[test]
    fn terminal_gets_no_command_from_a_name() {
        assert_eq!(shown("a\u{1b}[2Jb\nc\u{9b}\u{202e}"), "a\\u{1b}[2Jb\\nc\\u{9b}\\u{202e}");
        assert_eq!(shown("stöck:*?[1] \u{1f512}"), "stöck:*?[1] \u{1f512}");
    }
}
