//! The web page of `leasehold serve` in Chromium:
//!
//! ```text
//! cargo build --release --package leasehold-cli
//! cargo run --manifest-path tests/browser/Cargo.toml --target-dir target
//! ```
//!
//! `driver.rs` has the browser, `site.rs` the page's own process, and `page.rs` asks the page. `cases/` has a file for each promise.

mod cases;
mod driver;
mod figures;
mod foreign_page;
mod page;
mod programs;
mod site;

use driver::Driver;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// How long a case may take.
const PATIENCE: Duration = Duration::from_secs(180);

/// Runs the cases whose names have one of the words, one after the other.
fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let runtime = Runtime::new().expect("a runtime");
    let driver = Driver::start();
    println!("in {}", driver.version());
    let mut failed = Vec::new();
    for (name, case) in cases::ALL {
        if !words.is_empty() && !words.iter().any(|word| name.contains(word.as_str())) {
            continue;
        }
        let begun = Instant::now();
        // A case that fails must not keep the others from being run.
        let bounded = async { timeout(PATIENCE, case(&driver)).await.expect("the case ends in time") };
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on(bounded)));
        println!("{name}: {} ({:.1} s)", if outcome.is_ok() { "ok" } else { "FAILED" }, begun.elapsed().as_secs_f64());
        if outcome.is_err() {
            failed.push(name);
        }
    }
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("failed: {}", failed.join(", "));
    ExitCode::FAILURE
}
