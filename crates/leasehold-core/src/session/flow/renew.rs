//! The watchdog's decisions: which holds are renewed when, in which batches, and what the replies mean.

use crate::call::{Call, Replicas};
use crate::command::permits::MAX_AT_ONCE;
use crate::command::{Renewal, Renewed};
use crate::error::LossReason;
use crate::link::LinkError;
use crate::name;
use crate::owner::HoldNumber;
use crate::reply::Reply;
use crate::session::Event;
use crate::session::hold::Hold;
use crate::session::parts::Parts;
use crate::session::pending::{Batch, Purpose};
use crate::session::renewals::Sharing;
use crate::time::Instant;
use std::time::Duration;

/// The next step after an answered renewal of a hold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    AsPlanned,
    /// It is repeated soon.
    Again,
}

impl Parts {
    /// Sets the next renewal of a hold: a third of the lease from now, less up to a fifth of that, so that the renewals of a
    /// fleet drift apart. Instants are rounded down to a sixty-fourth of the period, so that those of one client meet in
    /// batches.
    pub(super) fn schedule_renewal(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.known(number) else { return };
        let mut period = hold.lease() / 3;
        // A reader of a JVM sets the key's time to live when it renews, and may die after that.
        let shares = self.locks[hold.lock()].protocol().shares_key();
        let reasserts = shares && period * 3 > self.settings.jvm_watchdog / 3;
        if shares {
            period = period.min(self.settings.jvm_watchdog / 3);
        }
        let at = now + period - self.jitter(period / 5);
        if let Some(hold) = self.holds.known_mut(number) {
            hold.plan_renewal(now, at, period / 64, reasserts);
        }
    }

    fn verify_hold(&mut self, number: HoldNumber, at: Instant) {
        let Some(hold) = self.holds.known_mut(number) else { return };
        hold.look_by(at);
        self.set_hold_timer(number);
    }

    /// Repeats a renewal that failed for these holds, soon enough to try several times while the leases last. They stay together, and
    /// come upon others that failed: what was one batch is one batch in its next try, too.
    fn retry_renewals(&mut self, now: Instant, numbers: &[HoldNumber]) {
        let holds = numbers.iter().filter_map(|number| self.holds.get(*number));
        // If the server's clock was put back, far more is left than was asked for.
        let Some(left) = holds.map(|hold| hold.cell().deadline().since(now).min(hold.lease())).min() else { return };
        let pause = (left / 8).clamp(Duration::from_millis(20), Duration::from_secs(1));
        let at = now + pause / 2 + self.jitter(pause / 2);
        let slot = u64::try_from((pause / 8).as_nanos()).unwrap_or(u64::MAX).next_power_of_two() / 2;
        let at = Instant::from_nanos(at.as_nanos().div_ceil(slot) * slot);
        for number in numbers {
            if let Some(hold) = self.holds.get_mut(*number) {
                hold.retry_renewal(at);
            }
            self.set_hold_timer(*number);
        }
    }

    /// Puts a hold whose renewal is due among those that go out next.
    pub(super) fn queue_renewal(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.known_mut(number) else { return };
        if !hold.take_due_renewal(now) {
            return;
        }
        let by_slot = self.settings.cluster || self.renewals.sharing() != Sharing::All;
        let slot = if by_slot { name::slot(self.locks[hold.lock()].name().key()) } else { 0 };
        let Some(script) = self.locks[hold.lock()].protocol().renewal() else { return };
        let replicas = hold.replicas_of_renewal();
        self.renewals.push((script.name(), slot, replicas), number);
    }

    /// Sends what is due, as far as there is room. A renewal that waits for replicas may take long, and takes no room from the others.
    pub(super) fn send_renewals(&mut self, now: Instant) {
        loop {
            let Some(group) = self.renewals.next_group(|durable| self.pending.renewals(durable)) else { return };
            let permits = |number: HoldNumber| {
                let hold = self.holds.get(number).filter(|hold| hold.wants_renewal())?;
                Some(hold.cell().permits())
            };
            // The server works on each permit by itself, and serves no other client meanwhile.
            let batch = self.renewals.take(group, self.settings.renew_batch, MAX_AT_ONCE, permits);
            if !batch.is_empty() {
                self.send_batch(now, batch, group.2);
            }
        }
    }

