//! The names of metrics, spans and labels, with units and descriptions.

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram};

/// Counts acquires by `class` and `outcome`: `acquired`, `busy`, `wait_elapsed`, `cancelled` or `failed`.
pub const ACQUIRE_TOTAL: &str = "leasehold_acquire_total";
/// Seconds from the first poll of an acquire to its guard, by `class`.
pub const ACQUIRE_SECONDS: &str = "leasehold_acquire_seconds";
/// Counts acquires by hand-over from another task of the client, by `class`. [`ACQUIRE_TOTAL`] also counts them, as `acquired`.
pub const HANDED_ON_TOTAL: &str = "leasehold_handed_on_total";
/// Number of running acquires, by `class`.
pub const WAITING: &str = "leasehold_waiting";
/// Number of existing guards, by `class`.
pub const HELD: &str = "leasehold_held";
/// Seconds from a guard's grant to its end, by `class`.
pub const HOLD_SECONDS: &str = "leasehold_hold_seconds";
/// Counts releases by `class` and `outcome`: `released`, `lost`, `failed`, `dropped` or `detached`.
pub const RELEASE_TOTAL: &str = "leasehold_release_total";
/// Counts lost holds by `class` and `reason` ([`LossReason::as_str`](crate::LossReason::as_str)).
pub const LOST_TOTAL: &str = "leasehold_lost_total";
/// Counts renewals by `outcome`: `renewed` or `failed`.
pub const RENEW_TOTAL: &str = "leasehold_renew_total";
/// Counts the holds in renewals with a reply.
pub const RENEWED_HOLDS_TOTAL: &str = "leasehold_renewed_holds_total";
/// Seconds from a renewal to the earliest deadline in its batch. Usually two thirds of the lease; near 0 a loss is imminent.
pub const RENEWAL_LEFT_SECONDS: &str = "leasehold_renewal_left_seconds";
/// Age in seconds of the oldest hold in a renewed batch.
pub const OLDEST_HOLD_SECONDS: &str = "leasehold_oldest_hold_seconds";
/// Counts waiters whose future was not polled in time for its turn.
pub const UNPOLLED_TURNS_TOTAL: &str = "leasehold_unpolled_turns_total";
/// Counts waiters of fair locks that lost their place in the queue and rejoined at the tail.
pub const QUEUE_POSITIONS_LOST_TOTAL: &str = "leasehold_queue_positions_lost_total";
/// Counts locks without a time to live that block a caller: no lease ends them.
pub const ENDLESS_TOTAL: &str = "leasehold_endless_total";
/// Counts panics of a client's background. Each is a bug of leasehold, and loses all locks of the client.
pub const BUG_TOTAL: &str = "leasehold_bug_total";
/// Counts missing semaphores that block a caller: they were never set, or were deleted.
pub const UNSET_TOTAL: &str = "leasehold_unset_total";
/// Counts by `event` locks granted without the server (`degraded`) and locks restored afterwards (`restored`).
pub const FALLBACK_TOTAL: &str = "leasehold_fallback_total";
/// Counts cleanups by the background by `outcome`: `done`, or `failed` and retried.
pub const CLEAN_UP_TOTAL: &str = "leasehold_clean_up_total";
/// Number of clients of this process whose background is connected to a server, by `server`, its address. At 0 the server is unreachable, or
/// the clients have ended.
pub const CONNECTED: &str = "leasehold_connected";
/// Counts reconnects of backgrounds.
pub const RECONNECTS_TOTAL: &str = "leasehold_reconnects_total";
/// Counts clients that found an eviction policy other than `noeviction`.
pub const EVICTION_TOTAL: &str = "leasehold_eviction_policy_total";
/// Counts caught panics of the application's code by `code`: `waker` or `telemetry`.
pub const USER_CODE_PANIC_TOTAL: &str = "leasehold_user_code_panic_total";

/// Upper bounds of buckets, in seconds, for [`ACQUIRE_SECONDS`], [`HOLD_SECONDS`], [`RENEWAL_LEFT_SECONDS`] and [`OLDEST_HOLD_SECONDS`], from an
/// uncontended acquire to an hour of work.
///
/// Pass them to the exporter. Without buckets, exporters such as the Prometheus exporter turn histograms into summaries, which cannot be aggregated over
/// processes:
/// `PrometheusBuilder::set_buckets_for_metric(Matcher::Full(ACQUIRE_SECONDS.to_owned()), &BUCKETS_SECONDS)`.
pub const BUCKETS_SECONDS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 5.0, 15.0, 60.0, 600.0, 3600.0];

/// The span of an acquire.
pub const SPAN_ACQUIRE: &str = "leasehold.acquire";
/// The span of work that runs under a guard.
pub const SPAN_HOLD: &str = "leasehold.hold";
/// The span of a release.
pub const SPAN_RELEASE: &str = "leasehold.release";

/// The default class of a lock.
pub const DEFAULT_CLASS: &str = "default";

/// Sets the unit and the description of each metric, and registers every series without a class, at 0.
pub(super) fn describe() {
    for (name, help) in [
        (ACQUIRE_TOTAL, "Finished acquires"),
        (HANDED_ON_TOTAL, "Acquires by hand-over from another task of the client"),
        (RELEASE_TOTAL, "Finished releases, and dropped or detached guards"),
        (LOST_TOTAL, "Lost holds"),
    ] {
        describe_counter!(name, Unit::Count, help);
    }
    for (name, help) in [
        (RENEWED_HOLDS_TOTAL, "Holds in renewals with a reply"),
        (UNPOLLED_TURNS_TOTAL, "Waiters that were not polled in time for their turn"),
        (QUEUE_POSITIONS_LOST_TOTAL, "Waiters of fair locks that lost their place in the queue"),
        (ENDLESS_TOTAL, "Locks without a time to live that block a caller"),
        (UNSET_TOTAL, "Missing semaphores that block a caller"),
        (BUG_TOTAL, "Panics of a client's background, which lose all its locks"),
        (RECONNECTS_TOTAL, "Reconnects of backgrounds"),
        (EVICTION_TOTAL, "Clients whose server has a policy that can evict a held lock"),
    ] {
        describe_counter!(name, Unit::Count, help);
        drop(counter!(name));
    }
    for (name, help, label, words) in [
        (RENEW_TOTAL, "Renewals, one for each batch", "outcome", ["renewed", "failed"]),
        (CLEAN_UP_TOTAL, "Cleanups by the background", "outcome", ["done", "failed"]),
        (
            FALLBACK_TOTAL,
            "Locks granted without the server, and locks restored afterwards",
            "event",
            ["degraded", "restored"],
        ),
        (USER_CODE_PANIC_TOTAL, "Caught panics of the application's code", "code", ["waker", "telemetry"]),
    ] {
        describe_counter!(name, Unit::Count, help);
        words.iter().for_each(|word| drop(counter!(name, label => *word)));
    }
    for (name, help) in [
        (ACQUIRE_SECONDS, "From the first poll of an acquire to its guard"),
        (HOLD_SECONDS, "From a grant to the guard's end"),
        (OLDEST_HOLD_SECONDS, "Age of the oldest hold in a renewed batch"),
        (RENEWAL_LEFT_SECONDS, "Time from a renewal to the earliest deadline in its batch"),
    ] {
        describe_histogram!(name, Unit::Seconds, help);
    }
    describe_gauge!(WAITING, Unit::Count, "Running acquires");
    describe_gauge!(CONNECTED, Unit::Count, "Clients whose background is connected to the server");
    describe_gauge!(HELD, Unit::Count, "Existing guards");
}
