//! Keyboard input.

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::io;
use std::thread;
use tokio::sync::mpsc;

/// A key that `top` handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Character(char),
    Enter,
    Escape,
    Backspace,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-Z.
    Stop,
    /// Ctrl-L.
    Redraw,
}

/// Reads keys on a separate thread, because a terminal read cannot be cancelled.
pub(super) fn read() -> mpsc::UnboundedReceiver<io::Result<Event>> {
    let (read, events) = mpsc::unbounded_channel();
    thread::spawn(move || {
        loop {
            let event = event::read();
            let has_failed = event.is_err();
            if read.send(event).is_err() || has_failed {
                break;
            }
        }
    });
    events
}

/// Returns the key of an event. `None` for other keys and events, such as a resize.
pub(super) fn key_of(event: &Event) -> Option<Key> {
    let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press | KeyEventKind::Repeat, .. }) = event else {
        return None;
    };
    match code {
        KeyCode::Char(letter) if modifiers.contains(KeyModifiers::CONTROL) => match letter.to_ascii_lowercase() {
            'c' => Some(Key::Interrupt),
            'z' => Some(Key::Stop),
            'l' => Some(Key::Redraw),
            'h' => Some(Key::Backspace),
            _ => None,
        },
        KeyCode::Char(letter) if !modifiers.contains(KeyModifiers::ALT) => Some(Key::Character(*letter)),
        KeyCode::Enter => Some(Key::Enter),
        KeyCode::Esc => Some(Key::Escape),
        KeyCode::Backspace => Some(Key::Backspace),
        KeyCode::Up => Some(Key::Up),
        KeyCode::Down => Some(Key::Down),
        KeyCode::PageUp => Some(Key::PageUp),
        KeyCode::PageDown => Some(Key::PageDown),
        KeyCode::Home => Some(Key::Home),
        KeyCode::End => Some(Key::End),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_with_control_are_no_letters() {
        let key = |code, modifiers| key_of(&Event::Key(KeyEvent::new(code, modifiers)));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Interrupt));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::NONE), Some(Key::Character('c')));
        assert_eq!(key(KeyCode::Char('C'), KeyModifiers::SHIFT), Some(Key::Character('C')));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::ALT), None);
        assert_eq!(key_of(&Event::Resize(1, 1)), None);
    }
}
