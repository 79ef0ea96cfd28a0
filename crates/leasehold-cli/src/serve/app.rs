//! Everything that answers are made of.

use super::details::Details;
use super::host::Hosts;
use super::metrics::Unlocks;
use super::on_view::OnView;
use super::sample::Sample;
use super::token::Token;
use super::view::Views;
use super::viewers::Viewers;
use leasehold::Client;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, Semaphore, watch};

/// How many browsers get live changes at the same time.
pub(super) const MOST_LISTENERS: usize = 64;

/// The parts that all requests share.
pub(super) struct App {
    pub(super) client: Client,
    /// The server and the pattern, for people to read.
    pub(super) place: String,
    pub(super) every: Duration,
    pub(super) samples: watch::Receiver<Sample>,
    pub(super) viewers: Viewers,
    pub(super) details: Arc<Details>,
    pub(super) on_view: Arc<OnView>,
    pub(super) views: Views,
    pub(super) hosts: Hosts,
    /// The token that frees locks; `None` where the page frees none.
    pub(super) token: Option<Token>,
    /// Held by the one whose wrong token is being answered.
    pub(super) penalty: Mutex<()>,
    pub(super) unlocks: Unlocks,
    pub(super) listeners: Arc<Semaphore>,
    pub(super) ended: watch::Receiver<bool>,
    pub(super) json: bool,
}
