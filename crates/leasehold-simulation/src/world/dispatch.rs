//! The arrival of messages: at the server, or at a client.

use crate::report::stats::{Coverage, FaultKind};
use crate::workload::family::hold_of;
use crate::workload::plan::MEMORY_IS_FULL;
use crate::world::client::Client;
use crate::world::event::{Ask, CallKey, ReplyFate, WorldEvent};
use crate::world::network::{Caller, Waiting};
use crate::world::{World, ms, trace};
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::link::{Epoch, Link, LinkError, LinkEvent, Plane, ServerError, Settled};
use leasehold_core::reply::Reply;
use leasehold_core::session::CallId;
use leasehold_embedded::{Inside, Met};
use std::future::Future;
use std::mem::discriminant;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

impl World {
    /// Lets something happen.
    pub(crate) fn happen(&mut self, what: WorldEvent) {
        match what {
            WorldEvent::Arrive { key, client, plane, epoch, call, reply } => {
                self.arrive(key, client, plane, epoch, call, reply);
            }
            WorldEvent::Copy { key, call } => {
                if self.unknown_script.contains(&key) && self.net.waiting.contains_key(&key) {
                    // The call that it is a copy of comes once more, as a text, and it never comes before that.
                    return self.after(ms(1), WorldEvent::Copy { key, call });
                }
                let script = call.script().name();
                trace!(self, "a copy arrives: {script} {:?}", call.args());
                if self.flushed && !self.known_scripts.contains(script) {
                    // It names its script, as what it is a copy of did.
                    return;
                }
                let known = hold_of(&call).and_then(|(id, _)| self.released.get(&id));
                if script.ends_with("/acquire") && known.is_some_and(|counts| counts.contains(&0)) {
                    self.stats.reach(Coverage::LateDuplicate);
                }
                drop(self.execute(&call));
            }
            WorldEvent::Answer { key, result } => self.answer(key, result),
            WorldEvent::Barrier { client, plane, epoch, id, until, ask } => {
                // Its reply comes behind those to what was sent before.
                let back = self.now + self.delay(client);
                let connection = self.net.connection(client, plane);
                let back = back.max(connection.last_reply);
                if connection.epoch != epoch || !connection.up || back > until {
                    let missed = match ask {
                        Ask::Settle => WorldEvent::Kill { client, plane, epoch, id },
                        Ask::Probe => WorldEvent::Probed { client, id, answered: false },
                    };
                    return self.at(until, missed);
                }
                connection.last_reply = back;
                self.at(back, WorldEvent::Settled { client, plane, epoch, id, ask });
            }
            WorldEvent::Settled { client, plane, epoch, id, ask } => {
                let now = self.now;
                let connection = self.net.connection(client, plane);
                let answered = connection.epoch == epoch && connection.up && connection.frozen_until <= now;
                match ask {
                    Ask::Probe => self.probed(client, id, answered),
                    Ask::Settle if answered => {
                        self.net.kill(client, plane, Epoch(epoch.0 - 1));
                        self.settled(client, id, Ok(Settled::Proven));
                    }
                    Ask::Settle => self.at(self.now, WorldEvent::Kill { client, plane, epoch, id }),
                }
            }
            WorldEvent::Probed { client, id, answered } => self.probed(client, id, answered),
            WorldEvent::Kill { client, plane, epoch, id } => {
                let proven = !self.chance(self.rates.unproven);
                if !proven {
                    self.stats.fault(FaultKind::Unproven);
                }
                let delay = self.delay(client);
                if self.net.wires[client].reachable {
                    self.after(delay, WorldEvent::Killed { client, plane, epoch, id, proven });
                } else {
                    self.after(ms(5), WorldEvent::SettleFailed { client, id });
                }
            }
            WorldEvent::Killed { client, plane, epoch, id, proven } => {
                if proven {
                    trace!(self, "client {client}: {plane:?} up to {epoch:?} is killed");
                    self.net.kill(client, plane, epoch);
                }
                if self.net.connection(client, plane).epoch <= epoch && self.net.connection(client, plane).up {
                    self.reset(client, plane);
                }
                let settled = if proven { Settled::Proven } else { Settled::Unproven };
                self.settled(client, id, Ok(settled));
            }
            WorldEvent::SettleFailed { client, id } => {
                self.settled(client, id, Err(LinkError::NotSent("no connection".to_owned())));
            }
            WorldEvent::Subscription { client, channel, wanted, life, fate } => {
                self.subscription(client, channel, wanted, life, fate);
            }
            WorldEvent::SubscriptionAnswer { client, channel, wanted, life, result } => {
                let result = if self.net.wires[client].life == life {
                    result
                } else {
                    result.and_then(|()| if wanted { Err(LinkError::Unknown("lost".to_owned())) } else { Ok(()) })
                };
                trace!(self, "client {client} notices of {channel:?}: {wanted} {result:?}");
                let now = self.local(client);
                let session = &mut self.clients[client].session;
                if wanted {
                    session.handle_subscribed(now, &channel, result);
                } else {
                    session.handle_unsubscribed(now, &channel, result);
                }
                self.look_after(client);
            }
            WorldEvent::Notice { client, channel, life } => {
                if self.net.wires[client].life == life {
                    self.event(client, LinkEvent::Notice { channel });
                }
            }
            WorldEvent::Event { client, event } => {
                if event == LinkEvent::NoticesLagged {
                    self.stats.fault(FaultKind::Lagged);
                }
                self.event(client, event);
            }
            WorldEvent::Reset { client, plane, lose } => {
                self.note_fault_of(client, self.now);
                self.stats.fault(FaultKind::Reset);
                if self.net.connection(client, plane).up {
                    if lose {
                        let epoch = self.net.connection(client, plane).epoch;
                        self.net.kill(client, plane, epoch);
                    }
                    self.reset(client, plane);
                }
            }
            WorldEvent::Reconnected { client, plane } => {
                if self.net.wires[client].reachable && !self.net.connection(client, plane).up {
                    self.net.connection(client, plane).up = true;
                    self.event(client, LinkEvent::PlaneReset(plane));
                }
            }
            WorldEvent::ResetNotices { client } => {
                self.note_fault_of(client, self.now);
                self.stats.fault(FaultKind::NoticesReset);
                self.reset_notices(client);
                self.at(self.now, WorldEvent::Event { client, event: LinkEvent::NoticesReset });
            }
            WorldEvent::Freeze { client, plane, pause } => {
                self.stats.fault(FaultKind::Freeze);
                self.freeze(client, plane, pause);
            }
            WorldEvent::Unreachable { client, yes } => self.set_unreachable(client, yes),
            WorldEvent::RestartEmpty => self.restart_empty(),
            WorldEvent::DenyGrowth { deny } => {
                self.note_fault(self.now);
                if deny {
                    self.stats.fault(FaultKind::MemoryFull);
                    self.note_fault(self.now + MEMORY_IS_FULL);
                }
                self.server.deny_growth(deny);
            }
            WorldEvent::Poll { client, task } => self.poll(client, task),
            WorldEvent::Abandon { client, task } => self.abandon(client, task),
            WorldEvent::Start { client } => self.start_one(client),
            WorldEvent::GiveUp { guard, how } => self.give_up(guard, how),
            WorldEvent::NoScript { key, client, plane, call, reply } => self.no_script(key, client, plane, call, reply),
            WorldEvent::Crash { client } => self.crash(client),
            WorldEvent::Join => self.join(),
            WorldEvent::Pause { client, pause, counts } => self.pause(client, pause, counts),
            WorldEvent::Resume { client } => self.resume(client),
            WorldEvent::Clock { client, ppm, jump } => self.change_clock(client, ppm, jump),
            WorldEvent::StepServer { millis } => self.step_server(millis),
            WorldEvent::Restart => self.restart(),
            WorldEvent::Snapshot => self.take_snapshot(),
            WorldEvent::Failover => self.fail_over(),
            WorldEvent::Evict { all } => self.evict(all),
            WorldEvent::ForceRelease => self.force_release(),
            WorldEvent::FlushScripts => self.flush_scripts(),
            WorldEvent::Promptness { guard, removed } => self.check_promptness(guard, removed),
            WorldEvent::CountDown { call } => self.count_down(&call),
            WorldEvent::Section { guard } => self.begin_section(guard),
            WorldEvent::StoreRead { guard } => self.store_reads(guard),
            WorldEvent::Work { guard, read } => self.section_works(guard, read),
            WorldEvent::StoreWrite { guard, read } => self.store_writes(guard, read),
        }
    }

