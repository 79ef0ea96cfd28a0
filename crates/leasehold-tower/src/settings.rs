//! The settings of the layer.

use crate::held::OnLoss;
use std::time::Duration;

/// The wait of a request for its lock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waiting {
    /// One attempt.
    Try,
    For(Duration),
}

/// The treatment of a request without a key.
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
