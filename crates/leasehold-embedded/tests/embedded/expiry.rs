//! Leases run out by the server's wall clock.

use crate::support::{check, command, eval, server};
use leasehold_core::time::Instant;
use leasehold_embedded::{EmbeddedServer, ServerClock};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const MILLI: Duration = Duration::from_millis(1);

#[test]
fn a_stepped_clock_ends_leases_early_or_late() {
    let (server, clock) = server();
    check(&server, "SET k v PX 30000 => \"OK\"");
    server.step_clock(60_000);
    check(&server, "EXISTS k => 0\nSET k v NX PX 30000 => \"OK\"");
    server.step_clock(-3_600_000);
    check(&server, "PTTL k => 3630000");
    clock.advance(3_630_000 * MILLI);
    assert_eq!(server.wall_millis(), 1_800_000_000_000 + 60_000 - 3_600_000 + 3_630_000);
    check(&server, "EXISTS k => 1");
}

#[test]
fn time_stands_still_while_a_script_runs() {
    // Every look at this clock is a second later.
    let looks = Arc::new(AtomicU64::new(0));
    let server = EmbeddedServer::with_clock(ServerClock::from_fn(move || {
        Instant::from_nanos(looks.fetch_add(1, Ordering::Relaxed) * 1_000_000_000)
    }));
    let source = "
        redis.call('SET', 'k', 'v', 'PX', 50)
        local before = redis.call('TIME')
        local ttl = redis.call('PTTL', 'k')
        local after = redis.call('TIME')
        return {ttl, redis.call('EXISTS', 'k'), after[1] - before[1], after[2] - before[2]}";
    assert_eq!(eval(&server, source), "[50, 1, 0, 0]");
    assert_eq!(command(&server, "EXISTS k"), "0", "the next turn is a second later");
}

#[test]
fn the_machines_clock_moves_by_itself() {
    let server = EmbeddedServer::new();
    assert!(server.wall_millis() > 1_750_000_000_000);
    check(&server, "SET k v PX 1 => \"OK\"");
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while command(&server, "EXISTS k") == "1" {
        assert!(std::time::Instant::now() < deadline, "the key never ends");
        std::thread::yield_now();
    }
}
