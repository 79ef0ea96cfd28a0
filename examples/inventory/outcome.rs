//! The result of a sale, from the store.

use super::buyer::{Sale, UNITS};
use super::store::Failed;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::time::Duration;

/// The result of a sale.
pub(crate) struct Outcome {
    /// The number of served buyers.
    pub(crate) served: usize,
    pub(crate) sold: usize,
    /// The number of buyers that were served after a later arrival.
    pub(crate) violations: usize,
    /// The time from the opening to the last turn.
    pub(crate) took: Duration,
    /// The longest time in which no buyer was served.
    pub(crate) stall: Duration,
}

impl Outcome {
    /// Reads the result from the store and deletes it. `arrivals` lists the buyers in the order of their arrival, and
    /// `opened` is the time of the opening.
    pub(crate) async fn read(sale: &Sale, arrivals: &[usize], opened: u64) -> Result<Self, Failed> {
        let served = sale.store.all(&sale.served()).await?;
        let sold = sale.store.all(&sale.sold()).await?;
        sale.store.remove(&sale.served()).await?;
        sale.store.remove(&sale.sold()).await?;
        let turns = served
            .iter()
            .map(|turn| {
                let (buyer, at) = turn.split_once(' ').ok_or("a turn without its time")?;
                Ok((buyer.parse()?, at.parse()?))
            })
            .collect::<Result<Vec<(usize, u64)>, Failed>>()?;
        let buyers: HashSet<_> = turns.iter().map(|(buyer, _)| buyer).collect();
        if buyers.len() < turns.len() || sold.iter().collect::<HashSet<_>>().len() < sold.len() {
            return Err("a buyer was served twice".into());
        }

        let place: HashMap<_, _> = arrivals.iter().enumerate().map(|(place, buyer)| (*buyer, place)).collect();
        let (mut last_place, mut violations) = (0, 0);
        let (mut last, mut stall) = (opened, 0);
        for (buyer, at) in &turns {
            let place = *place.get(buyer).ok_or("an unknown buyer was served")?;
            violations += usize::from(place < last_place);
            last_place = last_place.max(place);
            stall = stall.max(at.saturating_sub(last));
            last = last.max(*at);
        }
        Ok(Self {
            served: turns.len(),
            sold: sold.len(),
            violations,
            took: Duration::from_micros(last.saturating_sub(opened)),
            stall: Duration::from_micros(stall),
        })
    }

    pub(crate) const fn oversold(&self) -> usize {
        self.sold.saturating_sub(UNITS)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[expect(clippy::cast_precision_loss, reason = "the rate is approximate")]
        let throughput = self.served as f64 / self.took.as_secs_f64();
        write!(
            f,
            "served {}, sold {}, oversold {}; {throughput:.0} buyers/s, longest wait {:.2?}, order violations {}",
            self.served,
            self.sold,
            self.oversold(),
            self.took,
            self.violations,
        )
    }
}
