//! The work that ends by itself: pairs on own names, wake-ups, and a hot name.

use crate::library::Library;
use crate::process::processor_time;
use std::ops::Range;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::mpsc;

/// Names and values of an answer. Times are nanoseconds.
pub(crate) type Figures = Vec<(&'static str, u64)>;

/// Each of some tasks acquires and releases a lock of its own, again and again.
pub(crate) async fn pairs<L: Library>(library: &L, name: &str, tasks: usize, window: Duration) -> Figures {
    let used = processor_time();
    let begun = Instant::now();
    let running: Vec<_> = (0..tasks)
        .map(|task| {
            let lock = library.lock(&format!("{name}:{task}"));
            tokio::spawn(async move {
                let mut times = Vec::new();
                while begun.elapsed() < window {
                    let at = Instant::now();
                    L::release(L::acquire(&lock).await).await;
                    times.push(at.elapsed());
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in running {
        times.extend(task.await.expect("a task"));
    }
    let (wall, cpu) = (begun.elapsed(), processor_time() - used);
    times.sort_unstable();
    vec![
        ("pairs", times.len() as u64),
        ("wall", nanos(wall)),
        ("p50", nanos(quantile(&times, 50))),
        ("p99", nanos(quantile(&times, 99))),
        ("cpu", nanos(cpu)),
    ]
}

/// One task acquires and releases a lock of its own, while others do the same with theirs.
pub(crate) async fn beside<L: Library>(library: &L, name: &str, others: usize, window: Duration) -> Figures {
    let their_name = format!("{name}:others");
    tokio::join!(pairs(library, &their_name, others, window), pairs(library, name, 1, window)).1
}

/// One client releases the lock while another waits for it, after a pause of another length each time.
pub(crate) async fn wake<L: Library>(library: &L, name: &str, count: usize, pauses: Range<Duration>) -> Figures {
    let mut times = match library.wake_up(name, count, pauses.clone()).await {
        Some(times) => times,
        None => wake_ups(library, name, count, pauses).await,
    };
    times.sort_unstable();
    vec![("p50", nanos(quantile(&times, 50))), ("p99", nanos(quantile(&times, 99)))]
}

async fn wake_ups<L: Library>(library: &L, name: &str, count: usize, pauses: Range<Duration>) -> Vec<Duration> {
    let (lock, there) = (library.lock(name), library.another().await.lock(name));
    let (ask, mut asked) = mpsc::channel::<()>(1);
    let (tell, mut told) = mpsc::channel::<Instant>(1);
    let waiter = tokio::spawn(async move {
        while asked.recv().await.is_some() {
            let held = L::acquire(&there).await;
            let granted = Instant::now();
            L::release(held).await;
            tell.send(granted).await.expect("the holder listens");
        }
    });
    let mut times = Vec::with_capacity(count);
    for number in 0..count {
        let held = L::acquire(&lock).await;
        ask.send(()).await.expect("the waiter listens");
        tokio::time::sleep(pause(&pauses, number)).await;
        let begun = Instant::now();
        L::release(held).await;
        times.push(told.recv().await.expect("the waiter").saturating_duration_since(begun));
    }
    drop(ask);
    waiter.await.expect("the waiter");
    times
}

/// The pauses are spread evenly, so that a library that polls is met at each point of its interval.
pub(crate) fn pause(pauses: &Range<Duration>, number: usize) -> Duration {
    let step = u32::try_from(number * 618 % 1_000).expect("less than a thousand");
    pauses.start + (pauses.end - pauses.start) * step / 1_000
}

/// All tasks want one name, from a time of the wall clock on that several processes have in common.
pub(crate) async fn hot<L: Library>(library: &L, name: &str, tasks: usize, start: u64, window: Duration) -> Figures {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time after 1970");
    tokio::time::sleep(Duration::from_millis(start).saturating_sub(now)).await;
    let (begun, used) = (Instant::now(), processor_time());
    let running: Vec<_> = (0..tasks)
        .map(|_| {
            let lock = library.lock(name);
            tokio::spawn(async move {
                let mut grants = Vec::new();
                while begun.elapsed() < window {
                    let held = L::acquire(&lock).await;
                    grants.push(begun.elapsed());
                    L::release(held).await;
                }
                grants
            })
        })
        .collect();
    tokio::time::sleep(window.saturating_sub(begun.elapsed())).await;
    let cpu = processor_time() - used;
    let (mut each, mut after) = (Vec::new(), 0);
    for task in running {
        let mut grants = task.await.expect("a task");
        // Grants after the end come from emptying the line.
        after += grants.len() as u64;
        grants.retain(|at| *at < window);
        after -= grants.len() as u64;
        each.push(grants);
    }
    let shares = || each.iter().map(|grants| grants.len() as u64);
    let mut all: Vec<_> = each.iter().flatten().copied().collect();
    all.sort_unstable();
    vec![
        ("grants", all.len() as u64),
        ("after", after),
        ("least", shares().min().unwrap_or_default()),
        ("most", shares().max().unwrap_or_default()),
        ("gap", nanos(longest_gap(&all, window))),
        ("cpu", nanos(cpu)),
    ]
}

/// The longest time without a grant.
fn longest_gap(grants: &[Duration], window: Duration) -> Duration {
    let ends = grants.iter().copied().chain([window]);
    let begins = [Duration::ZERO].into_iter().chain(grants.iter().copied());
    ends.zip(begins).map(|(end, begin)| end - begin).max().unwrap_or(window)
}

/// The time below which so many percent of a sorted sample lie.
fn quantile(sorted: &[Duration], percent: usize) -> Duration {
    sorted.get(sorted.len().saturating_sub(1) * percent / 100).copied().unwrap_or_default()
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("less than centuries")
}
