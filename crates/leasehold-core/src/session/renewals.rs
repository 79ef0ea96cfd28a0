//! The renewals that are due and those on the way.

use crate::call::Replicas;
use crate::command::Renewed;
use crate::owner::HoldNumber;
use crate::reply::DecodeError;
use crate::reply::Reply;
use crate::session::replicas;
use crate::time::Instant;
use std::collections::BTreeMap;
use std::collections::VecDeque;

/// The renewals that are due.
#[derive(Debug, Default)]
pub(super) struct Renewals {
    /// Due, in the order in which they became so within each group.
    due: BTreeMap<Group, VecDeque<HoldNumber>>,
}

impl Renewals {
    /// Adds a hold whose renewal is due.
    pub(super) fn push(&mut self, group: Group, number: HoldNumber) {
        self.due.entry(group).or_default().push_back(number);
    }

    /// The first group that has room for one more call.
    pub(super) fn next_group(&self, has_room: impl Fn(Option<Replicas>) -> bool) -> Option<Group> {
        self.due.keys().find(|(_, _, replicas)| has_room(*replicas)).copied()
    }

    /// Takes a batch of at most `most` holds out of a group. `permits` says how many permits a hold renews, or `None` where it wants no
    /// renewal any more; together they are not more than `most_permits`, unless it is one hold alone.
    pub(super) fn take(
        &mut self,
        group: Group,
        most: usize,
        most_permits: u32,
        permits: impl Fn(HoldNumber) -> Option<u32>,
    ) -> Vec<HoldNumber> {
        let Some(queue) = self.due.get_mut(&group) else { return Vec::new() };
        let mut batch = Vec::with_capacity(queue.len().min(most));
        let mut in_all = 0;
        while batch.len() < most
            && let Some(number) = queue.front().copied()
        {
            let wanted = permits(number);
            in_all += wanted.unwrap_or_default();
            if in_all > most_permits && !batch.is_empty() {
                break;
            }
            queue.pop_front();
            batch.extend(wanted.map(|_| number));
        }
        if queue.is_empty() {
            self.due.remove(&group);
        }
        batch
    }
}

/// The holds that may be renewed together: by script; by hash slot, because a script may only touch keys of one, where elsewhere than on a
/// cluster all have one number for a slot; and by the replicas that must acknowledge it, because the answer is about all of it.
pub(super) type Group = (&'static str, u16, Option<Replicas>);

/// One renewal on the way.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) sent_at: Instant,
    pub(super) holds: Vec<HoldNumber>,
    pub(super) replicas: Option<Replicas>,
}

impl Batch {
    /// Whether it waits for replicas.
    pub(super) const fn is_durable(&self) -> bool {
        self.replicas.is_some()
    }

    /// The server's answer for each hold, and the number of replicas that acknowledged it, if they were asked.
    pub(super) fn decode(&self, reply: &Reply) -> Result<(Vec<Renewed>, Option<u32>), DecodeError> {
        let (reply, acknowledged) = match self.replicas {
            None => (reply, None),
            Some(_) => replicas::split(reply).map(|(reply, acknowledged)| (reply, Some(acknowledged)))?,
        };
        Ok((Renewed::decode(reply, self.holds.len())?, acknowledged))
    }

    /// The error text if too few replicas acknowledged the renewal.
    pub(super) fn shortfall(&self, acknowledged: Option<u32>) -> Option<String> {
        let wanted = self.replicas?.at_least;
        let count = acknowledged.unwrap_or_default();
        (count < wanted).then(|| format!("{count} replicas acknowledged it, and {wanted} were wanted"))
    }
}
