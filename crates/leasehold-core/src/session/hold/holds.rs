//! The holds of a client, by their numbers.

use crate::number_map::NumberMap;
use crate::owner::HoldNumber;
use crate::session::hold::Hold;
use crate::session::missing::Missing;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Holds {
    /// Boxed, so that the room that the table has in reserve is that of pointers.
    table: NumberMap<HoldNumber, Box<Hold>>,
    missing: Missing,
}

impl Holds {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Whether there is a hold with this number.
    pub(crate) fn contains(&self, number: HoldNumber) -> bool {
        self.table.contains_key(&number)
    }

    /// Adds a hold.
    pub(crate) fn insert(&mut self, number: HoldNumber, hold: Hold) {
        self.table.insert(number, Box::new(hold));
    }

    /// Gives a hold another number. The old one names nothing any more.
    pub(crate) fn renumber(&mut self, number: HoldNumber, next: HoldNumber) -> Option<&mut Hold> {
        let hold = self.table.remove(&number)?;
        Some(&mut **self.table.entry(next).insert_entry(hold).into_mut())
    }

    /// Takes a hold out.
    pub(crate) fn remove(&mut self, number: HoldNumber) -> Option<Hold> {
        self.table.remove(&number).map(|hold| *hold)
    }

    /// A hold that may be gone.
    pub(crate) fn get(&self, number: HoldNumber) -> Option<&Hold> {
        self.table.get(&number).map(|hold| &**hold)
    }

    /// A hold that may be gone, to be changed.
    pub(crate) fn get_mut(&mut self, number: HoldNumber) -> Option<&mut Hold> {
        self.table.get_mut(&number).map(|hold| &mut **hold)
    }

    /// A hold that must be there. It is a bug of the session where it is not.
    #[track_caller]
    pub(crate) fn known(&self, number: HoldNumber) -> Option<&Hold> {
        let hold = self.get(number);
        if hold.is_none() {
            self.missing.note();
        }
        hold
    }

    /// A hold that must be there, to be changed. It is a bug of the session where it is not.
    #[track_caller]
    pub(crate) fn known_mut(&mut self, number: HoldNumber) -> Option<&mut Hold> {
        let hold = self.table.get_mut(&number);
        if hold.is_none() {
            self.missing.note();
        }
        hold.map(|hold| &mut **hold)
    }

    /// All holds, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (HoldNumber, &Hold)> {
        self.table.iter().map(|(number, hold)| (*number, &**hold))
    }

    /// All holds, to be changed, in no order.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Hold> {
        self.table.values_mut().map(|hold| &mut **hold)
    }

    /// The bug that was found since this was asked last.
    pub(crate) const fn missing(&self) -> &Missing {
        &self.missing
    }
}
