//! The fair lock: who comes next, and what becomes of those who go.

use crate::support::{Actor, Stage, World, ms, secs};
use leasehold::{FairGuard, FairLock};

pub(crate) async fn virtual_storm(_: World) {
    let stage = Stage::new();
    let clients: Vec<_> = (0..3).map(|_| stage.client()).collect();
    let locks: Vec<FairLock> = clients.iter().map(|client| client.fair_lock("storm")).collect();
    let seed: u64 = std::env::var("SEED").map_or(1, |n| n.parse().unwrap());
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut actors: Vec<Actor<Option<FairGuard>>> = Vec::new();
    let mut held = vec![]; let mut names: Vec<String> = vec![];
    let all = stage.server.record(); for round in 0..100 { eprintln!("round {round} {:?} calls {}", stage.clock.now(), stage.server.calls("fair/acquire"));
        let lock = locks[rng.usize(..3)].clone();
        let what = rng.u32(..5);
        let wait = ms(rng.u64(0..4));
        names.push(format!("{round}:{what}"));
        let actor = match what {
            0 => Actor::new(async move { lock.try_acquire().await.unwrap() }),
            1 | 2 => Actor::new(async move { Some(lock.acquire().await.unwrap()) }),
            3 => Actor::new(async move { lock.acquire().wait(wait).await.ok() }),
            _ => { let mut p = crate::support::Polled::new(async move { lock.acquire().await }); let _ = p.poll(); continue; }
        };
        actors.push(actor);
        let rec = stage.server.record(); let ok = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| stage.act(&mut actors))); if ok.is_err() { for c in all.calls().iter().take(300) { eprintln!("LOG {} {:?} {:?} {:?} -> {:?}", c.script(), c.plane(), &c.args()[0][..4], c.args()[0].split(|b| *b==b':').last().map(String::from_utf8_lossy), c.outcome()); } panic!(); }
        for actor in &mut actors {
            if let Some((Some(guard), _)) = actor.done.take() {
                match rng.u32(..4) {
                    0 => drop(guard),
                    1 => drop(guard.release()),
                    2 => { let mut p = crate::support::Polled::new(guard.release()); let _ = p.poll(); }
                    _ => { held.push(guard); }
                }
            }
        }
        if rng.u32(..3) == 0 && !held.is_empty() { held.remove(0); }
        if rng.u32(..6) == 0 && !actors.is_empty() {
            let n = rng.usize(..actors.len());
            actors.swap_remove(n);
        }
        if rng.u32(..3) == 0 { stage.pass(ms(1), &mut actors); }
        actors.retain(|a| !a.is_over() || a.is_done());
    }
    held.clear();
    while !actors.is_empty() {
        let took = stage.pass_until("a grant", secs(10), &mut actors, |actors| actors.iter().any(Actor::is_done));
        if took > ms(5) { eprintln!("seed {seed}: {took:?} with {} left", actors.len()); }
        actors.retain(|a| !a.is_done());
    }
}
