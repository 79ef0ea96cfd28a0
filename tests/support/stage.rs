//! The embedded engine on a clock that is moved by hand: what takes how long is exact, and the same every time.

use super::engine::{Backend, Engine};
use super::{Kind, Polled, World, ms};
use leasehold::embedded::{EmbeddedServer, ManualClock};
use leasehold::{Client, ClientBuilder};
use leasehold_core::time::Instant;
use std::task::Poll;
use std::time::Duration;

/// A server, and the clients on its clock.
pub(crate) struct Stage {
    pub(crate) clock: ManualClock,
    pub(crate) server: EmbeddedServer,
    /// Others on the same clock, where a kind lies on several.
    more: Vec<EmbeddedServer>,
    /// The clocks of clients that may die.
    mortal: Vec<ManualClock>,
}

/// A future that is polled as soon as it is woken.
pub(crate) struct Actor<T> {
    future: Option<Polled<'static, T>>,
    /// Its result, and when it came.
    pub(crate) done: Option<(T, Instant)>,
}

impl<T> Actor<T> {
    pub(crate) fn new(future: impl Future<Output = T> + 'static) -> Self {
        Self { future: Some(Polled::new(future)), done: None }
    }

    /// Drops the future where it is.
    pub(crate) fn dropped(&mut self) {
        self.future = None;
    }

    /// Polls it if it was woken. Tells whether it was.
    fn act(&mut self, now: Instant) -> bool {
        let Some(future) = self.future.as_mut().filter(|future| future.is_woken()) else { return false };
        if let Poll::Ready(value) = future.poll() {
            self.future = None;
            self.done = Some((value, now));
        }
        true
    }

    pub(crate) const fn is_done(&self) -> bool {
        self.done.is_some()
    }

    /// Whether it is done, or was dropped.
    pub(crate) const fn is_over(&self) -> bool {
        self.future.is_none()
    }

    #[track_caller]
    pub(crate) fn take(&mut self) -> T {
        self.done.take().expect("a future that is done").0
    }
}

impl Stage {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::new();
        Self { server: EmbeddedServer::with_clock(clock.clone()), clock, more: Vec::new(), mortal: Vec::new() }
    }

    /// As many servers as a kind needs.
    pub(crate) fn of(kind: Kind) -> Self {
        let mut stage = Self::new();
        stage.more = (1..kind.servers()).map(|_| EmbeddedServer::with_clock(stage.clock.clone())).collect();
        stage
    }

    /// A process: a client for each server.
    pub(crate) fn process(&self) -> Vec<Client> {
        let client = |server| Client::builder().manual_clock(&self.clock).embedded(server).expect("a client");
        self.servers().map(client).collect()
    }

    pub(crate) fn servers(&self) -> impl Iterator<Item = &EmbeddedServer> {
        std::iter::once(&self.server).chain(&self.more)
    }

    /// The rest of a kind on the servers without holders and waiters, and its listeners.
    #[track_caller]
    pub(crate) fn leftovers(&self, kind: Kind) -> Vec<String> {
        let mut left = Vec::new();
        for server in self.servers() {
            let world = World { engine: Engine::Embedded, backend: Backend::Embedded(server.clone()), proxy: None };
            left.extend(kind.leftovers(&world));
            left.extend((0..server.subscriptions()).map(|_| "a subscription".to_owned()));
        }
        left
    }

    pub(crate) fn client(&self) -> Client {
        self.client_with(|builder| builder)
    }

    pub(crate) fn client_with(&self, settings: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Client {
        let builder = settings(Client::builder()).manual_clock(&self.clock);
        builder.embedded(&self.server).expect("a client")
    }

    /// A client with a clock of its own, which stands still when it is told to: from then on it sends nothing and hears nothing, as
    /// a process that died or was suspended. Nothing of it may be polled or dropped meanwhile.
    pub(crate) fn mortal(&mut self) -> Client {
        let clock = ManualClock::new();
        clock.advance(self.clock.now().since(Instant::from_nanos(0)));
        let client = Client::builder().manual_clock(&clock).embedded(&self.server).expect("a client");
        self.mortal.push(clock);
        client
    }

    /// The clocks of all mortal clients stand still.
    pub(crate) fn kill(&mut self) -> Vec<ManualClock> {
        std::mem::take(&mut self.mortal)
    }

    /// Clients go on whose clocks stood still.
    pub(crate) fn revive(&mut self, clocks: Vec<ManualClock>) {
        for clock in &clocks {
            clock.advance(self.clock.now().since(clock.now()));
        }
        self.mortal.extend(clocks);
    }

    /// Polls the woken futures, until there are none.
    pub(crate) fn act<T>(&self, actors: &mut [Actor<T>]) {
        let now = self.clock.now();
        let mut rounds = 0;
        loop {
            // All act in each round, whether or not another before did.
            let acted: Vec<bool> = actors.iter_mut().map(|actor| actor.act(now)).collect();
            if !acted.contains(&true) {
                break;
            }
            rounds += 1;
            assert!(rounds < 1_000, "somebody is woken for ever");
        }
    }

    /// Lets time pass, a millisecond at a time.
    pub(crate) fn pass<T>(&self, time: Duration, actors: &mut [Actor<T>]) {
        let end = self.clock.now() + time;
        self.act(actors);
        while self.clock.now() < end {
            self.tick();
            self.act(actors);
        }
    }

    /// Lets time pass until `come`, and tells how long that took.
    #[track_caller]
    pub(crate) fn pass_until<T>(
        &self,
        what: &str,
        within: Duration,
        actors: &mut [Actor<T>],
        come: impl Fn(&[Actor<T>]) -> bool,
    ) -> Duration {
        let begun = self.clock.now();
        self.act(actors);
        while !come(actors) {
            assert!(self.clock.now().since(begun) < within, "{what} has not come within {within:?}");
            self.tick();
            self.act(actors);
        }
        self.clock.now().since(begun)
    }

    /// Does at once what takes no time.
    #[track_caller]
    pub(crate) fn now<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> T {
        let mut actors = [Actor::new(future)];
        self.act(&mut actors);
        actors[0].take()
    }

    fn tick(&self) {
        self.clock.advance(ms(1));
        self.mortal.iter().for_each(|clock| clock.advance(ms(1)));
    }

    #[track_caller]
    pub(crate) fn command(&self, words: &[&str]) -> leasehold_core::reply::Reply {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.server.command(&words).expect("a reply")
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.server.keys().iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect()
    }
}
