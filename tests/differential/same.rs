//! The answers of two engines to a step, and whether they are the same.

use crate::engines::Flaw;
use bytes::Bytes;
use leasehold_core::reply::Reply;
use std::collections::BTreeMap;
use std::fmt;

/// How much of a refusal and of a fraction must be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// Everything: it is the server that the embedded engine is modelled on.
    Texts,
    /// The code of a refusal, and the values of fractions: versions word and write them differently.
    Codes,
    /// As [`Strictness::Codes`], where the server wraps what a script met into a sentence of its own.
    WrappedCodes,
}

/// The result of a step: its reply, its messages, and the keys' values then.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    reply: Result<Reply, String>,
    messages: Vec<(Bytes, Bytes)>,
    keys: Vec<Reply>,
}

/// The place in which two engines differ.
pub(crate) struct Difference {
    /// The number of the step, from 0.
    pub(crate) at: usize,
    embedded: String,
    server: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after step {}\n  embedded  {}\n  server    {}\n", self.at + 1, self.embedded, self.server)
    }
}

impl Answer {
    pub(crate) fn new(reply: Result<Reply, String>, messages: Vec<(Bytes, Bytes)>, dump: Reply) -> Self {
        let mut keys = dump.array().expect("a dump is an array").to_vec();
        keys.sort_by(|one, other| name(one).cmp(name(other)));
        Self { reply, messages, keys }
    }

    /// Adds what came of the step.
    pub(crate) fn count(&self, tally: &mut BTreeMap<String, usize>) {
        let outcome = match &self.reply {
            Ok(_) => "reply",
            Err(text) => text.split(' ').next().unwrap_or_default(),
        };
        *tally.entry(outcome.to_owned()).or_default() += 1;
        *tally.entry("message".to_owned()).or_default() += self.messages.len();
    }

    /// The names of the keys.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Bytes> {
        self.keys.iter().map(name)
    }

    /// The part in which the answer of the embedded engine differs from that of a server.
    pub(crate) fn difference(&self, server: &Self, strictness: Strictness, at: usize) -> Option<Difference> {
        let told = |embedded: String, server: String| Some(Difference { at, embedded, server });
        let same = match (&self.reply, &server.reply) {
            (Ok(one), Ok(other)) => same_reply(one, other, strictness),
            (Err(one), Err(other)) => same_refusal(one, other, strictness),
            _ => false,
        };
        if !same {
            return told(format!("{:?}", self.reply), format!("{:?}", server.reply));
        }
        if self.messages != server.messages {
            return told(format!("sent {:?}", self.messages), format!("sent {:?}", server.messages));
        }
        if !self.names().eq(server.names()) {
            let names = |answer: &Self| format!("keys {:?}", answer.names().collect::<Vec<_>>());
            return told(names(self), names(server));
        }
        let mut pairs = self.keys.iter().zip(&server.keys);
        let (one, other) = pairs.find(|(one, other)| !same_reply(one, other, strictness))?;
        told(format!("key {one:?}"), format!("key {other:?}"))
    }

    /// Changes it as an engine with this flaw would have.
    pub(crate) fn spoil(&mut self, flaw: Flaw) {
        match (flaw, &mut self.reply) {
            (Flaw::Reply, Ok(Reply::Int(code))) => *code += 1,
            (Flaw::Refusal, Err(text)) => text.insert_str(0, "NO"),
            (Flaw::Message, _) => _ = self.messages.pop(),
            (Flaw::Key, _) => _ = self.keys.pop(),
            (Flaw::TimeToLive | Flaw::Content, _) => {
                for key in &mut self.keys {
                    let Reply::Array(parts) = key else { continue };
                    match (flaw, &mut parts[..]) {
                        (Flaw::TimeToLive, [_, _, Reply::Int(left), _]) if *left > 0 => *left += 1,
                        (Flaw::Content, [_, _, _, Reply::Array(elements)]) => _ = elements.pop(),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
}

fn name(key: &Reply) -> &Bytes {
    match key.array() {
        Ok([Reply::Bulk(name), ..]) => name,
        _ => panic!("{key:?} begins with no name"),
    }
}

fn same_reply(one: &Reply, other: &Reply, strictness: Strictness) -> bool {
    match (one, other) {
        (Reply::Array(one), Reply::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same_reply(one, other, strictness))
        }
        (Reply::Bulk(one), Reply::Bulk(other)) if strictness != Strictness::Texts => {
            one == other || fraction(one).is_some_and(|one| Some(one) == fraction(other))
        }
        _ => one == other,
    }
}

/// The number that a text is, where servers may write it in several ways.
fn fraction(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    text.parse::<f64>().ok().filter(|number| number.fract() != 0.0 || number.abs() > 9e15 || *number == 0.0)
}

fn same_refusal(embedded: &str, server: &str, strictness: Strictness) -> bool {
    let code = embedded.split(' ').next().unwrap_or_default();
    match strictness {
        Strictness::Texts => embedded == server,
        Strictness::Codes => server.split(' ').next() == Some(code),
        // An error without a code of its own has none at all there.
        Strictness::WrappedCodes if code == "ERR" => !server.contains("WRONGTYPE"),
        Strictness::WrappedCodes => server.split([' ', '-', ':']).any(|word| word == code),
    }
}
