//! A process that does the work of a benchmark with one of the libraries in Rust, as `cargo xtask bench` tells it.
//!
//! Its words are the library and the URL of the server. It says `ready`, and then reads one task a line and answers with one line, as
//! [benches/README.md](../../README.md) tells. The peers in Go and Java speak the same.

#![expect(clippy::print_stdout, clippy::expect_used, reason = "a benchmark prints, and stops at the first surprise")]

mod floor;
mod leasehold;
mod library;
mod others;
mod process;
mod standing;
mod work;

use crate::floor::Floor;
use crate::leasehold::{Leasehold, Settings};
use crate::library::Library;
use crate::others::{InProcess, Rlock, Rslock};
use crate::standing::Standing;
use ::leasehold::{Client, DEFAULT_LINGER};
use std::io::Write;
use std::time::Duration;

/// As many as the machines have on which figures are recorded.
const WORKERS: usize = 2;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [library, url] = &words[..] else { return println!("cargo xtask bench starts this program") };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        match library.as_str() {
            "fred" => serve(Floor::connect(url).await).await,
            "leasehold" => {
                serve(Leasehold::connect(url, Settings::Usual, |client, name| client.lock(name)).await).await
            }
            "leasehold-alone" => {
                serve(Leasehold::connect(url, Settings::NoBatches, |client, name| client.lock(name)).await).await;
            }
            "leasehold-hand-over" => {
                serve(Leasehold::connect(url, Settings::HandOver, |client, name| client.lock(name)).await).await;
            }
            "leasehold-no-hand-over" => {
                serve(Leasehold::connect(url, Settings::NoHandOver, |client, name| client.lock(name)).await).await;
            }
            "leasehold-linger" => {
                let lingers = |client: &Client, name: &str| client.lock(name).linger(DEFAULT_LINGER);
                serve(Leasehold::connect(url, Settings::Usual, lingers).await).await;
            }
            "leasehold-simple" => {
                let lease = Duration::from_secs(30);
                let simple =
                    Leasehold::connect(url, Settings::Usual, move |client, name| client.simple_lock(name, lease));
                serve(simple.await).await;
            }
            "leasehold-fair" => {
                serve(Leasehold::connect(url, Settings::Usual, |client, name| client.fair_lock(name)).await).await;
            }
            "rslock" => serve(Rslock::connect(url)).await,
            "rlock" => serve(Rlock::connect(url).await).await,
            "tokio" => serve(InProcess::default()).await,
            other => println!("error there is no library {other}"),
        }
    });
}

/// Does one task after the other, until no more are read.
async fn serve<L: Library>(library: L) {
    let mut standing = Standing::new(&library);
    answer("ready");
    for line in std::io::stdin().lines() {
        let line = line.expect("a task");
        let words: Vec<&str> = line.split_whitespace().collect();
        let figures = match words[..] {
            ["pairs", name, tasks, millis] => {
                work::pairs(&library, name, number(tasks), Duration::from_millis(number(millis))).await
            }
            ["beside", name, others, millis] => {
                work::beside(&library, name, number(others), Duration::from_millis(number(millis))).await
            }
            ["wake", name, count, least, most] => {
                let pauses = Duration::from_micros(number(least))..Duration::from_micros(number(most));
                work::wake(&library, name, number(count), pauses).await
            }
            ["hot", name, tasks, start, millis] => {
                work::hot(&library, name, number(tasks), number(start), Duration::from_millis(number(millis))).await
            }
            ["hold", name, count] => standing.hold(name, number(count)).await,
            ["wait", name, count] => standing.wait(name, number(count)).await,
            ["queue", name, count] => standing.queue(name, number(count)).await,
            ["go"] => standing.go().await,
            ["count"] => standing.count(),
            _ => return answer(&format!("error no such task: {line}")),
        };
        let figures: Vec<_> = figures.iter().map(|(name, value)| format!("{name}={value}")).collect();
        answer(&format!("ok {}", figures.join(" ")));
    }
}

fn number<N: std::str::FromStr<Err: std::fmt::Debug>>(word: &str) -> N {
    word.parse().expect("a number")
}

fn answer(line: &str) {
    let mut out = std::io::stdout().lock();
    // The reader may have gone, and then the next read of a task ends this process.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
