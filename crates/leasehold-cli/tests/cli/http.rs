//! A small HTTP client, and a browser's view of `leasehold serve` without a browser.

use crate::support::{Running, Start as _, leasehold};
use leasehold_test_support::Server;
use serde_json::Value;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// `leasehold serve` on a free port.
pub(crate) struct Site {
    pub(crate) running: Running,
    pub(crate) address: String,
}

impl Site {
    pub(crate) fn of(server: &Server, words: &[&str]) -> Self {
        let mut command = leasehold(server);
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(words);
        Self::started(command)
    }

    pub(crate) fn started(mut command: Command) -> Self {
        let running = command.env_remove("LEASEHOLD_SERVE_TOKEN").start();
        let url = running.says("listening on http://");
        let address = url.split('/').next().unwrap_or_default().to_owned();
        Self { running, address }
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address))
    }

    /// Sends a form with further headers, each ending with its line break.
    pub(crate) fn post(&self, path: &str, headers: &str, body: &str) -> Answer {
        let (address, length) = (&self.address, body.len());
        let kind =
            if headers.contains("Content-Type") { "" } else { "Content-Type: application/x-www-form-urlencoded\r\n" };
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n");
        self.ask(&format!("{head}{kind}{headers}\r\n{body}"))
    }

    /// Sends bytes as they are. An answer that goes on for ever, as live changes do, fails the test.
    #[track_caller]
    pub(crate) fn ask(&self, request: &str) -> Answer {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("it reads");
        let (mut text, mut part, until) = (Vec::new(), [0; 4096], Instant::now() + PATIENCE);
        loop {
            match stream.read(&mut part).expect("an answer in time") {
                0 => break,
                read => text.extend_from_slice(&part[..read]),
            }
            assert!(Instant::now() < until, "an answer that ends: {}", String::from_utf8_lossy(&text));
        }
        Answer::of(&String::from_utf8_lossy(&text))
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.listens_on()).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        stream
    }

    fn listens_on(&self) -> String {
        self.address.replace("0.0.0.0", "127.0.0.1")
    }

    /// Listens for live changes.
    pub(crate) fn events(&self, path: &str) -> Events {
        let mut stream = self.connect();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address);
        stream.write_all(request.as_bytes()).expect("it reads");
        let (mut lines, mut head) = (BufReader::new(stream), String::new());
        while !head.ends_with("\r\n\r\n") {
            assert!(lines.read_line(&mut head).expect("a head in time") > 0, "{head}");
        }
        Events { lines, page: Page::default(), head: head.to_ascii_lowercase() }
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    #[track_caller]
    pub(crate) fn of(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("an answer: {text:?}"));
        Self { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }
}

/// The texts that a browser would show.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) summary: String,
    pub(crate) status: String,
    pub(crate) is_warning: bool,
    pub(crate) counts: String,
    pub(crate) tiles: HashMap<String, String>,
    /// The rows of all tables.
    pub(crate) tables: HashMap<String, Vec<(String, Vec<String>)>>,
    /// The number of messages.
    pub(crate) messages: usize,
    /// The bytes of the longest message.
    pub(crate) longest: usize,
}

impl Page {
    fn take(&mut self, message: &Value) {
        let text = |name: &str, into: &mut String| {
            if let Some(text) = message[name].as_str() {
                text.clone_into(into);
            }
        };
        text("summary", &mut self.summary);
        text("status", &mut self.status);
        self.is_warning = message["warning"].as_bool().unwrap_or(self.is_warning);
        self.messages += 1;
        for (id, number) in message["tiles"].as_object().into_iter().flatten() {
            self.tiles.insert(id.clone(), number.as_str().expect("a text").to_owned());
        }
        for (id, table) in message["tables"].as_object().into_iter().flatten() {
            if let Some(counts) = table["counts"].as_str() {
                counts.clone_into(&mut self.counts);
            }
            self.take_rows(id, &table["rows"]);
        }
    }

    fn take_rows(&mut self, id: &str, rows: &Value) {
        let Some(rows) = rows.as_array() else { return };
        let mut before: HashMap<_, _> = self.tables.remove(id).unwrap_or_default().into_iter().collect();
        let text = |value: &Value| value.as_str().or_else(|| value[0].as_str()).expect("a text").to_owned();
        let rows = rows.iter().map(|row| {
            let key = text(&row[0]);
            let old = before.remove(&key);
            let cells = row[2].as_array().map(|cells| cells.iter().map(text).collect());
            (key, cells.or(old).expect("a row that is known or has its cells"))
        });
        let rows = rows.collect();
        self.tables.insert(id.to_owned(), rows);
    }

    /// The rows of the table of all locks.
    pub(crate) fn locks(&self) -> &[(String, Vec<String>)] {
        self.tables.get("locks").map_or(&[], Vec::as_slice)
    }

    /// The cells of a row, with bars between.
    pub(crate) fn row(&self, key: &str) -> String {
        let mut rows = self.tables.values().flatten();
        rows.find(|(name, _)| name == key).map_or_else(String::new, |(_, cells)| cells.join(" | "))
    }

    /// All rows of a table, one a line.
    pub(crate) fn table(&self, id: &str) -> String {
        self.tables.get(id).into_iter().flatten().fold(String::new(), |mut text, (_, cells)| {
            writeln!(text, "{}", cells.join(" | ")).expect("a text takes everything");
            text
        })
    }
}

/// Live changes, as a browser gets them.
pub(crate) struct Events {
    lines: BufReader<TcpStream>,
    pub(crate) page: Page,
    pub(crate) head: String,
}

impl Events {
    /// Reads until the page is as it should be, and says how long that took.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, is_so: impl Fn(&Page) -> bool) -> Duration {
        let begun = Instant::now();
        while !is_so(&self.page) {
            assert!(begun.elapsed() < PATIENCE, "{what}: {:?}", self.page);
            assert!(self.read(), "the changes have ended before: {what}: {:?}", self.page);
        }
        begun.elapsed()
    }

    /// Reads to the end.
    pub(crate) fn ends(&mut self) {
        while self.read() {}
    }

    /// Reads a line; `false` at the end.
    fn read(&mut self) -> bool {
        let mut line = String::new();
        if self.lines.read_line(&mut line).expect("a line, or the end, in time") == 0 {
            return false;
        }
        if let Some(message) = line.strip_prefix("data: ") {
            self.page.longest = self.page.longest.max(message.len());
            self.page.take(&serde_json::from_str(message).expect("an object"));
        }
        true
    }
}
