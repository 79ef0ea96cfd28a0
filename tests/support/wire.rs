//! The messages over the wire, and the faults there.

use super::engine::Backend;
use super::monitor::{Monitors, Words};
use super::world::World;
use leasehold::embedded::{Fault, FaultTarget, Recorder};
use leasehold_core::reply::Reply;
use leasehold_core::script::{SIMPLE_ACQUIRE, SIMPLE_RELEASE, Script};
use leasehold_test_support::{After, Request, Resp};

/// A call of a script that a client has sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) script: &'static str,
    pub(crate) keys: Vec<String>,
    pub(crate) args: Vec<String>,
    /// Whether a reply was seen.
    pub(crate) answered: bool,
    copy: Copy,
}

#[derive(Clone, Debug)]
enum Copy {
    Embedded(usize),
    Proxy(Box<Request>),
    Words(Words),
}

/// The calls from some moment on.
pub(crate) enum Log {
    Embedded(Recorder),
    Proxy { from: u64 },
    Cluster(Monitors),
}

impl World {
    /// Records from now on. On a server it takes [`World::proxied`]; of a cluster, what it carries out.
    pub(crate) fn record(&self) -> Log {
        match (&self.backend, &self.proxy) {
            (Backend::Embedded(server), _) => Log::Embedded(server.record()),
            (Backend::Cluster(cluster), _) => Log::Cluster(Monitors::of(cluster)),
            (_, Some(proxy)) => Log::Proxy { from: proxy.requests().last().map_or(0, |request| request.number + 1) },
            _ => panic!("only a proxy can record what is sent to a server"),
        }
    }

    /// The recorded calls of scripts, in the order in which they were sent. A script that a server did not know counts once.
    pub(crate) fn sent(&self, log: &Log) -> Vec<Sent> {
        match (log, &self.proxy) {
            (Log::Embedded(recorder), _) => recorder
                .calls()
                .iter()
                .enumerate()
                .map(|(index, call)| Sent {
                    script: call.script(),
                    keys: call.keys().into_iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect(),
                    args: call.args().into_iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect(),
                    answered: call.outcome().is_some(),
                    copy: Copy::Embedded(index),
                })
                .collect(),
            (Log::Proxy { from }, Some(proxy)) => {
                proxy.requests().into_iter().filter(|request| request.number >= *from).filter_map(sent).collect()
            }
            (Log::Proxy { .. }, None) => Vec::new(),
            (Log::Cluster(monitors), _) => monitors
                .calls()
                .into_iter()
                .filter_map(|words| call(&words, true, Copy::Words(words.clone())))
                .collect(),
        }
    }

    /// Delivers a recorded call to the server once more.
    #[track_caller]
    pub(crate) fn replay(&self, log: &Log, sent: &Sent) -> Resp {
        match (log, &sent.copy, &self.proxy) {
            (Log::Embedded(recorder), Copy::Embedded(index), _) => match recorder.replay(*index) {
                Ok(Reply::Int(int)) => Resp::Int(int),
                Ok(Reply::Array(parts)) => {
                    Resp::Array(parts.iter().map(|part| part.int().map_or(Resp::Nil, Resp::Int)).collect())
                }
                other => panic!("an unexpected reply to a copy: {other:?}"),
            },
            (_, Copy::Proxy(request), Some(proxy)) => proxy.replay(request),
            (Log::Cluster(monitors), Copy::Words(words), _) => monitors.replay(words),
            _ => panic!("the call is of another world"),
        }
    }

    /// The next call of a script is applied, its reply is lost, and its connection with it.
    pub(crate) fn lose_reply(&self, script: &'static Script) {
        match (&self.backend, &self.proxy) {
            (Backend::Embedded(server), _) => {
                server.inject(Fault::LoseReply, FaultTarget::next().script(script.name()))
            }
            (_, Some(proxy)) => drop(proxy.swallow_reply_to(script.sha1(), After::Close)),
            _ => panic!("only a proxy can lose a reply"),
        }
    }

    /// The next call of a script is applied, and nothing comes back any more: the connection hangs.
    pub(crate) fn swallow_reply(&self, script: &'static Script) {
        match (&self.backend, &self.proxy) {
            (Backend::Embedded(server), _) => server.inject(Fault::Swallow, FaultTarget::next().script(script.name())),
            (_, Some(proxy)) => drop(proxy.swallow_reply_to(script.sha1(), After::Hang)),
            _ => panic!("only a proxy can swallow a reply"),
        }
    }

    /// The next call of a script is lost on its way to the server, and its connection with it.
    pub(crate) fn lose_request(&self, script: &'static Script) {
        match (&self.backend, &self.proxy) {
            (Backend::Embedded(server), _) => {
                server.inject(Fault::LoseRequest, FaultTarget::next().script(script.name()))
            }
            (_, Some(proxy)) => drop(proxy.cut_before(script.sha1())),
            _ => panic!("only a proxy can lose a request"),
        }
    }

    /// Cuts every client off, or lets them connect again.
    pub(crate) fn set_down(&self, down: bool) {
        match (&self.backend, &self.proxy) {
            (Backend::Embedded(server), _) => server.set_down(down),
            (_, Some(proxy)) => {
                proxy.refuse(down);
                if down {
                    proxy.cut();
                }
            }
            _ => panic!("only a proxy can cut a client off"),
        }
    }

    /// Has the servers know every script, so that each call is one request.
    pub(crate) fn warm(&self) {
        for server in self.backend.servers() {
            for script in leasehold_core::script::ALL {
                assert!(!server.command(&["SCRIPT", "LOAD", script.source()]).is_error());
            }
        }
    }
}

fn sent(request: Request) -> Option<Sent> {
    let words = request.argv.clone();
    call(&words, request.reply.is_some(), Copy::Proxy(Box::new(request)))
}

/// Parses a call of a script, or the plain command in its place.
fn call(words: &[Vec<u8>], answered: bool, copy: Copy) -> Option<Sent> {
    let plain = |script: &'static Script, key: &[u8], args: &[&[u8]]| {
        let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
        let args = args.iter().map(|arg| text(arg)).collect();
        Some(Sent { script: script.name(), keys: vec![text(key)], args, answered, copy: copy.clone() })
    };
    match &words.iter().map(Vec::as_slice).collect::<Vec<_>>()[..] {
        [b"SET", key, hold, b"NX", b"PX", lease] => return plain(&SIMPLE_ACQUIRE, key, &[hold, b"1", lease, b"-1"]),
        [b"DELIFEQ", key, hold] | [b"DELEX", key, b"IFEQ", hold] => return plain(&SIMPLE_RELEASE, key, &[hold, b"0"]),
        _ => {}
    }
    let sha1 = words.get(1)?;
    let script = leasehold_core::script::ALL.iter().find(|script| script.sha1().as_bytes() == sha1.as_slice())?;
    let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
    let keys: usize = text(words.get(2)?).parse().ok()?;
    Some(Sent {
        script: script.name(),
        keys: words[3..3 + keys].iter().map(text).collect(),
        args: words[3 + keys..].iter().map(text).collect(),
        answered,
        copy,
    })
}
