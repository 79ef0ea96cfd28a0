//! The subscriptions of a server's connections, and their messages.

use super::commands::{error, text};
use super::servers::State;
use super::tally::Happened;
use super::trace::Event;
use bytes::Bytes;
use leasehold_test_support::Resp;
use tokio::time::Instant;

impl State {
    /// Handles a subscription command for a channel.
    pub(super) fn subscribe(&mut self, connection: i64, node: usize, verb: &str, channel: &str) -> Resp {
        let is_sharded = matches!(verb, "SSUBSCRIBE" | "SUNSUBSCRIBE");
        if is_sharded && let Some(elsewhere) = self.elsewhere_sharded(node, channel) {
            return elsewhere;
        }
        let Some(peer) = self.peers.get_mut(&connection) else { return Resp::Nil };
        let entry = (is_sharded, channel.as_bytes().to_vec());
        if verb.contains("UNSUB") {
            peer.channels.remove(&entry);
        } else {
            peer.channels.insert(entry);
            let channel = Bytes::copy_from_slice(channel.as_bytes());
            self.trace.say(Event::Listens { node, connection, channel });
        }
        let count = self.peers.get(&connection).map_or(0, |peer| peer.channels.len());
        Resp::Push(vec![text(verb.to_lowercase()), text(channel), Resp::Int(i64::try_from(count).unwrap_or_default())])
    }

    /// A sharded channel belongs to the node of its slot, even while the slot moves.
    fn elsewhere_sharded(&mut self, node: usize, channel: &str) -> Option<Resp> {
        let slots = self.slots.as_ref()?;
        let slot = leasehold_core::name::slot(channel.as_bytes());
        let owner = slots.owner(slot);
        (owner != node).then(|| error(format!("MOVED {slot} 127.0.0.1:{}", self.nodes[owner].port)))
    }

    /// Sends a message to all subscribers.
    pub(super) fn publish(&mut self, channel: &str) {
        let entry = (self.sharded, channel.as_bytes().to_vec());
        let kind = if self.sharded { "smessage" } else { "message" };
        let message = Resp::Push(vec![text(kind), text(channel), text("0")]).to_wire();
        let at = Instant::now() + self.delay();
        let mut receivers = 0;
        for peer in self.peers.values_mut().filter(|peer| peer.channels.contains(&entry)) {
            receivers += 1;
            peer.reply(at, message.clone());
        }
        self.trace.say(Event::Published { channel: Bytes::copy_from_slice(channel.as_bytes()), receivers });
    }

    /// Ends the sharded subscriptions of a slot that left the node.
    pub(super) fn drop_sharded(&mut self, slot: u16, node: usize) {
        let now = Instant::now();
        for peer in self.peers.values_mut().filter(|peer| peer.node == node) {
            let (gone, kept) = std::mem::take(&mut peer.channels)
                .into_iter()
                .partition(|(sharded, channel)| *sharded && leasehold_core::name::slot(channel) == slot);
            peer.channels = kept;
            let left = i64::try_from(peer.channels.len()).unwrap_or_default();
            for (_, channel) in gone {
                self.tally.note(Happened::ShardedSubscriptionDropped);
                let told = Resp::Push(vec![text("sunsubscribe"), Resp::Bulk(channel), Resp::Int(left)]);
                peer.reply(now, told.to_wire());
            }
        }
    }
}
