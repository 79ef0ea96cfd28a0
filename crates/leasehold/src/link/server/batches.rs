//! Group commit: queued calls for one connection leave as one script.
//!
//! A few calls at a time are direct: they bypass the queue. The link queues further calls, and all calls while many are in flight. The
//! [sender](super::sender) is a task that sends the queue as one [batch](leasehold_core::batch), delivers the
//! replies, and repeats. No call overtakes the queue. On a cluster each hash slot has its own line, because the keys of a script must share
//! a slot.
//!
//! Batches keep the guarantees of single calls:
//!
//! - **A call is sent once.** A batch that the server refused as a whole changed nothing, and the link sends each of its calls
//!   [alone](super::call). A batch without a reply leaves the outcome of all its calls unknown.
//! - **Settling** removes all queued calls from the line, unsent. The raised send barrier also stops a batch that is not on the connection yet.
//!   Without a cluster all keys share one line, and settle together.

mod line;

use super::error::{self, Redirect};
use super::settings::Batching;
use super::shared::Role;
use leasehold_core::batch::BatchScript;
use leasehold_core::call::Call;
use leasehold_core::link::{LinkError, ServerError};
use leasehold_core::reply::Reply;
use line::Line;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Maximum number of senders of a line at a fast server: one prepares a batch while the server executes the other's. At a slow server each
/// queued call may start a sender.
const SENDERS: usize = 2;

/// Pause of batches after a server refused one for a missing right to a key.
const PAUSE: Duration = Duration::from_secs(10);

/// A pool's queued and direct calls.
pub(super) struct Batches {
    /// `None` if all calls are direct.
    batching: Option<Batching>,
    state: Mutex<State>,
    /// Wakes the watch over senders at home.
    watch: Arc<Notify>,
    is_watched: AtomicBool,
}

#[derive(Default)]
struct State {
    /// By hash slot on a cluster; a single line otherwise. Idle lines are removed.
    lines: HashMap<u16, Line>,
    script: BatchScript,
    pace: Pace,
    /// The shortest time from sending a batch to its reply.
    fastest: Option<Duration>,
    paused_until: Option<Instant>,
}

/// A call in the line.
pub(super) struct Queued {
    pub(super) call: Call,
    pub(super) weight: u32,
    pub(super) answer: OnAnswer,
}

/// Receives the outcome of a queued call. A drop reports that the sending task was dropped.
pub(super) struct OnAnswer(Option<Box<dyn FnOnce(Answer) + Send>>);

impl OnAnswer {
    pub(super) fn new(answer: impl FnOnce(Answer) + Send + 'static) -> Self {
        Self(Some(Box::new(answer)))
    }

    fn answer(mut self, answer: Answer) {
        if let Some(take) = self.0.take() {
            take(answer);
        }
    }
}

impl Drop for OnAnswer {
    fn drop(&mut self) {
        if let Some(answer) = self.0.take() {
            answer(Answer::Done(Err(LinkError::Unknown(
                "the task that sent the call was dropped with its runtime".to_owned(),
            ))));
        }
    }
}

/// How fast the server replied to the last batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pace {
    /// Fast: later calls wait for the reply and form a larger batch.
    Quick,
    /// Slow: waiting for the reply costs more than it saves. Assumed before the first reply.
    #[default]
    Slow,
}

/// The way of a call to the server.
pub(super) enum Way {
    /// The caller sends the call. The named line counts it until [`Batches::come_back`].
    Direct(Call, Option<LineId>),
    /// A sender sends the call and delivers the outcome. The caller must start another sender for the named line.
    Queued(Option<LineId>),
}

/// The outcome of a queued call.
#[derive(Debug)]
pub(super) enum Answer {
    /// The reply, or the error.
    Done(Result<Reply, LinkError>),
    /// The server refused the command, which changed nothing. The call may be sent alone.
    Refused(Call, Refusal),
}

/// A server's refusal of a command that changed nothing.
#[derive(Clone, Debug)]
pub(super) enum Refusal {
    /// The server refused the call.
    OfCall(ServerError),
    /// The server refused the call's batch.
    OfBatch(ServerError),
}

impl Queued {
    /// Delivers the outcome.
    pub(super) fn done(self, result: Result<Reply, LinkError>) {
        self.answer.answer(Answer::Done(result));
    }

