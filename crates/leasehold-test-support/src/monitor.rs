//! The commands that a server executes, from `MONITOR`.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use crate::{Resp, Server, until};

/// Listens to the commands of a server, until the server is gone.
#[derive(Debug)]
pub struct Monitor {
    heard: Arc<Mutex<Heard>>,
}

/// An executed command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Monitored {
    /// The time, in microseconds since the epoch.
    pub micros: u64,
    /// The command and its arguments. The name may be in lower case.
    pub words: Vec<Vec<u8>>,
    /// Whether a script called it. The script comes before it.
    pub by_script: bool,
}

impl Monitored {
    /// The name of the command, in upper case.
    #[must_use]
    pub fn name(&self) -> String {
        self.words.first().map(|word| String::from_utf8_lossy(word).to_ascii_uppercase()).unwrap_or_default()
    }
}

#[derive(Debug, Default)]
struct Heard {
    commands: Vec<Monitored>,
    marks: HashSet<Vec<u8>>,
}

impl Monitor {
    /// Begins to listen.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    #[must_use]
    #[track_caller]
    pub fn of(server: &Server) -> Self {
        let mut connection = server.connect().expect("the server is up");
        connection.set_read_timeout(Duration::from_secs(3_600)).expect("a timeout");
        connection.command(&["MONITOR"]).expect("the server is up");
        let heard = Arc::new(Mutex::new(Heard::default()));
        let hears = heard.clone();
        thread::spawn(move || {
            while let Ok(Resp::Simple(line)) = connection.receive() {
                lock(&hears).note(read(line.as_bytes()));
            }
        });
        Self { heard }
    }

    /// The commands so far, in the order of their execution.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    #[must_use]
    #[track_caller]
    pub fn commands(&self, server: &Server) -> Vec<Monitored> {
        static MARKS: AtomicU64 = AtomicU64::new(0);
        // `MONITOR` reports this after all earlier commands.
        let mark = format!("{MARK}{}", MARKS.fetch_add(1, Ordering::Relaxed));
        let _ = server.command(&["PING", &mark]);
        until("the mark was told", || lock(&self.heard).marks.contains(mark.as_bytes()));
        lock(&self.heard).commands.clone()
    }
}

const MARK: &str = "mark:";

fn lock(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Heard {
    fn note(&mut self, command: Monitored) {
        match command.words.get(1) {
            Some(mark) if command.name() == "PING" && mark.starts_with(MARK.as_bytes()) => {
                self.marks.insert(mark.clone());
            }
            _ => self.commands.push(command),
        }
    }
}

/// The command of a line such as `1339518083.107412 [0 127.0.0.1:60866] "evalsha" "\x01"`.
fn read(line: &[u8]) -> Monitored {
    let begin = line.iter().position(|byte| *byte == b'"').unwrap_or(line.len());
    let by_script = line[..begin].windows(4).any(|part| part == b" lua");
    let time: Vec<u8> = line
        .split(|byte| *byte == b' ')
        .next()
        .unwrap_or_default()
        .iter()
        .copied()
        .filter(u8::is_ascii_digit)
        .collect();
    let micros = String::from_utf8_lossy(&time).parse().unwrap_or_default();
    let mut words = Vec::new();
    let mut bytes = line[begin..].iter().copied();
    while bytes.any(|byte| byte == b'"') {
        let mut word = Vec::new();
        while let Some(byte) = bytes.next().filter(|byte| *byte != b'"') {
            let escaped = if byte == b'\\' { bytes.next() } else { None };
            word.push(match escaped {
                None => byte,
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(b't') => b'\t',
                Some(b'a') => 7,
                Some(b'b') => 8,
                Some(b'x') => {
                    let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16)).unwrap_or_default();
                    (digit() * 16 + digit()) as u8
                }
                Some(other) => other,
            });
        }
        words.push(word);
    }
    Monitored { micros, words, by_script }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_monitor_are_read() {
        let told = read(br#"1.5 [0 127.0.0.1:1] "evalsha" "a\x01\"\\" "" "b c""#);
        assert_eq!(told.words, [&b"evalsha"[..], b"a\x01\"\\", b"", b"b c"]);
        assert_eq!((told.name().as_str(), told.micros, told.by_script), ("EVALSHA", 15, false));
        let told = read(br#"1.5 [0 lua] "GET" "a""#);
        assert_eq!((told.name().as_str(), told.by_script), ("GET", true));
    }
}