    fn arrive(&mut self, key: CallKey, client: usize, plane: Plane, epoch: Epoch, call: Call, reply: ReplyFate) {
        if epoch <= self.net.connection(client, plane).killed {
            trace!(self, "call {key} dies with its connection");
            return;
        }
        let wires = &mut self.net.wires[client];
        if key < wires.latest {
            self.stats.reach(Coverage::Overtaken);
        }
        wires.latest = wires.latest.max(key);
        let script = call.script().name();
        if self.unknown_script.remove(&key) {
            // This time it is the text.
            self.known_scripts.insert(script);
        } else if self.flushed && !self.known_scripts.contains(script) {
            self.unknown_script.insert(key);
            let back = self.now + self.delay(client);
            let connection = self.net.connection(client, plane);
            let at = back.max(connection.last_reply);
            connection.last_reply = at;
            return self.at(at, WorldEvent::NoScript { key, client, plane, call, reply });
        }
        let now = self.now;
        self.note_way(key, &call);
        self.note_expiry(&call);
        let result = match reply {
            ReplyFate::Refused(text) => Err(ServerError::new(text)),
            ReplyFate::Inside(inside) => self.execute_refused(&call, inside),
            _ => self.execute(&call),
        };
        trace!(self, "call {key} arrives: {result:?}");
        if !matches!(reply, ReplyFate::Refused(_) | ReplyFate::Inside(_)) && self.chance(self.rates.copy_now) {
            trace!(self, "call {key} arrives again");
            self.stats.fault(FaultKind::Resent);
            drop(self.execute(&call));
        }
        match reply {
            ReplyFate::Comes | ReplyFate::Refused(_) | ReplyFate::Inside(_) => {
                let delay = self.delay(client);
                let connection = self.net.connection(client, plane);
                let at = (now + delay).max(connection.last_reply);
                connection.last_reply = at;
                let result = result.map_err(LinkError::Refused);
                self.at(at, WorldEvent::Answer { key, result });
            }
            ReplyFate::Lost => {
                // Nothing that follows on this connection is answered before that is seen.
                let delay = self.delay(client);
                let connection = self.net.connection(client, plane);
                let at = (now + delay).max(connection.last_reply);
                connection.last_reply = at;
                self.at(at, WorldEvent::Reset { client, plane, lose: false });
            }
            ReplyFate::Swallowed => {
                // Nothing that is sent by this connection from here on is answered while it lasts.
                self.freeze(client, plane, ms(1_500));
            }
        }
    }

