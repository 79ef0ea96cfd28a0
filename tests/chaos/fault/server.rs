//! The faults by which one server loses some of what it has confirmed.

use super::tell;
use fastrand::Rng;
use leasehold_test_support::{Server, WallClock};
use std::fs::{File, OpenOptions};
use std::path::PathBuf;
use std::time::Duration;

/// Steps a clock forward or back, and puts it back after a while. Either way leases are shorter than they were promised to be, once.
pub(super) fn step(clock: &WallClock, rng: &mut Rng) -> bool {
    let by = rng.u64(500..5_000);
    let micros = i64::try_from(by * 1_000).unwrap_or_default();
    clock.step_micros(if rng.bool() { micros } else { -micros });
    std::thread::sleep(Duration::from_millis(rng.u64(200..3_000)));
    clock.step_micros(0);
    // A server that loses the last token goes by its clock, which must be where it was by then.
    std::thread::sleep(Duration::from_millis(by));
    true
}

/// Has a server evict keys that were not used for the longest time. What is left is half of a lock's keys, perhaps, so that all are removed
/// in the end. Whether any were evicted.
pub(super) fn evict(node: &Server, rng: &mut Rng) -> bool {
    let number = |field: &str| node.info(field).and_then(|text| text.parse::<u64>().ok()).unwrap_or_default();
    let before = number("evicted_keys");
    tell(node, &["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    tell(node, &["CONFIG", "SET", "maxmemory", &(number("used_memory") + 200_000).to_string()]);
    let fill = "for i = 1, 50 do redis.call('SET', 'chaos:filler:' .. ARGV[1] .. ':' .. i, string.rep('x', 1000)) end";
    for number in 0..rng.u32(10..40) {
        tell(node, &["EVAL", fill, "0", &number.to_string()]);
        std::thread::sleep(Duration::from_millis(rng.u64(0..30)));
    }
    let evicted = number("evicted_keys") > before;
    tell(node, &["CONFIG", "SET", "maxmemory", "0"]);
    tell(node, &["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    tell(node, &["FLUSHALL"]);
    evicted
}

/// Kills a server that does not write before it answers, and cuts off the end of its file, as a machine does that loses its power. Whether the
/// file could be torn.
pub(super) fn tear(node: &Server, rng: &mut Rng) -> bool {
    tell(node, &["CONFIG", "SET", "appendfsync", "everysec"]);
    std::thread::sleep(Duration::from_millis(rng.u64(200..1_000)));
    let begun = size(node);
    std::thread::sleep(Duration::from_millis(rng.u64(20..800)));
    node.kill();
    let ended = size(node);
    let torn = match (begun, ended) {
        // A file that was written anew meanwhile is left as it is.
        (Some((path, first)), Some((same, last))) if path == same && last > first + 1 => {
            let file = OpenOptions::new().write(true).open(path);
            file.and_then(|file: File| file.set_len(rng.u64(first + 1..last))).is_ok()
        }
        _ => false,
    };
    node.restart();
    torn
}

/// The file to which a server appends, and its size.
fn size(node: &Server) -> Option<(PathBuf, u64)> {
    let parts = std::fs::read_dir(node.dir().join("appendonlydir")).ok()?.filter_map(Result::ok);
    let parts = parts.map(|part| part.path()).filter(|path| path.extension().is_some_and(|end| end == "aof"));
    let file = parts.filter(|path| path.to_string_lossy().contains(".incr.")).max()?;
    let size = file.metadata().ok()?.len();
    Some((file, size))
}
