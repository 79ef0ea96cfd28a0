//! The way of a client's connections: each goes through a relay in the client's own process, which knows the server process at its end.
//!
//! A relay asks a new connection for the run id and the port of its server, and passes nothing on before the answer. So the reply that grants
//! a lock is known to come from that process, whatever the servers think of each other meanwhile. The library tells nothing of that, a marker
//! key would be replicated, and a second connection could reach another process. A role need not be asked: a replica refuses scripts that write.
//!
//! The addresses that servers name in their replies (of a primary, of a slot) become those of relays, so that no connection goes past them.
//! A relay ends with its process, stands still with it, and breaks on order.

use crate::client::Current;
use crate::history::{label, label_of_permits};
use crate::moment;
use leasehold_core::batch::{self, Batch};
use leasehold_core::script::{self, Script};
use leasehold_test_support::{Proxy, Request, Resp, Watch, Way};
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// The relays of a client process, one for each address that it knows of.
pub(crate) struct Relays {
    proxies: Mutex<BTreeMap<SocketAddr, Arc<Proxy>>>,
    current: Current,
    this: Weak<Self>,
}

impl Relays {
    pub(crate) fn new(current: Current) -> Arc<Self> {
        Arc::new_cyclic(|this| Self { proxies: Mutex::default(), current, this: this.clone() })
    }

    /// A URL whose servers are reached by way of relays.
    pub(crate) fn url(&self, url: &str) -> String {
        let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
        let (first, query) = rest.split_once('?').map_or((rest, None), |(first, query)| (first, Some(query)));
        let relayed = |text: &str| text.parse().map_or_else(|_| text.to_owned(), |addr| self.before(addr).to_string());
        let part = |part: &str| match part.strip_prefix("node=") {
            Some(node) => format!("node={}", relayed(node)),
            None => part.to_owned(),
        };
        let query = query.map(|query| query.split('&').map(part).collect::<Vec<_>>().join("&"));
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        format!("{scheme}://{}{query}", relayed(first))
    }

    /// Obeys an order about the link to the server at a port: `delay` with milliseconds, `silence` with a direction, `cut`, or `heal`.
    pub(crate) fn order(&self, port: u16, order: &str) {
        let proxies = self.proxies.lock().expect("no relay panics with it").clone();
        for proxy in proxies.into_iter().filter(|(target, _)| target.port() == port).map(|(_, proxy)| proxy) {
            match order.split_once(' ').unwrap_or((order, "")) {
                ("delay", millis) => {
                    let delay = Duration::from_millis(millis.parse().expect("a number of milliseconds"));
                    proxy.delay(Way::Both, delay);
                }
                ("silence", "requests") => proxy.freeze(Way::ToServer),
                ("silence", "replies") => proxy.freeze(Way::ToClient),
                ("silence", _) => proxy.freeze(Way::Both),
                ("cut", _) => proxy.cut(),
                _ => {
                    proxy.delay(Way::Both, Duration::ZERO);
                    proxy.thaw(Way::Both);
                }
            }
        }
    }

    /// The address of the relay before a server.
    fn before(&self, target: SocketAddr) -> SocketAddr {
        let mut proxies = self.proxies.lock().expect("no relay panics with it");
        let watch = || self.this.upgrade().expect("the relays of this process stay");
        proxies.entry(target).or_insert_with(|| Arc::new(Proxy::watched(target, watch()))).addr()
    }

    /// The relay before a server that a reply names.
    fn before_named(&self, host: &Resp, port: &str) -> Option<SocketAddr> {
        Some(self.before(format!("{}:{port}", host.as_str()?).parse().ok()?))
    }

    /// The words of a server that says where a slot is: `MOVED 12 127.0.0.1:11000`.
    fn redirection(&self, text: &str) -> Option<Resp> {
        let (words, addr) = text.rsplit_once(' ')?;
        let redirects = ["MOVED ", "ASK "].iter().any(|prefix| text.starts_with(prefix));
        let addr = addr.parse().ok().filter(|_| redirects)?;
        Some(Resp::Error(format!("{words} {}", self.before(addr))))
    }

    /// The answer to `CLUSTER SLOTS`: of each range the servers begin with host and port.
    fn slots(&self, ranges: &Resp) -> Resp {
        let server = |server: &Resp| {
            let mut fields = server.elements().to_vec();
            let port = fields.get(1).and_then(Resp::as_int).unwrap_or_default().to_string();
            if let Some(addr) = fields.first().and_then(|host| self.before_named(host, &port)) {
                fields[0] = Resp::Bulk(addr.ip().to_string().into_bytes());
                fields[1] = Resp::Int(addr.port().into());
            }
            Resp::Array(fields)
        };
        let range = |range: &Resp| {
            let fields = range.elements();
            let (bounds, servers) = fields.split_at(fields.len().min(2));
            Resp::Array(bounds.iter().cloned().chain(servers.iter().map(server)).collect())
        };
        Resp::Array(ranges.elements().iter().map(range).collect())
    }