    /// Delivers an error.
    pub(super) fn fail(self, error: LinkError) {
        self.done(Err(error));
    }

    /// Returns the call, to be sent alone.
    pub(super) fn refuse(self, refusal: Refusal) {
        self.answer.answer(Answer::Refused(self.call, refusal));
    }
}

impl Pace {
    /// How many senders a line may have.
    const fn senders(self) -> usize {
        match self {
            Self::Quick => SENDERS,
            Self::Slow => usize::MAX,
        }
    }
}

impl Refusal {
    /// The error reply.
    pub(super) fn into_inner(self) -> ServerError {
        let (Self::OfCall(refusal) | Self::OfBatch(refusal)) = self;
        refusal
    }

    /// The redirection, if the refusal is one.
    pub(super) fn redirect(&self) -> Option<Redirect> {
        let (Self::OfCall(refusal) | Self::OfBatch(refusal)) = self;
        error::redirect(refusal)
    }
}

/// A line: the hash slot of its calls on a cluster, and 0 elsewhere.
pub(super) type LineId = u16;

impl Batches {
    /// Creates empty lines.
    pub(super) fn new(batching: Option<Batching>, role: Role) -> Self {
        Self {
            batching: batching.filter(|_| role == Role::Calls),
            state: Mutex::default(),
            watch: Arc::default(),
            is_watched: AtomicBool::new(false),
        }
    }

    /// Queues a call in its line, with `answer`, or returns it for direct sending. Direct if `may_queue` is false.
    pub(super) fn way(
        &self,
        id: LineId,
        call: Call,
        answer: impl FnOnce() -> OnAnswer,
        may_queue: impl FnOnce() -> bool,
    ) -> Way {
        let (Some(batching), Some(weight)) = (self.batching, call.script().weight()) else {
            return Way::Direct(call, None);
        };
        let mut state = self.state.lock();
        if state.paused_until.is_some_and(|until| Instant::now() < until) {
            return Way::Direct(call, None);
        }
        let most = state.pace.senders();
        let line = state.lines.entry(id).or_default();
        // The send barrier refuses a call that may not be queued.
        if line.has_room(batching.direct) || !may_queue() {
            line.go_out();
            return Way::Direct(call, Some(id));
        }
        line.push(Queued { call, weight, answer: answer() });
        Way::Queued(line.wants_sender(most).then_some(id))
    }

    /// Records the end of a direct call.
    pub(super) fn come_back(&self, id: LineId) {
        self.with_line(id, Line::come_back);
    }

    /// Removes a line's calls unsent. `raise` raises the send barrier under the same lock.
    pub(super) fn settle(&self, id: LineId, raise: impl FnOnce()) {
        let mut state = self.state.lock();
        raise();
        let settled = state.lines.get_mut(&id).map(Line::take_queued);
        drop(state);
        for queued in settled.into_iter().flatten() {
            queued.fail(LinkError::NotSent("it was settled meanwhile".to_owned()));
        }
    }

    /// Takes a line's next calls, and runs `look` under the same lock. Without calls the sender must end.
    pub(super) fn take<T>(
        &self,
        id: LineId,
        is_replacement: bool,
        look: impl FnOnce() -> T,
    ) -> Option<(T, Vec<Queued>)> {
        let (seen, taken) = self.with_line(id, |line| (look(), line.take(is_replacement)))?;
        Some((seen, taken?))
    }

    /// Records that the taken calls are on the connection. Returns whether to start another sender.
    pub(super) fn wrote(&self, id: LineId) -> bool {
        let most = self.state.lock().pace.senders();
        let wants_sender = |line: &mut Line| {
            line.wrote();
            line.wants_sender(most)
        };
        self.with_line(id, wants_sender) == Some(true)
    }

    /// Records the end of a batch of `calls` calls.
    pub(super) fn landed(&self, id: LineId, calls: usize) {
        self.with_line(id, |line| line.land(calls));
    }

    /// Begins the watch, because a sender starts at home.
    pub(super) fn watch(&self) {
        if !self.is_watched.swap(true, Ordering::AcqRel) {
            self.watch.notify_one();
        }
    }

    /// Wakes when a watch begins.
    pub(super) fn watch_begins(&self) -> Arc<Notify> {
        Arc::clone(&self.watch)
    }

