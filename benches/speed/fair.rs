//! Fair hand-over against plain hand-over: from the release in one client to the grant in another, which waits alone.

use crate::measure::{Ratio, quantile};
use crate::wake_up::hand_overs;
use leasehold_test_support::Server;

const ROUNDS: usize = 11;

pub(crate) async fn run(server: &Server) {
    let (mut plain, mut plain_tails) = (Vec::new(), Vec::new());
    let (mut fair, mut fair_tails) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let mut plains = hand_overs(server, |client| client.lock("bench:hand-over:plain")).await;
        let mut fairs = hand_overs(server, |client| client.fair_lock("bench:hand-over:fair")).await;
        // The first round warms up.
        if round > 0 {
            plain.push(quantile(&mut plains, 0.5).as_secs_f64());
            fair.push(quantile(&mut fairs, 0.5).as_secs_f64());
            plain_tails.push(quantile(&mut plains, 0.99).as_secs_f64());
            fair_tails.push(quantile(&mut fairs, 0.99).as_secs_f64());
        }
    }
    println!("| hand-over between two clients | fair : plain |\n|---|---|");
    println!("| p50 | {} |", Ratio::of(&fair, &plain));
    println!("| p99 | {} |\n", Ratio::of(&fair_tails, &plain_tails));
}
