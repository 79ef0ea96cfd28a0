//! The states of the model: what the server, the clients and the network have.
//!
//! No state knows the present: a lease is told by what is left of it on the server's clock, a deadline by what is left of it on the client's,
//! and a call by its age on the client's clock.

/// The record of a hold on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lock {
    /// The client of the hold, and 0 if it is the client's present hold; see [`Message::past`].
    pub holder: (u8, u8),
    /// The hold count.
    pub count: u8,
    /// The ticks left of the lease.
    pub left: u8,
    /// Whether a late copy has raised the count.
    pub by_copy: bool,
    /// For how many ticks no task has wanted it, while nothing of the hold was on its way.
    pub unwanted: u8,
}

/// A change of the count whose outcome is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Change {
    /// The count that it asks for.
    pub target: u8,
    /// No reply will come: it is to be settled.
    pub settling: bool,
}

/// The knowledge of one client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Client {
    /// The guards that exist.
    pub wanted: u8,
    /// The most that the server may have.
    pub on_server: u8,
    /// The ticks left until the deadline.
    pub belief: u8,
    /// The deadline has passed, or the server has said that the hold is gone.
    pub lost: bool,
    /// The hold was granted, or given up: no first acquire is sent for it any more.
    pub spent: bool,
    /// The change that is on its way, or is being settled.
    pub change: Option<Change>,
    /// A renewal is on its way.
    pub renewing: bool,
    /// A copy that comes late is expected, because nothing could be proven: for one tick less, and until a last release is sent.
    pub unproven: u8,
    /// The process is no more.
    pub dead: bool,
    /// It was told that the lock is busy, and has not got it since.
    pub waits: bool,
    /// How often other clients have passed the lock to a task of theirs meanwhile.
    pub passed_over: u8,
    /// How often this hold has passed from task to task.
    pub passes: u8,
    /// How many ticks ago it was granted, as far as that matters for passing it on.
    pub tenure: u8,
    /// The lease lingers: no task wants it, and it is not given back.
    pub lingers: bool,
    /// The server has told that another client asks for the lock.
    pub asked: bool,
}

impl Client {
    /// Whether it says that it holds the lock.
    pub const fn believes(&self) -> bool {
        self.wanted > 0 && self.belief > 0
    }

    /// Whether a change of the count may be sent.
    pub const fn is_settled(&self) -> bool {
        !self.dead && self.change.is_none()
    }

    /// The hold is lost, if there is one.
    pub const fn lose(&mut self) {
        self.lost |= self.wanted > 0;
        (self.belief, self.lingers) = (0, false);
    }

    /// The server does not have the hold. Nothing of a granted hold is expected any more, even if late copies of its acquire may come.
    pub fn find_gone(&mut self) {
        self.lose();
        if self.wanted > 0 {
            self.unproven = 0;
        }
        self.on_server = self.unproven.min(1);
    }

    /// Whether nothing of the hold is left, so that the next one may begin.
    pub const fn is_over(&self) -> bool {
        self.spent && self.wanted == 0 && self.on_server == 0 && self.change.is_none()
    }
}

/// The request of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Takes the lock, or raises the count of a hold.
    Acquire,
    /// Lowers the count of a hold.
    Release,
    /// Lengthens the lease of a hold.
    Renew,
    /// The server tells the holder that another client asks.
    Asked,
}

/// How far a message has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Leg {
    /// On its way to the server.
    Call,
    /// The same on a connection that is lost: no reply comes. Settling it proves that it is not applied any more, or not.
    Lost,
    /// A late copy, of which its client does not know.
    Copy,
    /// On its way back: the hold is there, and the client may believe in it for so long.
    Held(u8),
    /// On its way back: another hold has the lock.
    Busy,
    /// On its way back: there is no such hold, any more or at all.
    Gone,
}

/// A message on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Message {
    /// Its client.
    pub client: u8,
    /// 0 for the client's present hold. Past holds of which something is left count upwards from the latest, so that the numbers of holds
    /// grow for ever in a world of finitely many states.
    pub past: u8,
    /// Its request.
    pub verb: Verb,
    /// The hold count that it asks for.
    pub count: u8,
    /// The ticks of the client's clock since the call was sent, if its reply tells of a lease.
    pub age: u8,
    /// How far it has come.
    pub leg: Leg,
}

impl Message {
    /// The hold, by its client and its place among the past ones.
    pub const fn hold(&self) -> (u8, u8) {
        (self.client, self.past)
    }

    /// Whether a reply to its client is to come, or is on its way.
    pub fn is_awaited(&self) -> bool {
        self.verb != Verb::Asked && !matches!(self.leg, Leg::Lost | Leg::Copy)
    }
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// The lock on the server, if a hold has it.
    pub lock: Option<Lock>,
    /// The clients.
    pub clients: Vec<Client>,
    /// In an order that makes equal worlds equal.
    pub network: Vec<Message>,
    /// How many crashes, lost connections and copies may still come.
    pub disturbances: u8,
    /// The ticks since a clock has drifted.
    pub steady: u8,
    /// A message has changed a hold that is not its own.
    pub spoiled: bool,
}

