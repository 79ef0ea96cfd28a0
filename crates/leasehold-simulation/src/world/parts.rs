//! The parts of a world: each has a number that it keeps when others are left out, and is asked for before it happens.

use crate::faults::event::FaultEvent;
use crate::report::mask::{CHANCES, Chance, Mask, Part};
use crate::world::World;
use crate::world::event::WorldEvent;
use std::collections::{BTreeMap, BTreeSet};

/// The users of clients that join start operations of these numbers, so many of each.
const JOINED: (u32, u32) = (50, 4);
/// An entry that is started beside a hold has the number of the operation that acquired the hold, and this more.
pub(crate) const ENTRY: u32 = 100;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// These are left out.
    pub(crate) mask: Mask,
    /// Whether what happens is noted.
    pub(crate) are_noted: bool,
    /// Those that happened.
    pub(crate) happened: BTreeSet<Part>,
    /// Those that were planned.
    pub(crate) planned: BTreeSet<Part>,
    /// The operation that is being started.
    pub(crate) acting: u32,
    /// Whether faults are being planned.
    pub(crate) plans_faults: bool,
    /// The numbers of planned faults, by those of their events.
    faults: BTreeMap<u64, u32>,
    next_fault: u32,
    /// A rule of a test, which is checked with the others.
    #[cfg(test)]
    pub(crate) rule: Option<fn(&World)>,
}

impl Parts {
    /// Whether a part is left out. If not, it happens.
    pub(crate) fn leave_out(&mut self, part: Part) -> bool {
        let is_out = self.mask.has(part);
        if self.are_noted && !is_out {
            self.happened.insert(part);
        }
        is_out
    }

    /// The number of an operation that a user of the world is to start.
    pub(crate) fn plan_operation(&mut self, number: u32) -> u32 {
        if self.are_noted {
            self.planned.insert(Part::Operation(number));
        }
        number
    }

    /// The number of an operation that a client starts that joined as the so manieth, in the place of its users.
    pub(crate) fn plan_operation_of_joined(&mut self, joined: usize, place: usize) -> u32 {
        let of = |number: usize| u32::try_from(number).unwrap_or_default();
        self.plan_operation(JOINED.0 + JOINED.1 * of(joined) + of(place))
    }

    /// An event is planned. If it is a fault, it gets a number; what ends a fault has the number of that.
    pub(crate) fn plan_fault(&mut self, event_number: u64, event: &WorldEvent) {
        if !self.plans_faults {
            return;
        }
        let ends = match event {
            // A process without users changes nothing.
            WorldEvent::Fault(FaultEvent::Join) => return,
            WorldEvent::Fault(fault) => matches!(
                fault,
                FaultEvent::Unreachable { yes: false, .. }
                    | FaultEvent::DenyGrowth { deny: false }
                    | FaultEvent::Failover
            ),
            _ => false,
        };
        self.next_fault += u32::from(!ends);
        let number = self.next_fault - 1;
        self.faults.insert(event_number, number);
        if self.are_noted {
            self.planned.insert(Part::Fault(number));
        }
    }

    /// Whether an event is a planned fault that is left out.
    pub(crate) fn leave_out_event(&mut self, event_number: u64) -> bool {
        let fault = self.faults.get(&event_number).copied();
        fault.is_some_and(|fault| self.leave_out(Part::Fault(fault)))
    }

    /// Whether the operation that is being started is left out, or its client, or its lock.
    pub(crate) fn leave_out_operation(&mut self, client: usize, lock: &[u8]) -> bool {
        let lock = std::str::from_utf8(lock).ok().and_then(|lock| lock.strip_prefix("lock")?.parse().ok());
        let client = u32::try_from(client).unwrap_or_default();
        let parts = [Part::Client(client), Part::Lock(lock.unwrap_or_default()), Part::Operation(self.acting)];
        let is_out = parts.iter().any(|part| self.mask.has(*part));
        if self.are_noted && !is_out {
            self.happened.extend(parts);
        }
        is_out
    }
}

impl World {
    /// Takes the chances of the world away that are left out. The draw is still made, and never comes true.
    pub(crate) fn leave_out_chances(&mut self) {
        for name in CHANCES {
            let (plan, rates) = (&mut self.plan, &mut self.faults.rates);
            let rate = match name {
                "late" => &mut plan.late,
                "never" => &mut plan.never,
                "dropped" => &mut plan.dropped,
                "spike" => &mut rates.spike,
                "lose_request" => &mut rates.lose_request,
                "lose_reply" => &mut rates.lose_reply,
                "swallow" => &mut rates.swallow,
                "not_sent" => &mut rates.not_sent,
                "refuse" => &mut rates.refuse,
                "inside" => &mut rates.inside,
                "copy_now" => &mut rates.copy_now,
                "copy_late" => &mut rates.copy_late,
                "unproven" => &mut rates.unproven,
                "settle_fails" => &mut rates.settle_fails,
                "subscribe_fails" => &mut rates.subscribe_fails,
                "lose_notice" => &mut rates.lose_notice,
                _ => &mut rates.worst_instant,
            };
            if *rate > 0.0 && self.parts.leave_out(Part::Chance(Chance(name))) {
                *rate = f64::MIN_POSITIVE;
            }
        }
    }
}
