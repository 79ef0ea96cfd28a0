//! Hold counts: the server, the client and the guards of a hold agree on how often it is held.

use crate::world::World;
use leasehold_core::time::Instant;
use std::time::Duration;

/// Wants the server to have of every live hold what its guards stand for, where a client has nothing in flight and nothing has gone
/// wrong for it for so long.
pub(crate) fn check(world: &World, fault_free_for: Duration) -> bool {
    let mut compared = false;
    for guard in world.guards.iter().filter(|guard| guard.alive && world.believes(guard)) {
        let client = &world.clients[guard.client];
        if client.paused_until.is_some()
            || client.clock_is_wrong
            || !world.has_been_fault_free(guard.client, fault_free_for)
        {
            continue;
        }
        let flying = client.tasks.iter().any(|task| task.call.is_some());
        if flying || !world.net.is_idle(guard.client) || guard.epoch_of_data != world.server.data_epoch {
            continue;
        }
        let field = &guard.field;
        let guards = world.guards_of(guard.client, guard.hold) + world.detached_of(guard.client, guard.hold);
        if guard.fell_back {
            // The server is asked for one, whatever was entered without it; and for none while it is away or where the hold passes through.
            let has = guard.cell.is_degraded() || world.count_on_server(guard).is_none_or(|count| count > 0);
            assert!(has, "the server has nothing of {field:?}, which was restored");
            continue;
        }
        let expected = guards + client.session.unread_grants(guard.hold);
        if let Some(count) = world.count_on_server(guard) {
            assert!(count as usize == expected, "the server's count of {field:?} is {count}, and not {expected}");
        }
        let count = guard.cell.count();
        assert!(count as usize == expected, "the local count of {field:?} is {count}, and not {expected}");
        compared |= world.last_fault_of(guard.client) > Instant::default();
    }
    compared
}
