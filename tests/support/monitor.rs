//! The commands that the nodes of a cluster carry out, as they tell them by `MONITOR`. No proxy stands before a cluster, because its nodes
//! name themselves.

use leasehold_test_support::{Cluster, Resp, until};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A command, word by word.
pub(crate) type Words = Vec<Vec<u8>>;

/// Listens to all nodes of a cluster, until they are gone.
pub(crate) struct Monitors {
    cluster: Arc<Cluster>,
    heard: Arc<Mutex<Heard>>,
    marks: AtomicU64,
}

#[derive(Default)]
struct Heard {
    calls: Vec<Words>,
    marks: HashSet<Vec<u8>>,
}

impl Monitors {
    pub(crate) fn of(cluster: &Arc<Cluster>) -> Self {
        let heard = Arc::new(Mutex::new(Heard::default()));
        for node in cluster.nodes() {
            let mut connection = node.connect().expect("the node is up");
            connection.set_read_timeout(Duration::from_secs(3_600)).expect("a timeout");
            connection.command(&["MONITOR"]).expect("the node is up");
            let heard = heard.clone();
            std::thread::spawn(move || {
                while let Ok(Resp::Simple(line)) = connection.receive() {
                    heard.lock().expect("no panic").note(words(line.as_bytes()));
                }
            });
        }
        Self { cluster: cluster.clone(), heard, marks: AtomicU64::new(0) }
    }

    /// The calls of scripts up to now, in the order in which a node has carried them out.
    #[track_caller]
    pub(crate) fn calls(&self) -> Vec<Words> {
        for node in self.cluster.nodes() {
            // Told behind everything that came before.
            let mark = format!("mark:{}", self.marks.fetch_add(1, Ordering::Relaxed));
            let _ = node.command(&["PING", &mark]);
            until("the mark was told", || self.heard.lock().expect("no panic").marks.contains(mark.as_bytes()));
        }
        self.heard.lock().expect("no panic").calls.clone()
    }

    /// Has a call carried out once more.
    #[track_caller]
    pub(crate) fn replay(&self, call: &Words) -> Resp {
        let key = String::from_utf8_lossy(&call[3]);
        self.cluster.node_of(&key).command(call)
    }
}

impl Heard {
    fn note(&mut self, words: Words) {
        match words.first().map(|word| word.to_ascii_uppercase()).as_deref() {
            Some(b"EVALSHA") => self.calls.push(words),
            Some(b"PING") => self.marks.extend(words.into_iter().nth(1)),
            _ => {}
        }
    }
}

/// The words of a line such as `1339518083.107412 [0 127.0.0.1:60866] "evalsha" "\x01"`; none of what a script has called.
fn words(line: &[u8]) -> Words {
    let mut words = Vec::new();
    let Some(begin) = line.iter().position(|byte| *byte == b'"') else { return words };
    if line[..begin].windows(4).any(|part| part == b" lua") {
        return words;
    }
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
    words
}

#[test]
fn lines_of_a_monitor_are_read() {
    let line = br#"1.5 [0 127.0.0.1:1] "evalsha" "a\x01\"\\" "" "b c""#;
    assert_eq!(words(line), [&b"evalsha"[..], b"a\x01\"\\", b"", b"b c"]);
    assert!(words(br#"1.5 [0 lua] "GET" "a""#).is_empty());
}
