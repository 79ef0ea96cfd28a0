//! The protocol state of one client: everything it waits for, holds, renews and cleans up.
//!
//! A [`Session`] does no I/O and reads no clock. Its methods fall into four families:
//!
//! - **requests** of callers: [`Session::acquire`], [`Session::release`], and their `poll_*` and `abandon_*`, which a
//!   future calls when it is polled and dropped;
//! - **`handle_*`** for input: replies, settlements, subscriptions, notices, resets, the passing of time;
//! - **`poll_*`** for output: [`Session::poll_call`], [`Session::poll_action`], [`Session::poll_event`],
//!   [`Session::poll_timeout`], [`Session::take_woken`]. Drain them after every call of another family;
//! - **getters**.
//!
//! `now` never goes back from one call to the next.
//!
//! Behind these methods stand the flows in `flow/`, which say what happens, and below them the components, each of which owns a part of the
//! state; `docs/architecture.md` has the map.
//!
//! # Invariants
//!
//! 1. A hold exists in the session from the moment at which a command that could create it may leave the process until it
//!    is certain that the server has nothing of it. So whatever may be on the server is known here, and cleaned up from here. A hold that is
//!    handed on within the client is never absent in between.
//! 2. `on_server` of a hold's count is never lower than what the server has. `wanted` is what the server should have: the hold's guards, and
//!    those that were detached. If `on_server` is greater, and no request is about to change that, the background lowers it. Clean-up of every
//!    sort is this one rule.
//! 3. A hold has at most one change of its count on the way, and none is sent while an earlier one is unsettled.
//! 4. A deadline is reckoned from the instant before its call was sent; a hold whose deadline has passed is lost, whatever
//!    a later reply says. One that has not passed is put earlier only by the reply to a later command that disproves it, or
//!    where a hold that was granted without the server is restored.
//! 5. A lock has at most one waiter, the contender, that may send a first acquire. Four others may: a waiter that takes a place in a queue on the
//!    server; a waiter of a shared lock that a grant has invited, or whose wait ends; a try of a shared lock; and a try if no request has
//!    asked yet, or the server is out of reach. A contender to which a hold is handed on has nothing on its way, and sends nothing.
//! 6. A hold number stands for one holder, and is never used again. A hold that is handed on keeps its name on the server and takes a new
//!    number, so that whatever knows the old one finds nothing: a late re-entry, release or reply does not touch the new holder.
//! 7. A hold that lingers has no guard, nothing of it is on the way, and it is watched. Its lock listens for others that want it. The first
//!    request that would ask the server has the hold, or ends its lingering.
//!
//! From 1 and 2 follows that nothing leaks: what a dropped future, a dropped guard or a lost reply leaves behind is a
//! hold whose count is too high.

mod api;
mod client_record;
mod contended;
mod failures;
mod flow;
mod hold;
mod ids;
mod invariants;
mod listening;
mod lock;
mod lowerings;
mod missing;
mod out;
mod outages;
mod owners;
mod parts;
mod pending;
mod renewals;
mod replicas;
mod request;
mod retry;
mod settlements;
#[cfg(test)]
mod steps;
mod subscriptions;
mod timers;
mod unanswered;
mod window;
mod wish;

pub use crate::call::CallId;
pub use api::{Action, ClientStats, Event, Outgoing};
pub use wish::{AcquireRequest, Fallback, Granted, LingerTime, OuterOwners, Patience, Ticket};

use crate::command::record;
use crate::error::{AcquireError, ReleaseError};
use crate::link::{LinkError, LinkEvent, Settled};
use crate::name::LockName;
use crate::owner::{ClientId, HoldNumber, OwnerId};
use crate::reply::Reply;
use crate::settings::Settings;
use crate::time::Instant;
use bytes::Bytes;
use parts::Parts;
use std::task::{Poll, Waker};
use std::time::Duration;

/// See the [module](self).
#[derive(Debug)]
pub struct Session {
    parts: Parts,
}

impl Session {
    /// The state of a client that has done nothing yet. The same seed makes the same choices.
    pub fn new(client: ClientId, settings: Settings, seed: u64) -> Self {
        Self { parts: Parts::new(client, settings, seed) }
    }