    /// The lines for which the caller must start a sender, in place of a stalled one. Returns `None`, and ends the watch, if there are no senders.
    pub(super) fn stalled(&self) -> Option<Vec<LineId>> {
        let mut state = self.state.lock();
        if !state.lines.values().any(Line::has_senders) {
            self.is_watched.store(false, Ordering::Release);
            return None;
        }
        let lines = state.lines.iter_mut();
        Some(lines.filter_map(|(id, line)| line.wants_replacement().then_some(*id)).collect())
    }

    /// Records how long the reply to a batch took.
    pub(super) fn answered_after(&self, took: Duration) {
        let Some(batching) = self.batching else { return };
        let mut state = self.state.lock();
        let fastest = state.fastest.map_or(took, |fastest| fastest.min(took));
        state.fastest = Some(fastest);
        state.pace = if fastest < batching.near && took < batching.quick { Pace::Quick } else { Pace::Slow };
    }

    /// Fails a line's calls after a sender was dropped with its runtime.
    pub(super) fn abandon(&self, id: LineId) {
        for queued in self.with_line(id, Line::abandon).into_iter().flatten() {
            queued
                .fail(LinkError::NotSent("the task that was to send the call was dropped with its runtime".to_owned()));
        }
    }

    /// Builds the batch call for these calls.
    pub(super) fn call_for(&self, calls: &[Queued]) -> Call {
        self.state.lock().script.call(&calls.iter().map(|queued| &queued.call).collect::<Vec<_>>())
    }

    /// Stops batches for [`PAUSE`].
    pub(super) fn pause(&self) {
        self.state.lock().paused_until = Some(Instant::now() + PAUSE);
    }

