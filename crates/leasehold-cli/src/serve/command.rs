//! Shell commands that free a lock.

use crate::overview::row::Found;
use leasehold::inspect::FoundKind;

/// Returns the command that frees a lock, or its only listed hold. `None` if no command can.
pub(super) fn of_lock(prefix: &str, found: &Found) -> Option<String> {
    match (found.kind, found.holds.as_slice()) {
        (FoundKind::Counter | FoundKind::Foreign, _) | (_, []) => None,
        (_, [one]) if found.is_listed_whole => Some(unlock(prefix, &found.name, Some(&one.id))),
        // `unlock` frees the permits of a semaphore one by one.
        (FoundKind::Semaphore, _) => None,
        _ => Some(unlock(prefix, &found.name, None)),
    }
}

/// Returns the command that ends one hold, or all holds.
pub(super) fn unlock(prefix: &str, name: &str, holder: Option<&str>) -> String {
    let mut command = "leasehold unlock".to_owned();
    if !prefix.is_empty() {
        command += &format!(" --prefix {}", quoted(prefix));
    }
    if let Some(holder) = holder {
        command += &format!(" --holder {}", quoted(holder));
    }
    let dashes = if name.starts_with('-') { "-- " } else { "" };
    command + " " + dashes + &quoted(name)
}

/// Quotes a text as one shell word. Escapes control characters, which a terminal may interpret when pasted.
fn quoted(text: &str) -> String {
    let is_plain = |next: char| next.is_ascii_alphanumeric() || "_-.,:/@%+=".contains(next);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    let is_visible = |next: char| next.is_ascii_graphic() || next == ' ' || next.is_alphanumeric();
    if text.chars().all(is_visible) {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    let mut word = "$'".to_owned();
    for next in text.chars() {
        match next {
            '\'' | '\\' => word.extend(['\\', next]),
            next if is_visible(next) => word.push(next),
            next => next.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| word += &format!("\\{byte:03o}")),
        }
    }
    word + "'"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overview::sample::{hold, lock};
    use std::process::Command;

    #[test]
    fn words_survive_a_shell_and_have_no_control_characters() {
        for text in ["a b", "it's", "", "$(id)`id`", "a\nb\u{1b}[201~\r", "right \u{202e}to left'\\", "stöck:1", "*?!"]
        {
            let word = quoted(text);
            assert!(!word.chars().any(|next| next.is_control() || next == '\u{202e}'), "{word:?}");
            let output = Command::new("bash").args(["-c", &format!("printf %s {word}")]).output();
            assert_eq!(String::from_utf8_lossy(&output.expect("bash").stdout), text);
        }
    }

    #[test]
    fn command_names_the_only_holder() {
        assert_eq!(of_lock("", &lock("stock")).as_deref(), Some("leasehold unlock --holder 6f0c:1 stock"));
        let two = Found { holds: vec![hold("a:1"), hold("b:2")], ..lock("-x") };
        assert_eq!(of_lock("shop:", &two).as_deref(), Some("leasehold unlock --prefix shop: -- -x"));
        assert_eq!(of_lock("", &Found { kind: FoundKind::Semaphore, ..two }), None);
        assert_eq!(of_lock("", &lock("stock").when_free()), None);
    }
}