    fn send_batch(&mut self, now: Instant, batch: Vec<HoldNumber>, replicas: Option<Replicas>) {
        for number in &batch {
            if let Some(hold) = self.holds.known_mut(*number) {
                hold.begin_renewal();
            }
        }
        let mut renewal = Renewal { publish: self.settings.publish.clone(), ..Renewal::default() };
        let mut script = None;
        for number in &batch {
            let Some(hold) = self.holds.known(*number) else { continue };
            let lock = &self.locks[hold.lock()];
            let lease = hold.lease_of_renewal(now);
            let protocol = lock.protocol();
            script = script.or_else(|| protocol.renewal());
            protocol.renew(&mut renewal, lock.name(), lock.keys(), &hold.key(), lease);
        }
        let Some(script) = script else { return };
        let call = Call::new(script, renewal.keys, renewal.args).with_replicas(replicas);
        self.send_by_background(now, call, Purpose::Renewal(Batch::new(now, batch, replicas)));
    }

    /// Has every hold renewed at once, spread over a moment: what the server had may be gone.
    pub(super) fn renew_all(&mut self, now: Instant) {
        let mut live: Vec<_> = self.holds.iter().filter(|(_, hold)| hold.is_live()).map(|(number, _)| number).collect();
        live.sort_unstable();
        // Together, as far as a batch goes: where each has an instant of its own, each is a batch of its own.
        let batch = u32::try_from(self.settings.renew_batch).unwrap_or(u32::MAX);
        let most = Duration::from_secs(1);
        for (index, batch_of) in (0_u32..).zip(live.chunks(self.settings.renew_batch.max(1))) {
            let at = now + Duration::from_micros(50).saturating_mul(batch.saturating_mul(index)).min(most);
            batch_of.iter().for_each(|number| self.verify_hold(*number, at));
        }
    }

    /// See [`Session::look_again`](crate::session::Session::look_again).
    pub(crate) fn look_again(&mut self, now: Instant, name: &str) {
        let mut live: Vec<_> = self
            .holds
            .iter()
            .filter(|(_, hold)| hold.is_live() && self.locks[hold.lock()].name().as_str() == name)
            .map(|(number, _)| number)
            .collect();
        live.sort_unstable();
        for number in live {
            self.verify_hold(number, now);
        }
    }

    fn hold_renewed(
        &mut self,
        now: Instant,
        sent_at: Instant,
        number: HoldNumber,
        outcome: Renewed,
        acknowledged: Option<u32>,
    ) -> Next {
        let counts = self.protocol_of(number).counts();
        self.extend_clean_up(now, number);
        let Some(hold) = self.holds.get_mut(number) else { return Next::AsPlanned };
        let window = hold.end_renewal(outcome != Renewed::Refused).filter(|_| counts);
        if !hold.is_live() {
            // It may be forgotten now.
            self.reconcile(now, number);
            return Next::AsPlanned;
        }
        if hold.has_passed(now) {
            self.lose_by_deadline(now, number);
            return Next::AsPlanned;
        }
        match outcome {
            Renewed::Held { count, left } => {
                if window.is_some_and(|window| !window.has(count)) {
                    self.lose(now, number, LossReason::CountMismatch);
                    return Next::AsPlanned;
                }
                if !hold.observe_reply(now, sent_at, left) {
                    self.lose_by_deadline(now, number);
                    return Next::AsPlanned;
                }
                let enough = |replicas: Replicas| acknowledged.is_some_and(|count| count >= replicas.at_least);
                if !hold.replicas().is_none_or(enough) {
                    // A failover could undo it: the deadline is put off by acknowledged renewals alone.
                    return Next::Again;
                }
                if !hold.extend(sent_at, left) {
                    self.lose_by_deadline(now, number);
                    return Next::AsPlanned;
                }
                hold.note_acknowledged(acknowledged);
                hold.forget_refusal();
                self.schedule_renewal(now, number);
                self.set_hold_timer(number);
            }
            Renewed::Gone => self.lose(now, number, LossReason::Removed),
            Renewed::Refused => return Next::Again,
        }
        Next::AsPlanned
    }

