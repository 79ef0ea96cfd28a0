//! The shared state of all requests.

use super::details::Details;
use super::host::Hosts;
use super::metrics::Unlocks;
use super::on_view::OnView;
use super::sample::Sample;
use super::token::Token;
use super::view::Views;
use super::viewers::Viewers;
use super::waits::Waits;
use crate::overview::journal::Journal;
use leasehold::Client;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, Semaphore, watch};

/// Maximum number of browsers with live updates.
pub(super) const MOST_LISTENERS: usize = 64;

/// The shared state of all requests.
pub(super) struct App {
    pub(super) client: Client,
    /// The pattern and the URL of the server without secrets.
    pub(super) place: String,
    /// The pattern of lock names.
    pub(super) pattern: String,
    /// The prefix of every lock name.
    pub(super) prefix: String,
    pub(super) every: Duration,
    pub(super) samples: watch::Receiver<Sample>,
    pub(super) viewers: Viewers,
    pub(super) details: Arc<Details>,
    pub(super) on_view: Arc<OnView>,
    pub(super) views: Views,
    pub(super) waits: Arc<Waits>,
    pub(super) journal: Arc<std::sync::Mutex<Journal>>,
    pub(super) hosts: Hosts,
    /// The token for unlock requests. `None` without `--allow-unlock`.
    pub(super) token: Option<Token>,
    /// Serializes the penalties for wrong tokens.
    pub(super) penalty: Mutex<()>,
    pub(super) unlocks: Unlocks,
    pub(super) listeners: Arc<Semaphore>,
    pub(super) ended: watch::Receiver<bool>,
    pub(super) json: bool,
}