    /// Begins to acquire. The first [`Session::poll_acquire`] must follow at once. The wish is kept in its box for as long as the request
    /// waits.
    pub fn acquire(&mut self, now: Instant, wish: impl Into<Box<AcquireRequest>>) -> Ticket {
        let wish = wish.into();
        self.checked(|parts| parts.acquire(now, wish))
    }

    /// Polls an acquire. The ticket is invalid once this is ready.
    pub fn poll_acquire(
        &mut self,
        now: Instant,
        ticket: Ticket,
        waker: &Waker,
    ) -> Poll<Result<Option<Granted>, AcquireError>> {
        self.checked(|parts| parts.poll_acquire(now, ticket, waker))
    }

    /// The future of an acquire was dropped.
    pub fn abandon_acquire(&mut self, now: Instant, ticket: Ticket) {
        self.checked(|parts| parts.abandon_acquire(now, ticket));
    }

    /// After the failure of which number the caller's own back-off is to be asked, if it is. That is foreign code, which may itself use the
    /// client: ask it while the session is not locked, and hand in what it says by [`Session::handle_backoff`].
    pub fn poll_backoff(&mut self, ticket: Ticket) -> Option<u32> {
        self.checked(|parts| parts.poll_backoff(ticket))
    }

    /// Takes what the caller's own back-off says; `None` ends the wait.
    pub fn handle_backoff(&mut self, now: Instant, ticket: Ticket, pause: Option<Duration>) {
        self.checked(|parts| parts.handle_backoff(now, ticket, pause));
    }

    /// Gives one guard of a hold back. From here on the session sees to it, whether the caller waits for the outcome or not.
    ///
    /// `renewed` is whether this guard wanted the hold to be renewed.
    pub fn release(&mut self, now: Instant, number: HoldNumber, renewed: bool) -> Ticket {
        self.checked(|parts| parts.release(now, number, renewed))
    }

    /// Polls a release. The ticket is invalid once this is ready.
    pub fn poll_release(&mut self, now: Instant, ticket: Ticket, waker: &Waker) -> Poll<Result<(), ReleaseError>> {
        self.checked(|parts| parts.poll_release(now, ticket, waker))
    }

    /// The future of a release was dropped: the background goes on.
    pub fn abandon_release(&mut self, now: Instant, ticket: Ticket) {
        self.checked(|parts| parts.abandon_release(now, ticket));
    }

    /// A guard was dropped.
    pub fn drop_guard(&mut self, now: Instant, number: HoldNumber, renewed: bool) {
        self.checked(|parts| parts.drop_guard(now, number, renewed));
    }

    /// Keeps the lock of a hold busy until then, however soon its guards are released or dropped. A kind that cannot do that takes no notice.
    pub fn keep_busy(&mut self, number: HoldNumber, until: Instant) {
        self.checked(|parts| parts.keep_busy(number, until));
    }

    /// A guard is given up without a release: nothing renews for its sake, and the lease runs out by itself.
    pub fn detach(&mut self, now: Instant, number: HoldNumber, renewed: bool) {
        self.checked(|parts| parts.detach(now, number, renewed));
    }

    /// Lets a caller wait for time to pass. The clock is the session's, so that it also goes on where a test moves it by hand.
    pub fn pause(&mut self, now: Instant, pause: Duration) -> Ticket {
        self.checked(|parts| parts.pause(now, pause))
    }

    /// Whether a pause is over; `waker` is woken when it is.
    pub fn poll_pause(&mut self, now: Instant, ticket: Ticket, waker: &Waker) -> bool {
        self.checked(|parts| parts.poll_pause(now, ticket, waker))
    }

    /// Forgets a pause.
    pub fn end_pause(&mut self, ticket: Ticket) {
        self.checked(|parts| parts.end_pause(ticket));
    }

    /// Has the holds of a lock looked at now: a hold on the server was ended from outside.
    pub fn look_again(&mut self, now: Instant, name: &str) {
        self.checked(|parts| parts.look_after_end(now, name));
    }

    /// How long the server of the lock with this name has been unreachable, as known to the link.
    pub fn out_of_reach_for(&self, now: Instant, name: &LockName) -> Option<Duration> {
        self.parts.outages.of(name.key()).map(|outage| now.since(outage.since()))
    }