    /// The server, or a proxy in front of it, refused to renew these holds in one command, and renewed none. Retries at
    /// once with smaller groups. Returns false for a single hold.
    fn part_renewals(&mut self, now: Instant, numbers: &[HoldNumber]) -> bool {
        if numbers.len() < 2 {
            return false;
        }
        let (holds, locks) = (&self.holds, &self.locks);
        let slot = |number: HoldNumber| holds.get(number).map_or(0, |hold| name::slot(locks[hold.lock()].name().key()));
        let of_one_slot = numbers.iter().all(|number| slot(*number) == slot(numbers[0]));
        self.renewals.narrow(if of_one_slot { Sharing::None } else { Sharing::Slot }, slot);
        for number in numbers {
            if let Some(hold) = self.holds.get_mut(*number) {
                hold.end_renewal(false);
                hold.retry_renewal(now);
            }
            self.set_hold_timer(*number);
        }
        true
    }

    /// Records for each hold that the server refused its command. Returns whether that is new for any hold.
    fn note_refusal_of(&mut self, numbers: &[HoldNumber]) -> bool {
        let news = |number: &HoldNumber| self.holds.get_mut(*number).is_some_and(Hold::note_refusal);
        // `fold`, not `any`: every hold must be recorded.
        numbers.iter().map(news).fold(false, |any, news| any | news)
    }

    /// Takes the outcome of a renewal.
    pub(super) fn handle_renewed(&mut self, now: Instant, batch: Batch, result: Result<Reply, LinkError>) {
        if !batch.is_durable() {
            let is_answered = matches!(&result, Ok(_) | Err(LinkError::Refused(_)));
            self.renewals.ended(is_answered.then(|| now.since(batch.sent_at())));
        }
        let is_parted = matches!(&result, Err(LinkError::Refused(refusal)) if refusal.is_of_several_slots());
        if is_parted && self.part_renewals(now, batch.holds()) {
            self.send_renewals(now);
            return;
        }
        let decoded = match result {
            Ok(reply) => batch.decode(&reply).map_err(|error| (error.to_string(), true)),
            Err(error) => Err((error.to_string(), error.is_lasting())),
        };
        match decoded {
            Ok((outcomes, acknowledged)) => {
                let holds = batch.holds().len();
                let cells = || batch.holds().iter().filter_map(|number| Some(self.holds.get(*number)?.cell()));
                let left = cells().map(|cell| cell.deadline().since(now)).min().unwrap_or_default();
                let oldest = cells().map(|cell| now.since(cell.acquired_at())).max().unwrap_or_default();
                let event = match batch.shortfall(acknowledged) {
                    None => Event::Renewed { holds, left, oldest },
                    Some(why) => Event::RenewalFailed { holds, why, lasting: self.note_refusal_of(batch.holds()) },
                };
                self.out.tell(event);
                let mut again = Vec::new();
                for (number, outcome) in batch.holds().iter().copied().zip(outcomes) {
                    if self.hold_renewed(now, batch.sent_at(), number, outcome, acknowledged) == Next::Again {
                        again.push(number);
                    }
                }
                self.retry_renewals(now, &again);
            }
            Err((why, lasting)) => {
                let lasting = lasting && self.note_refusal_of(batch.holds());
                self.out.tell(Event::RenewalFailed { holds: batch.holds().len(), why, lasting });
                for number in batch.holds() {
                    if let Some(hold) = self.holds.get_mut(*number) {
                        hold.end_renewal(false);
                    }
                    // The server may have applied it just now.
                    self.extend_clean_up(now, *number);
                }
                self.retry_renewals(now, batch.holds());
            }
        }
        self.send_renewals(now);
    }

    /// A grant of permits tells how many the server knows to be held. If this client alone believes in more, some of its holds are gone:
    /// the server is asked at once which. Holds whose last reply came after the grant was asked for do not count, as above.
    pub(super) fn look_where_permits_are_missing(
        &mut self,
        now: Instant,
        number: HoldNumber,
        sent_at: Instant,
        in_all: Option<u64>,
    ) {
        let (Some(in_all), Some(lock)) = (in_all, self.holds.get(number).map(|hold| hold.lock())) else { return };
        if self.locks[lock].permits() <= in_all {
            return;
        }
        let counts = |other: &HoldNumber, hold: &Hold| {
            let certain = hold.is_disproved_by(sent_at);
            hold.lock() == lock && (*other == number || certain)
        };
        let believed = self.holds.iter().filter(|(other, hold)| counts(other, hold));
        let believed: u64 = believed.map(|(_, hold)| hold.permits()).sum();
        if believed > in_all {
            let name = self.locks[lock].name().clone();
            self.look_again(now, name.as_str());
        }
    }
}
