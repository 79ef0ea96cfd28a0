//! The settings of the layer.

use crate::held::OnLoss;
use std::time::Duration;

/// How long a request waits for its lock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waiting {
    /// One attempt.
    Try,
    For(Duration),
}

/// What happens to a request without a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WithoutKey {
    Serve,
    Refuse,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) waiting: Waiting,
    pub(crate) without_key: WithoutKey,
    pub(crate) on_loss: OnLoss,
}
