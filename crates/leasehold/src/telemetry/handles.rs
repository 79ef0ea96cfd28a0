//! Handles of the metrics recorder, which catch its panics, because the recorder is user code.

use crate::runtime::user_code::{self, UserCode};
use metrics::{Counter, Gauge, Histogram};
use std::time::Duration;

/// A counter.
#[derive(Debug)]
pub(crate) struct Count(Counter);

impl Count {
    pub(crate) fn of(register: impl FnOnce() -> Counter) -> Self {
        Self(user_code::value(UserCode::Telemetry, register).unwrap_or_else(Counter::noop))
    }

    pub(crate) fn add(&self, number: u64) {
        user_code::call(UserCode::Telemetry, || self.0.increment(number));
    }
}

/// A gauge.
#[derive(Debug)]
pub(crate) struct Level(Gauge);

impl Level {
    pub(crate) fn of(register: impl FnOnce() -> Gauge) -> Self {
        Self(user_code::value(UserCode::Telemetry, register).unwrap_or_else(Gauge::noop))
    }

    /// Adds to the gauge. A negative change lowers it.
    pub(crate) fn change(&self, change: f64) {
        user_code::call(UserCode::Telemetry, || self.0.increment(change));
    }
}

/// A histogram of seconds.
#[derive(Debug)]
pub(crate) struct Seconds(Histogram);

impl Seconds {
    pub(crate) fn of(register: impl FnOnce() -> Histogram) -> Self {
        Self(user_code::value(UserCode::Telemetry, register).unwrap_or_else(Histogram::noop))
    }

    pub(crate) fn record(&self, time: Duration) {
        user_code::call(UserCode::Telemetry, || self.0.record(time.as_secs_f64()));
    }
}