    /// Notes where an acquire was on its way for longer than the lease that it asks for: its client reckons with it no more.
    fn note_way(&mut self, key: CallKey, call: &Call) {
        let Some(sent) = self.sent.remove(&key) else { return };
        let lease = call.args().get(2).and_then(|lease| std::str::from_utf8(lease).ok()?.parse().ok());
        if let (Some((id, _)), Some(lease)) = (hold_of(call), lease)
            && self.now.since(sent) > Duration::from_millis(lease)
        {
            self.outlasted.insert(id);
        }
    }

    /// Runs a script on the server, and sends the notices of it.
    pub(crate) fn execute(&mut self, call: &Call) -> Result<Reply, ServerError> {
        self.note_silence(call);
        let result = self.server.execute(call);
        self.note_result(call, &result);
        result
    }

    /// The same, where the user lacks the right to a command of the script.
    fn execute_refused(&mut self, call: &Call, inside: Inside) -> Result<Reply, ServerError> {
        self.note_silence(call);
        let denied = ServerError::new("ERR ACL failure in script: User app has no permissions to run a command");
        let (result, met) = self.server.execute_refused(call, inside, denied);
        self.met = met;
        if let Some((id, _)) = hold_of(call).filter(|_| met == Met::AfterWriting) {
            // A release that was refused may have been carried out.
            self.doubtful.insert(id.clone());
            // Nor do the replies tell whether it took its place before.
            self.queues.doubt_hold(id.clone());
            self.half_done.insert(id);
        }
        self.note_result(call, &result);
        result
    }

    fn note_result(&mut self, call: &Call, result: &Result<Reply, ServerError>) {
        match result {
            Ok(reply) => self.note_place(call, reply),
            // A script that was refused a command has done what comes before that.
            Err(_) => self.queues.doubt(&call.keys()[0]),
        }
        if let Some((id, count)) = hold_of(call) {
            match result {
                Ok(Reply::Int(code @ 1..=4)) => {
                    if *code == 1 && count == 0 {
                        self.was_freed(call, &id);
                    }
                    self.released.entry(id).or_default().push(count);
                }
                Ok(Reply::Array(parts)) if parts[0] == Reply::Int(1) => {
                    // The fourth number of a grant of permits is how many are held.
                    let token = parts.get(3).filter(|_| !self.plan.family.counts());
                    let token = token.and_then(|token| token.int().ok());
                    let left = parts.get(1).and_then(|left| left.int().ok());
                    self.was_granted(call, id.clone(), count, token);
                    self.was_promised(&id, Duration::from_millis(left.map_or(0, i64::unsigned_abs)));
                }
                _ => {}
            }
            // A count that is lowered leaves a place in a queue where it is.
            if result.is_ok() && count == 0 && call.script().name().ends_with("/release") {
                self.queues.leave(&hold_of(call).map(|(id, _)| id).unwrap_or_default());
            }
        }
        self.deliver_notices();
    }

