//! The number of viewers. Without viewers, `serve` does not scan.

use tokio::sync::watch;

/// The shared number of viewers.
#[derive(Clone, Debug)]
pub(super) struct Viewers(watch::Sender<usize>);

/// A viewer, until dropped.
#[derive(Debug)]
pub(super) struct Viewer(watch::Sender<usize>);

impl Viewers {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    /// Adds a viewer.
    pub(super) fn join(&self) -> Viewer {
        self.0.send_modify(|count| *count += 1);
        Viewer(self.0.clone())
    }

    /// Returns a receiver of the number.
    pub(super) fn count(&self) -> watch::Receiver<usize> {
        self.0.subscribe()
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn viewer_counts_until_it_is_dropped() {
        let viewers = Viewers::new();
        let (one, other) = (viewers.join(), viewers.join());
        drop(one);
        assert_eq!(*viewers.count().borrow(), 1);
        drop(other);
        assert_eq!(*viewers.count().borrow(), 0);
    }
}