    /// Notes the grants and the ends of holds that a reply tells of.
    fn note(&self, server: &str, request: &Request, reply: &Resp) {
        let runs = runs(request, reply);
        let current = self.current.lock().expect("nobody panics with it");
        let Some(bench) = &*current else { return };
        if runs.len() > 1 {
            bench.journal.batched(runs.len());
        }
        // A simple lock that was free is taken by a plain command.
        if let [set, key, hold, nx, ..] = &request.argv[..]
            && (&set[..], &nx[..]) == (b"SET", b"NX")
            && reply.as_str() == Some("OK")
        {
            let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
            bench.journal.executed(moment::of(request.at), server, &label(&text(hold)), &text(key));
        }
        for Run { script, keys, args, reply } in runs {
            let word = |words: &[Vec<u8>], at: usize| {
                String::from_utf8_lossy(words.get(at).map_or(&[], Vec::as_slice)).into_owned()
            };
            let hold = match script.name() {
                // Its hold has no slot of its own, and is the end of the key of its record.
                "semaphore/acquire" => label(word(keys, 1).rsplit_once("}:").map_or("", |(_, hold)| hold)),
                "permits/acquire" => label_of_permits(args.first().map_or(&[], Vec::as_slice)),
                _ => label(&word(args, 0)),
            };
            if script.name() == "lock/release" {
                bench.journal.gone(&hold);
            } else if script.name().ends_with("/acquire")
                && matches!(reply.elements().first().and_then(Resp::as_int), Some(1..=3))
            {
                bench.journal.executed(moment::of(request.at), server, &hold, &word(keys, 0));
            }
        }
    }
}

impl Watch for Relays {
    fn answered(&self, server: &str, request: &Request, reply: &Resp) -> Option<Resp> {
        let is =
            |at: usize, word: &str| request.argv.get(at).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
        match reply {
            Resp::Error(text) => self.redirection(text),
            Resp::Array(_) if is(0, "CLUSTER") && is(1, "SLOTS") => Some(self.slots(reply)),
            Resp::Array(fields) if is(0, "SENTINEL") && is(1, "GET-MASTER-ADDR-BY-NAME") => {
                let addr = self.before_named(fields.first()?, fields.get(1)?.as_str()?)?;
                let fields = [addr.ip().to_string(), addr.port().to_string()];
                Some(Resp::Array(fields.map(|field| Resp::Bulk(field.into_bytes())).into()))
            }
            _ => {
                self.note(server, request, reply);
                None
            }
        }
    }

    /// A relay refuses connections for as long as its server does.
    fn refused(&self, target: SocketAddr) {
        let proxy = self.proxies.lock().expect("no relay panics with it").get(&target).cloned();
        let Some(proxy) = proxy else { return };
        std::thread::spawn(move || {
            proxy.refuse(true);
            while TcpStream::connect(target).is_err() {
                std::thread::sleep(Duration::from_millis(20));
            }
            proxy.refuse(false);
        });
    }
}

/// A script that a request runs, and what is answered to it.
struct Run<'a> {
    script: &'static Script,
    keys: &'a [Vec<u8>],
    args: &'a [Vec<u8>],
    reply: &'a Resp,
}

/// The scripts that a request runs: none, one, or those of a batch.
fn runs<'a>(request: &'a Request, reply: &'a Resp) -> Vec<Run<'a>> {
    let [_, text, count, rest @ ..] = request.argv.as_slice() else { return Vec::new() };
    if !matches!(request.command().as_str(), "EVALSHA" | "EVAL") {
        return Vec::new();
    }
    let Some((keys, args)) = number(count).and_then(|count| rest.split_at_checked(count)) else { return Vec::new() };
    let is = |known: &&&'static Script| [known.sha1(), known.source()].iter().any(|word| word.as_bytes() == text);
    if let Some(script) = script::ALL.iter().find(is).copied() {
        return vec![Run { script, keys, args, reply }];
    }
    let is = |batch: &&'static Batch| {
        [batch.script().sha1(), batch.script().source()].iter().any(|word| word.as_bytes() == text)
    };
    let batch = batch::ALL.iter().find(is);
    batch.and_then(|batch| parts(batch.scripts(), keys, args, reply.elements())).unwrap_or_default()
}

/// The parts of a batch, whose plan says how many keys and arguments each has.
fn parts<'a>(
    scripts: &[&'static Script],
    mut keys: &'a [Vec<u8>],
    args: &'a [Vec<u8>],
    replies: &'a [Resp],
) -> Option<Vec<Run<'a>>> {
    let (plan, mut args) = args.split_first()?;
    let mut runs = Vec::new();
    for (reply, plan) in replies.iter().zip(plan.chunks_exact(3)) {
        let [script, key_count, arg_count] = plan else { return None };
        let digit = |character: &u8| character.checked_sub(b'0').map(usize::from);
        let script = scripts.get(digit(script)?.checked_sub(1)?)?;
        let (own_keys, other_keys) = keys.split_at_checked(digit(key_count)?)?;
        let (own_args, other_args) = args.split_at_checked(digit(arg_count)?)?;
        runs.push(Run { script, keys: own_keys, args: own_args, reply });
        (keys, args) = (other_keys, other_args);
    }
    Some(runs)
}

fn number(word: &[u8]) -> Option<usize> {
    std::str::from_utf8(word).ok()?.parse().ok()
}