    /// Sends the notices that the server has published to those who listen.
    pub(crate) fn deliver_notices(&mut self) {
        for client in 0..self.clients.len() {
            while let Some(event) = next_event(&self.clients[client]) {
                if self.chance(self.rates.lose_notice) {
                    self.stats.fault(FaultKind::LostNotice);
                    continue;
                }
                if let LinkEvent::Notice { channel } = event {
                    let delay = self.delay(client);
                    if delay > self.rates.delay.1 {
                        self.stats.reach(Coverage::LateNotice);
                    }
                    let wires = &mut self.net.wires[client];
                    let at = (self.now + delay).max(wires.last_notice);
                    wires.last_notice = at;
                    let life = wires.life;
                    self.at(at, WorldEvent::Notice { client, channel, life });
                }
            }
        }
    }

    fn answer(&mut self, key: CallKey, result: Result<Reply, LinkError>) {
        let Some(Waiting { client, who, epoch, hold, .. }) = self.net.waiting.remove(&key) else { return };
        self.stats.digest.record((self.now, client, key, result.as_ref().ok()));
        if matches!(result, Err(LinkError::Unknown(_))) {
            self.doubtful.extend(hold);
        }
        match who {
            Caller::Task(task) => {
                let state = &mut self.clients[client].tasks[task];
                if state.flight.is_some_and(|(_, known)| known == key) && state.outcome.is_none() {
                    trace!(self, "call {key} is answered: {result:?}");
                    let state = &mut self.clients[client].tasks[task];
                    state.reply = Some(result);
                    std::task::Wake::wake(state.flag.clone());
                    self.plan_polls(client);
                }
            }
            Caller::Lifeline(id) => {
                trace!(self, "call {key} is answered: {result:?}");
                let now = self.local(client);
                self.clients[client].session.handle_called(now, id, epoch, result);
                self.look_after(client);
            }
        }
    }

    fn settled(&mut self, client: usize, id: CallId, result: Result<Settled, LinkError>) {
        if !self.net.settling.remove(&(client, id)) {
            return;
        }
        trace!(self, "client {client} {id:?} settled: {result:?}");
        let now = self.local(client);
        self.clients[client].session.handle_settled(now, id, result);
        self.look_after(client);
    }

    fn probed(&mut self, client: usize, id: CallId, answered: bool) {
        if !self.net.settling.remove(&(client, id)) {
            return;
        }
        trace!(self, "client {client} {id:?} probed: {answered}");
        let now = self.local(client);
        let result = if answered { Ok(()) } else { Err(LinkError::Unknown("not answered".to_owned())) };
        self.clients[client].session.handle_probed(now, id, result);
        self.look_after(client);
    }

    pub(crate) fn event(&mut self, client: usize, event: LinkEvent) {
        trace!(self, "client {client} link: {event:?}");
        self.stats.digest.record((self.now, client, "link", discriminant(&event)));
        let now = self.local(client);
        self.clients[client].session.handle_event(now, event);
        self.look_after(client);
    }

    fn subscription(&mut self, client: usize, channel: Bytes, wanted: bool, life: u64, fate: Result<(), LinkError>) {
        // A command that is lost may have been carried out.
        let done = fate.is_ok() || (matches!(fate, Err(LinkError::Unknown(_))) && self.rng.bool());
        if done && self.net.wires[client].life == life {
            let link = &self.clients[client].notices;
            let channel = channel.clone();
            if wanted { at_once(link.subscribe(channel)) } else { at_once(link.unsubscribe(channel)) }
                .expect("an embedded link can subscribe");
        }
        let delay = self.delay(client);
        self.after(delay, WorldEvent::SubscriptionAnswer { client, channel, wanted, life, result: fate });
    }
}

pub(crate) fn next_event(client: &Client) -> Option<LinkEvent> {
    match pin!(client.notices.event()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(event) => event,
        Poll::Pending => None,
    }
}

fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("an embedded link does not wait"),
    }
}
