//! A shop with few units and many buyers: axum, sqlx, and a fair lock of leasehold with fencing tokens.
//!
//! `axum-inventory serve` is the service; README.md lists its variables. `axum-inventory load` starts two services, and
//! sells a hundred units to two thousand orders. It kills one service half-way, and checks the sales.

mod load;
mod sale;
mod serve;
mod store;

use std::process::ExitCode;

/// Any error that ends the program.
type Failed = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
        .init();
    let ended = match std::env::args().nth(1).as_deref() {
        Some("serve") => serve::run().await,
        Some("load") => load::run().await,
        _ => Err("usage: axum-inventory serve|load; see README.md".into()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("axum-inventory: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the value of an environment variable that is set and not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