    /// Whether one of these owners holds a lock of this name, by any hold that excludes others or could be re-entered.
    pub fn is_held_by(&self, name: &LockName, owners: &[OwnerId]) -> bool {
        self.parts.is_held_by(name, owners)
    }

    /// Keeps a record of this client on the server, which goes away `lifetime` after the client does.
    pub fn announce(&mut self, now: Instant, record: record::ClientRecord, lifetime: Duration) {
        self.checked(|parts| parts.announce(now, record, lifetime));
    }

    /// Removes the client's record, if there is one. A record that cannot be removed goes away by itself.
    pub fn retract(&mut self, now: Instant) {
        self.checked(|parts| parts.retract(now));
    }

    /// Stops granting: every waiting caller is told so, and every later acquire is refused. Holds stay as they are.
    pub fn close(&mut self, now: Instant) {
        self.checked(|parts| parts.close(now));
    }

    /// Ends the session when its driver stops: closes it, loses every hold with a guard, and fails pending releases.
    pub fn end(&mut self, now: Instant) {
        self.checked(|parts| parts.end(now));
    }

    /// Loses every hold with a guard; the last guard's drop releases the hold. Ends every pause. Returns whether a hold
    /// was lost.
    pub fn lose_all(&mut self, now: Instant) -> bool {
        self.checked(|parts| parts.lose_all(now))
    }

    /// Handles the outcome of a call. Ignores calls that the session has given up.
    pub fn handle_called(&mut self, now: Instant, id: CallId, result: Result<Reply, LinkError>) {
        self.checked(|parts| parts.handle_called(now, id, result));
    }

    /// Takes the answer to [`Action::Settle`].
    pub fn handle_settled(&mut self, now: Instant, id: CallId, result: Result<Settled, LinkError>) {
        self.checked(|parts| parts.handle_settled(now, id, result));
    }

    /// Takes the answer to [`Action::Subscribe`].
    pub fn handle_subscribed(&mut self, now: Instant, channel: &Bytes, result: Result<(), LinkError>) {
        self.checked(|parts| parts.handle_subscribed(now, channel, result));
    }

    /// Takes the answer to [`Action::Unsubscribe`].
    pub fn handle_unsubscribed(&mut self, now: Instant, channel: &Bytes, result: Result<(), LinkError>) {
        self.checked(|parts| parts.handle_unsubscribed(now, channel, result));
    }

    /// The server is known now, of a client that was made before: releases are announced by this command.
    pub fn handle_met(&mut self, publish: Bytes) {
        self.checked(|parts| parts.handle_met(publish));
    }

    /// Takes an event of the link.
    pub fn handle_event(&mut self, now: Instant, event: LinkEvent) {
        self.checked(|parts| parts.handle_event(now, event));
    }

