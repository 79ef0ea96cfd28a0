//! Pushes the metrics of leasehold to OpenTelemetry, through the crate `metrics-opentelemetry`. This program prints the
//! metrics. To push them to a collector, use the exporter of `opentelemetry-otlp` instead.
//!
//! `cargo run --example opentelemetry`, or `LEASEHOLD_URL=redis://127.0.0.1:6379 cargo run --example opentelemetry`.

#![expect(clippy::print_stdout, reason = "an example prints to stdout")]

use leasehold::telemetry::{self, BUCKETS_SECONDS};
use leasehold::{Client, ConnectError};
use metrics_opentelemetry::{OpenTelemetryMetrics, OpenTelemetryRecorder};
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_stdout::MetricExporter;
use std::time::Duration;

/// The histograms, which all measure seconds.
const HISTOGRAMS: [&str; 4] = [
    telemetry::ACQUIRE_SECONDS,
    telemetry::HOLD_SECONDS,
    telemetry::RENEWAL_LEFT_SECONDS,
    telemetry::OLDEST_HOLD_SECONDS,
];

/// Installs the recorder of the crate `metrics` for the whole process. Call it before you build the first client.
fn install(provider: &SdkMeterProvider) -> Result<(), Box<dyn std::error::Error>> {
    let recorder = OpenTelemetryRecorder::new(OpenTelemetryMetrics::new(provider.meter("leasehold")));
    // OpenTelemetry's default buckets assume milliseconds.
    recorder.set_histogram_bounds(HISTOGRAMS.into_iter(), &BUCKETS_SECONDS);
    Ok(metrics::set_global_recorder(recorder)?)
}

/// Connects to the server that `LEASEHOLD_URL` names, or to an engine inside this process.
async fn client() -> Result<Client, ConnectError> {
    let Ok(url) = std::env::var("LEASEHOLD_URL") else {
        println!("The locks are on an engine inside this process.");
        return Ok(Client::embedded());
    };
    println!("The locks are on the server that LEASEHOLD_URL names.");
    Client::builder().prefix(format!("leasehold-example:{}:", std::process::id())).connect(&url).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The reader exports on its own thread, every minute and at shutdown.
    let provider = SdkMeterProvider::builder().with_periodic_exporter(MetricExporter::default()).build();
    install(&provider)?;

    let client = client().await?;
    let stock = client.lock("stock:1001").class("stock");
    for _ in 0..3 {
        stock.acquire().await?.release().await?;
    }
    let held = stock.acquire().await?;
    assert!(stock.try_acquire().await?.is_none(), "the lock is held");
    println!("acquired the lock four times, and found it busy once");
    provider.force_flush()?;
    println!("exported the metrics while the lock is held");

    held.release().await?;
    client.shutdown(Duration::from_secs(5)).await?;
    provider.shutdown()?;
    Ok(())
}
