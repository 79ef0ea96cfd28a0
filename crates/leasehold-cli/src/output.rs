//! Writing to stdout and stderr, whose readers may go away.

use crate::failure::{Exit, Failure};
use std::io::{ErrorKind, Write as _};

/// Writes a text to stdout.
///
/// # Errors
///
/// The reader has gone, which is no fault and ends the command; or another error of the output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    write(text.as_bytes())
}

/// Writes bytes to stdout.
///
/// # Errors
///
/// As [`print`].
pub(crate) fn write(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(|error| unwritten(&error))
}

/// The failure of an output that cannot be written.
pub(crate) fn unwritten(error: &std::io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::new(Exit::ClosedPipe, "the reader of the output has gone"),
        _ => Failure::new(Exit::Io, format!("the output cannot be written: {error}")),
    }
}

/// A text from elsewhere as a terminal may have it: a character that would move the cursor, break the line, or turn the direction of the text is
/// written as its escape.
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

/// Tells on stderr something beside the result.
pub(crate) fn note(text: &str, json: bool) {
    if json {
        complain(&serde_json::json!({ "note": text }).to_string());
    } else {
        complain(&format!("leasehold: {}", shown(text)));
    }
}

/// Writes a line to stderr. There is no other place to which an error of this could be told.
pub(crate) fn complain(line: &str) {
    let _ = std::io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_gets_no_command_from_a_name() {
        assert_eq!(shown("a\u{1b}[2Jb\nc\u{9b}\u{202e}"), "a\\u{1b}[2Jb\\nc\\u{9b}\\u{202e}");
        assert_eq!(shown("stöck:*?[1] \u{1f512}"), "stöck:*?[1] \u{1f512}");
    }
}