impl World {
    /// The same, with another state of a client.
    pub fn with(&self, client: u8, state: Client) -> Self {
        let mut next = self.clone();
        next.clients[usize::from(client)] = state;
        next
    }

    /// The same, with a call of a client on its way.
    pub fn sending(mut self, client: u8, verb: Verb, count: u8) -> Self {
        self.network.push(Message { client, past: 0, verb, count, age: 0, leg: Leg::Call });
        self
    }

    /// A client loses its connection: no reply comes any more, and its calls may still arrive.
    pub fn disconnect(&mut self, client: u8) {
        self.network
            .retain(|message| message.client != client || matches!(message.leg, Leg::Call | Leg::Lost | Leg::Copy));
        for message in self.network.iter_mut().filter(|message| message.client == client && message.is_awaited()) {
            (message.age, message.leg) = (0, if message.verb == Verb::Renew { Leg::Copy } else { Leg::Lost });
        }
    }

    /// Calls that are not settled may come as late copies.
    pub fn give_up_settling(&mut self, client: u8) {
        for message in self.network.iter_mut().filter(|message| message.client == client && message.leg == Leg::Lost) {
            message.leg = Leg::Copy;
        }
    }

    /// Begins the next hold where nothing of the present one is left, and makes worlds equal that differ in nothing that matters.
    pub fn tidied(mut self, by_client: bool) -> Self {
        for client in 0_u8..3 {
            let Some(me) = self.clients.get_mut(usize::from(client)) else { break };
            if me.is_over() {
                *me = Client { waits: me.waits, passed_over: me.passed_over, ..Client::default() };
                self.age_holds(client);
            }
        }
        if !by_client {
            self.drop_what_does_nothing();
        }
        if self.is_wanted() {
            self.lock.iter_mut().for_each(|lock| lock.unwanted = 0);
        }
        if self.lock.is_none() {
            self.clients.iter_mut().for_each(|client| client.passed_over = 0);
        }
        self.network.sort_unstable();
        self
    }

    /// The present hold of a client becomes the latest of its past holds.
    fn age_holds(&mut self, client: u8) {
        let lock = self.lock.iter_mut().map(|lock| (lock.holder.0, &mut lock.holder.1));
        let messages = self.network.iter_mut().map(|message| (message.client, &mut message.past));
        let mut pasts: Vec<_> = lock.chain(messages).filter(|(of, _)| *of == client).map(|(_, past)| past).collect();
        pasts.sort_unstable();
        let (mut latest, mut before) = (0, None);
        for past in pasts {
            latest += u8::from(before.replace(*past) != Some(*past));
            *past = latest;
        }
    }

    /// Whether a task has the lock, or asks for what the server has given it.
    fn is_wanted(&self) -> bool {
        let asks = |message: &Message| message.verb == Verb::Acquire && message.is_awaited();
        self.lock.is_some_and(|lock| {
            let held = lock.holder.1 == 0 && self.clients[usize::from(lock.holder.0)].wanted > 0;
            held || self.network.iter().any(|message| message.hold() == lock.holder && asks(message))
        })
    }

    /// A message about a past hold does nothing if the server does not have that hold, and cannot get it any more by a first acquire.
    fn drop_what_does_nothing(&mut self) {
        let is_first = |message: &Message| message.verb == Verb::Acquire && message.count == 1;
        let firsts = self.network.iter().filter(|message| message.leg == Leg::Copy && is_first(message));
        let may_be: Vec<_> = self.lock.iter().map(|lock| lock.holder).chain(firsts.map(Message::hold)).collect();
        self.network.retain(|message| {
            message.past == 0 || (matches!(message.leg, Leg::Call | Leg::Copy) && may_be.contains(&message.hold()))
        });
    }

    /// The same world with two neighbours among the clients exchanged.
    fn exchanged(&self, first: u8) -> Self {
        let other = |client: u8| match client {
            _ if client == first => first + 1,
            _ if client == first + 1 => first,
            _ => client,
        };
        let mut next = self.clone();
        next.clients.swap(usize::from(first), usize::from(first + 1));
        next.lock.iter_mut().for_each(|lock| lock.holder.0 = other(lock.holder.0));
        next.network.iter_mut().for_each(|message| message.client = other(message.client));
        next.network.sort_unstable();
        next
    }

    /// All clients do the same: of worlds that differ by an exchange of clients, one stands for all.
    pub fn representative(mut self) -> Self {
        for _ in 1..self.clients.len() {
            for first in 0_u8..2 {
                let place = usize::from(first);
                if place + 1 < self.clients.len() && self.clients[place] > self.clients[place + 1] {
                    self = self.exchanged(first);
                }
            }
        }
        self
    }
}
