//! The holders of the locks of a session: none believes in more than what the server promised, or in anything for longer than was wanted.

use super::{Caller, Guard, World};
use leasehold_core::command::Kind;
use leasehold_core::session::{Fallback, Granted};
use leasehold_core::time::Instant;

impl World {
    /// A guard is handed out for a grant of the server, and for no longer than that; or by a request that may do without the server.
    pub(super) fn grant(&mut self, caller: &Caller, granted: &Granted) {
        let (cell, kind) = (&granted.cell, caller.wish.kind);
        if kind == Kind::Latch {
            // An open latch is passed, and not held.
            return;
        }
        let (ended, deadline, degraded) = (cell.ended(self.now), cell.deadline(), cell.is_degraded());
        assert!(
            ended.is_none() && deadline > self.now,
            "a guard of {kind:?} that is over was handed out: {ended:?}, {deadline:?} of {:?}",
            self.now
        );
        let known = self.guards.iter().find(|guard| guard.hold == granted.hold);
        let by_itself = known.map_or(degraded, |guard| guard.by_itself);
        // A re-entry may be polled before the first guard is handed out.
        let first = granted.count == 1;
        let begun = caller.sent.filter(|_| !degraded && !granted.handed_on).unwrap_or(self.now);
        let wanted = caller.wish.max_hold.filter(|_| first).map_or(Instant::FAR_FUTURE, |most| begun + most);
        let most = known.map_or(wanted, |guard| guard.most);
        if by_itself {
            let needed = (first || degraded) && caller.wish.fallback == Fallback::Fail;
            assert!(!needed, "{kind:?} was granted without the server to somebody who needs it");
        } else if granted.handed_on {
            let beside = self.guards.iter().find(|guard| guard.cell.field() == cell.field());
            assert!(beside.is_none_or(|guard| guard.hold == granted.hold), "{kind:?} was handed on beside a guard");
            assert!(kind == Kind::Lock && deadline <= self.latest, "{kind:?} is held beyond what the server said");
        } else {
            let promised = caller.promised.unwrap_or_else(|| panic!("{kind:?} was granted by nobody"));
            let latest = known.map_or(promised, |guard| guard.deadline.max(promised));
            assert!(deadline <= latest, "{kind:?} is held beyond what the server said");
        }
        let guards = self.guards.iter().filter(|guard| guard.hold == granted.hold).count();
        let count = cell.count() as usize;
        assert!(count > guards, "{kind:?} counts {count} guards, and has one more than {guards}");
        self.guards.push(Guard {
            hold: granted.hold,
            renewed: granted.renewed,
            cell: cell.clone(),
            name: caller.wish.name.clone(),
            kind,
            owner: caller.wish.owner,
            deadline,
            most,
            degraded,
            by_itself,
        });
    }

    /// A deadline that rests on the server gets later by what that has just promised, and by nothing else, whichever others hold the same.
    pub(super) fn look_at_guards(&mut self) {
        let heard = self.heard.take();
        self.latest = heard.map_or(self.latest, |heard| heard.max(self.latest));
        for guard in &mut self.guards {
            let (deadline, degraded) = (guard.cell.deadline(), guard.cell.is_degraded());
            let kind = guard.kind;
            assert!(
                guard.degraded || !degraded,
                "{kind:?} was granted by the server, and counts as granted without it"
            );
            let restored = guard.degraded && !degraded;
            // Of a hold without the server its own guards decide: an entry makes it last longer.
            if restored || deadline > guard.deadline && !degraded {
                let until = heard.unwrap_or_else(|| panic!("{kind:?} is held for longer, and nobody said so"));
                assert!(deadline <= until, "{kind:?} is held beyond {until:?}: {deadline:?}");
            }
            assert!(deadline <= guard.most, "{kind:?} is held for longer than was wanted");
            (guard.deadline, guard.degraded) = (deadline, degraded);
        }
    }
}
