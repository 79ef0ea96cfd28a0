//! One connection through the proxy: its two sockets, what waits to be delivered, and which requests have no reply yet.

use std::{
    collections::VecDeque,
    net::{Shutdown, TcpStream},
    sync::Arc,
    time::Instant,
};

use super::{
    state::{TO_CLIENT, TO_SERVER},
    trap::{After, Trap},
};
use crate::Resp;

pub(super) struct Link {
    /// The name of the server process, where the proxy is watched.
    pub(super) server: Arc<str>,
    /// Indexed, as all pairs here, by the direction: the server's, then the client's.
    sockets: [TcpStream; 2],
    queues: [VecDeque<Item>; 2],
    /// Whether a write is under way.
    pub(super) writing: [bool; 2],
    pending: VecDeque<Pending>,
    /// Whether a reply was swallowed and the connection left open: nothing more goes to the client.
    pub(super) hung: bool,
    subscribed: bool,
    client_gone: bool,
}

/// Something on its way.
pub(super) struct Item {
    pub(super) arrived: Instant,
    pub(super) what: What,
}

pub(super) enum What {
    Bytes(Vec<u8>),
    /// Nothing passes this point until it is taken away. The number is that of the request that follows.
    Hold(u64),
    /// The side from which this direction comes has closed.
    End,
    /// The connection is to be closed here.
    Cut(Trap),
}

/// A request that has no reply yet.
struct Pending {
    /// `None` for a command of the proxy's own.
    number: Option<u64>,
    swallow: Option<(After, Trap)>,
    held: bool,
    /// For a command of the SUBSCRIBE family: its name in lower case, and how many confirmations are to come.
    subscription: Option<(String, usize)>,
}

/// A request that a frame answered.
pub(super) struct Answered {
    /// `None` for a command of the proxy's own, whose reply is dropped.
    pub(super) number: Option<u64>,
    pub(super) swallow: Option<(After, Trap)>,
    /// Whether the request was held.
    pub(super) held: bool,
    /// False for the confirmations of a subscription to several channels, but for the last.
    pub(super) last: bool,
}

impl Link {
    pub(super) fn new(sockets: [TcpStream; 2], server: Arc<str>) -> Self {
        Self {
            server,
            sockets,
            queues: Default::default(),
            writing: [false; 2],
            pending: VecDeque::new(),
            hung: false,
            subscribed: false,
            client_gone: false,
        }
    }

    pub(super) fn push(&mut self, way: usize, what: What) {
        self.client_gone |= way == TO_SERVER && matches!(what, What::End);
        self.queues[way].push_back(Item { arrived: Instant::now(), what });
    }

    /// The next item of a direction, unless it is held.
    pub(super) fn front(&self, way: usize) -> Option<&Item> {
        self.queues[way].front().filter(|item| !matches!(item.what, What::Hold(_)))
    }

    pub(super) fn pop(&mut self, way: usize) -> Option<What> {
        self.queues[way].pop_front().map(|item| item.what)
    }

    /// Lets the held requests go, and tells their numbers.
    pub(super) fn unhold(&mut self) -> impl Iterator<Item = u64> + use<> {
        let queue = &mut self.queues[TO_SERVER];
        let held: Vec<_> = queue
            .iter()
            .filter_map(|item| if let What::Hold(number) = item.what { Some(number) } else { None })
            .collect();
        queue.retain(|item| !matches!(item.what, What::Hold(_)));
        held.into_iter()
    }

    /// Closes both sides, or only the client's when a request is held. Tells whether the link lives on.
    pub(super) fn cut_off(&mut self) -> bool {
        let holds = self.queues[TO_SERVER].iter().any(|item| matches!(item.what, What::Hold(_)));
        let _ = self.sockets[TO_CLIENT].shutdown(Shutdown::Both);
        self.client_gone = true;
        if !holds {
            self.close();
        }
        holds
    }

    pub(super) fn close(&self) {
        for socket in &self.sockets {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    pub(super) fn client_is_gone(&self) -> bool {
        self.client_gone
    }

    /// Expects a reply to a request.
    pub(super) fn expect(&mut self, number: u64, argv: &[Vec<u8>], swallow: Option<(After, Trap)>, held: bool) {
        self.pending.push_back(Pending { number: Some(number), swallow, held, subscription: subscription(argv) });
    }

    /// Expects a reply to a command of the proxy's own.
    pub(super) fn expect_hidden(&mut self, argv: &[Vec<u8>]) {
        self.pending.push_back(Pending { number: None, swallow: None, held: false, subscription: subscription(argv) });
    }

    /// The request that a frame from the server answers; `None` for a message, which answers none.
    pub(super) fn answered_by(&mut self, frame: &Resp) -> Option<Answered> {
        let front = self.pending.front_mut()?;
        let mut last = true;
        if let Some(kind) = message_kind(frame, self.subscribed || front.subscription.is_some()) {
            let (_, left) = front.subscription.as_mut().filter(|(name, _)| name == kind)?;
            self.subscribed = true;
            *left -= 1;
            last = *left == 0;
        }
        let answered = Answered { number: front.number, swallow: front.swallow.clone(), held: front.held, last };
        if last {
            self.pending.pop_front();
        }
        Some(answered)
    }
}

/// The name of a command of the SUBSCRIBE family, and the number of its confirmations.
fn subscription(argv: &[Vec<u8>]) -> Option<(String, usize)> {
    let name = argv.first().map(|name| String::from_utf8_lossy(name).to_ascii_lowercase()).unwrap_or_default();
    CONFIRMATIONS.contains(&name.as_str()).then(|| (name, argv.len().max(2) - 1))
}

/// Which kind of message a frame is, if it is one. In RESP2 messages are arrays like others, on connections that subscribe.
fn message_kind(frame: &Resp, subscribes: bool) -> Option<&str> {
    let elements = match frame {
        Resp::Push(elements) => elements,
        Resp::Array(elements) if subscribes => elements,
        _ => return None,
    };
    let kind = elements.first()?.as_str()?;
    let is_message = matches!(frame, Resp::Push(_)) || MESSAGES.contains(&kind) || CONFIRMATIONS.contains(&kind);
    is_message.then_some(kind)
}

const MESSAGES: [&str; 3] = ["message", "pmessage", "smessage"];
const CONFIRMATIONS: [&str; 6] =
    ["subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe"];