    fn with_line<T>(&self, id: LineId, change: impl FnOnce(&mut Line) -> T) -> Option<T> {
        let mut state = self.state.lock();
        let line = state.lines.get_mut(&id)?;
        let changed = change(line);
        if line.is_idle() {
            state.lines.remove(&id);
        }
        Some(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::connection::STALL;
    use super::*;
    use bytes::Bytes;
    use leasehold_core::batch::MOST;
    use leasehold_core::script::RELEASE;

    const SETTINGS: Batching =
        Batching { direct: 2, near: Duration::from_micros(300), quick: Duration::from_millis(3) };

    fn batches(direct: usize) -> Batches {
        Batches::new(Some(Batching { direct, ..SETTINGS }), Role::Calls)
    }

    fn release() -> Call {
        let words = |words: &[&'static str]| words.iter().map(|word| Bytes::from_static(word.as_bytes())).collect();
        Call::new(&RELEASE, words(RELEASE.keys()), words(RELEASE.args()))
    }

    fn way(batches: &Batches, line: LineId) -> Way {
        batches.way(line, release(), || OnAnswer::new(drop), || true)
    }

    /// Queues a call. The answer is whether another sender is to be started.
    fn queue(batches: &Batches, line: LineId) -> bool {
        let Way::Queued(wants_sender) = way(batches, line) else { panic!("it is queued") };
        wants_sender.is_some()
    }

    /// A sender takes what is queued, and writes it.
    fn take(batches: &Batches, line: LineId) -> Vec<Queued> {
        let ((), taken) = batches.take(line, false, || ()).expect("calls");
        batches.wrote(line);
        taken
    }

    /// How many senders are started for calls that come one after the other and are not answered.
    fn senders(batches: &Batches, line: LineId) -> usize {
        let mut unanswered = Vec::new();
        for _ in 0..5 {
            if queue(batches, line) {
                unanswered.push(take(batches, line));
            }
        }
        unanswered.len()
    }

    #[test]
    fn calls_wait_for_batches_of_a_near_server_only() {
        let batches = batches(0);
        let mut senders = (1..).map(|line| senders(&batches, line));
        let mut senders_after = |micros| {
            batches.answered_after(Duration::from_micros(micros));
            senders.next().expect("a number")
        };
        assert_eq!(senders_after(1_000), 5, "the server may be far away");
        assert_eq!(senders_after(200), 2, "it is near");
        assert_eq!(senders_after(1_000), 2, "it is near, and busy");
        assert_eq!(senders_after(3_000), 5, "the wait would be long");
    }

    #[test]
    fn a_full_batch_gets_a_sender_of_its_own() {
        let batches = batches(0);
        batches.answered_after(Duration::from_micros(200));
        let _unanswered = [(); 2].map(|()| queue(&batches, 1).then(|| take(&batches, 1)).expect("a sender"));
        let started = (1..=64).find(|_| queue(&batches, 1));
        assert_eq!(started, Some(64));
    }

    #[test]
    fn call_that_may_not_be_queued_goes_by_itself() {
        let batches = batches(0);
        assert!(matches!(batches.way(1, release(), || OnAnswer::new(drop), || false), Way::Direct(..)));
        assert!(matches!(way(&batches, 1), Way::Queued(_)));
    }

    /// Whether a call goes out by itself.
    fn goes_out(batches: &Batches) -> bool {
        matches!(way(batches, 1), Way::Direct(_, Some(1)))
    }

    /// So many calls that were out by themselves are back.
    fn come_back(batches: &Batches, calls: usize) {
        (0..calls).for_each(|_| batches.come_back(1));
    }

    #[test]
    fn calls_go_by_themselves_while_few_are_under_way() {
        let batches = batches(SETTINGS.direct);
        assert!(goes_out(&batches) && goes_out(&batches), "there is room");
        assert!(queue(&batches, 1), "two are out");
        let few = take(&batches, 1);
        come_back(&batches, 2);
        assert!(goes_out(&batches), "one is under way");
        come_back(&batches, 1);
        assert!(goes_out(&batches) && goes_out(&batches), "there is room");
        for place in 0..5 {
            assert_eq!(queue(&batches, 1), place == 0);
        }
        let many = take(&batches, 1);
        batches.landed(1, few.len());
        come_back(&batches, 2);
        assert!(!goes_out(&batches), "five are under way");
        let more = take(&batches, 1);
        batches.landed(1, many.len() + more.len());
        assert!(goes_out(&batches), "none is under way");
    }

    #[test]
    fn calls_queued_beyond_a_full_batch_go_by_the_next_one() {
        let batches = batches(0);
        for _ in 0..150 {
            queue(&batches, 1);
        }
        let taken = [(); 3].map(|()| take(&batches, 1).len());
        let most = usize::try_from(MOST / RELEASE.weight().expect("a weight")).expect("a number");
        assert_eq!(taken, [most, most, 150 - 2 * most]);
        assert!(batches.take(1, false, || ()).is_none());
    }

    #[test]
    fn call_that_comes_while_taken_calls_are_not_written_is_queued() {
        let batches = batches(SETTINGS.direct);
        assert!(goes_out(&batches) && goes_out(&batches), "there is room");
        queue(&batches, 1);
        come_back(&batches, 2);
        assert!(!goes_out(&batches), "it would overtake the queue");
        let ((), taken) = batches.take(1, false, || ()).expect("calls");
        assert!(!goes_out(&batches), "it would overtake what was taken");
        batches.wrote(1);
        batches.landed(1, taken.len() + take(&batches, 1).len());
        assert!(goes_out(&batches), "nothing is in front of it");
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_sender_is_replaced_until_it_begins() {
        let batches = batches(0);
        assert!(queue(&batches, 1), "a sender starts");
        assert_eq!(batches.stalled(), Some(vec![]), "it has time to begin");
        for _ in 0..3 {
            tokio::time::advance(STALL).await;
            assert_eq!(batches.stalled(), Some(vec![1]));
            let ((), taken) = batches.take(1, true, || ()).expect("calls");
            assert!(taken.len() == 1 && !batches.wrote(1));
            assert!(batches.take(1, true, || ()).is_none(), "the replacement ends");
            assert!(!queue(&batches, 1), "no sender starts where one is stalled");
        }
        assert_eq!(take(&batches, 1).len(), 1, "the first sender begins");
        assert!(batches.take(1, false, || ()).is_none());
        assert_eq!(batches.stalled(), None, "the watch ends");
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_sender_leaves_its_calls_to_a_replacement() {
        let batches = batches(0);
        assert!(queue(&batches, 1), "a sender starts");
        tokio::time::advance(STALL).await;
        assert_eq!(batches.stalled(), Some(vec![1]));
        batches.abandon(1);
        assert_eq!(batches.take(1, true, || ()).expect("calls").1.len(), 1);
    }
}