    /// Lets time pass up to `now`: whatever is due by then happens.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.checked(|parts| parts.handle_timeout(now));
    }

    /// The next call to send. A reply that misses the command timeout counts as an unknown outcome.
    pub fn poll_call(&mut self) -> Option<Outgoing> {
        self.parts.poll_call()
    }

    /// Number of a hold's grants that no future has read.
    pub fn unread_grants(&self, number: HoldNumber) -> usize {
        let unread = self.parts.requests.acquires().filter_map(|(_, acquire)| acquire.unread());
        unread.filter(|granted| granted.hold == number).count()
    }

    /// Whether any call awaits its outcome.
    pub fn awaits_any(&self) -> bool {
        !self.parts.pending.is_empty()
    }

    /// Whether a call still awaits its outcome.
    pub fn awaits(&self, id: CallId) -> bool {
        self.parts.pending.contains(id)
    }

    /// The next action.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.parts.out.poll_action()
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.parts.out.poll_event()
    }

    /// Whether there are actions or events to be taken.
    pub fn has_output(&self) -> bool {
        !self.parts.out.is_empty()
    }

    /// The wakers of futures that have something to do. Wake them when the session is no longer locked.
    pub fn take_woken(&mut self) -> Vec<Waker> {
        self.parts.out.take_woken()
    }

    /// When [`Session::handle_timeout`] is next to be called; `None` where nothing waits for time to pass.
    ///
    /// A renewal that is due has no instant of its own: it goes out as soon as there is room.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let parts = &self.parts;
        let due = [parts.timers.next(), parts.settlements.next_timeout(), parts.unanswered.next_timeout()];
        due.into_iter().chain([parts.record.next(parts.is_idle())]).flatten().min()
    }

    /// The client's identity.
    pub const fn client(&self) -> ClientId {
        self.parts.client
    }

    /// The settings that the session obeys.
    pub const fn settings(&self) -> &Settings {
        &self.parts.settings
    }

    /// An owner that was never given out before.
    pub fn new_owner(&mut self) -> OwnerId {
        OwnerId::new(self.parts.next_id())
    }

    /// The id of an operation, such as the setting of a counter, that was never given out before. It is none of a hold's either.
    pub fn new_operation(&mut self) -> Bytes {
        let number = self.parts.new_hold();
        self.parts.client.field(number)
    }

    /// A number that is greater than all before it.
    pub fn new_number(&mut self) -> u64 {
        self.parts.next_id()
    }

    /// A number between 0 and 1.
    pub fn random(&mut self) -> f64 {
        self.parts.rng.f64()
    }

    /// From here on the same choices are made as by a session that begins with this seed. An explorer of every state that a client can be
    /// in has one source of differences less.
    pub fn reseed(&mut self, seed: u64) {
        self.parts.rng = fastrand::Rng::with_seed(seed);
    }

    /// How often a hold was handed on among the tasks of this client, without a word to the server.
    pub const fn hand_overs(&self) -> u64 {
        self.parts.hand_overs
    }

    /// How often a waiter of a fair lock asked behind the release of its own client, before it was told that the lock is free, and was granted it.
    pub const fn granted_ahead(&self) -> u64 {
        self.parts.granted_ahead
    }

    /// How often a request had a hold that lingered, without a word to the server.
    pub const fn resumed(&self) -> u64 {
        self.parts.resumed
    }

    /// Whether a hold lingers: its last guard is gone, and it is kept for the next request.
    pub fn lingers(&self, number: HoldNumber) -> bool {
        self.parts.holds.get(number).is_some_and(|hold| hold.lingers())
    }

    /// Whether this client delays its acquires of the lock with this key, because other clients have a head start.
    pub fn gives_head_start(&self, now: Instant, key: &[u8]) -> bool {
        self.parts.contended.held_back_until(now, key).is_some()
    }

    /// Has no hold linger any longer: each is released.
    pub fn stop_lingering(&mut self, now: Instant) {
        self.checked(|parts| parts.stop_all_lingering(now));
    }

    /// Whether another client has recently requested the lock with this key.
    #[cfg(test)]
    pub(crate) fn is_contended(&self, now: Instant, key: &[u8]) -> bool {
        self.parts.contended.is_contended(now, key)
    }

    /// The open things. A hold that lingers is among those that are being cleaned up.
    pub fn stats(&self) -> ClientStats {
        self.parts.stats()
    }

    /// Whether nothing is granted any more.
    pub const fn is_closed(&self) -> bool {
        self.parts.closed
    }

    /// Whether every guard is lost because of a shutdown.
    pub const fn has_lost_all(&self) -> bool {
        self.parts.lost_all
    }

    /// Whether nothing of this client can be left on the server, and nothing is subscribed to.
    pub fn is_quiet(&self) -> bool {
        self.parts.is_quiet()
    }

    /// Whether nothing of this client's holds may be on the server. A subscription may be: it ends with its
    /// connection.
    pub fn holds_nothing(&self) -> bool {
        self.parts.holds_nothing()
    }

    /// Whether a hold that no guard has any more may still be on the server.
    pub fn has_clean_up(&self) -> bool {
        self.parts.has_clean_up()
    }

    /// The locks of which something may be left on the server, by name.
    pub fn unreleased(&self) -> Vec<LockName> {
        self.parts.unreleased()
    }

    /// Calls a flow, has a bug told that it found, and asserts the invariants after it in builds with debug assertions.
    fn checked<T>(&mut self, flow: impl FnOnce(&mut Parts) -> T) -> T {
        let outcome = flow(&mut self.parts);
        self.parts.report_bugs();
        self.parts.assert_invariants();
        outcome
    }
}
