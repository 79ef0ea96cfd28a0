//! How faults happen in a world of groups.

use super::event::WorldEvent;
use super::world::World;
use crate::faults::plan::any_length;
use crate::faults::processes::MARGIN_PPM;
use crate::report::stats::FaultKind;
use crate::world::{ms, trace};
use leasehold::embedded::{Fault, FaultTarget};
use leasehold_core::link::Plane;
use std::time::Duration;

/// How long a server that has lost its data stays away, so that what it has forgotten is not held any more: the longest lease, by a clock
/// that is too slow.
const LONG: Duration = ms(1_300);

/// A step of the server's clock by so many milliseconds is within the margin of every lease.
const WITHIN_MARGIN: i64 = 1;

impl World {
    /// Something happens. Faults of the dead do nothing, and who stands still neither asks nor polls.
    pub(super) fn happen(&mut self, what: WorldEvent) {
        trace!(self, "{what:?}");
        match what {
            WorldEvent::Start { process } => self.start(process),
            WorldEvent::GiveUp { process, user } => {
                self.when_it_runs(process, what, |world| world.give_up(process, user))
            }
            WorldEvent::Poll { process, user } => self.when_it_runs(process, what, |world| {
                if user < world.processes[process].users.len() {
                    world.poll(process, user);
                }
            }),
            WorldEvent::Drop { process, user } => {
                self.when_it_runs(process, what, |world| world.drop_future(process, user));
            }
            WorldEvent::Crash { process } => self.crash(process),
            WorldEvent::Join => self.add_process(),
            WorldEvent::Pause { process, pause, counts } => self.pause(process, pause, counts),
            WorldEvent::Resume { process } => self.processes[process].resume(self.now),
            WorldEvent::Clock { process, ppm, jump } => self.set_clock(process, ppm, jump),
            WorldEvent::Arm { process, server, .. }
            | WorldEvent::LetGo { process, server }
            | WorldEvent::Copy { process, server }
            | WorldEvent::Reset { process, server, .. }
            | WorldEvent::ResetNotices { process, server }
            | WorldEvent::LoseNotices { process, server }
            | WorldEvent::Lag { process, server }
            | WorldEvent::Unreachable { process, server, .. } => self.disturb_connection(process, server, what),
            WorldEvent::Down { server, .. }
            | WorldEvent::Up { server }
            | WorldEvent::EmptyForLong { server }
            | WorldEvent::RestartEmpty { server }
            | WorldEvent::Snapshot { server }
            | WorldEvent::Failover { server }
            | WorldEvent::StepServer { server, .. }
            | WorldEvent::Evict { server }
            | WorldEvent::MemoryFull { server, .. } => {
                let fault = self.disturb_server(server, &what);
                fault.into_iter().for_each(|kind| self.stats.fault(kind));
            }
        }
    }

    /// A process that stands still does it when it goes on.
    fn when_it_runs(&mut self, process: usize, what: WorldEvent, act: impl FnOnce(&mut Self)) {
        if self.processes[process].runs() {
            act(self);
        } else if !self.processes[process].dead {
            self.after(ms(100), what);
        }
    }

    fn disturb_connection(&mut self, process: usize, server: usize, what: WorldEvent) {
        let link = self.processes[process].links[server].clone();
        if matches!(what, WorldEvent::LetGo { .. }) {
            link.release_held();
            return;
        }
        if self.processes[process].dead || self.plan.over && !matches!(what, WorldEvent::Unreachable { yes: false, .. })
        {
            return;
        }
        let kind = match what {
            WorldEvent::Arm { fault, .. } => return self.arm(process, server, fault),
            WorldEvent::Copy { .. } => {
                let calls = self.processes[process].calls[server].calls().len();
                if calls == 0 {
                    return;
                }
                // The server's answer to it goes nowhere.
                drop(self.processes[process].calls[server].replay(self.rng.usize(..calls)));
                FaultKind::LateCopy
            }
            WorldEvent::Reset { plane, .. } => {
                link.reset(plane);
                FaultKind::Reset
            }
            WorldEvent::ResetNotices { .. } => {
                link.reset_notices();
                FaultKind::NoticesReset
            }
            WorldEvent::LoseNotices { .. } => {
                link.lose_notices(self.rng.u32(1..4));
                FaultKind::LostNotice
            }
            WorldEvent::Lag { .. } => {
                link.lag_notices();
                FaultKind::Lagged
            }
            WorldEvent::Unreachable { yes: false, .. } => {
                if self.is_there(server) {
                    link.set_down(false);
                }
                return;
            }
            _ => {
                link.set_down(true);
                FaultKind::Unreachable
            }
        };
        self.stats.fault(kind);
    }

    /// Lets a fault wait for the next call between the two. It counts when it has hit one.
    fn arm(&mut self, process: usize, server: usize, fault: Fault) {
        let link = self.processes[process].links[server].clone();
        self.count_hits();
        // One that has hit nothing makes room.
        link.clear_faults();
        let kind = match fault {
            Fault::LoseRequest => FaultKind::LostRequest,
            Fault::LoseReply => FaultKind::LostReply,
            Fault::Swallow => FaultKind::Swallowed,
            Fault::LinkDown => FaultKind::NotSent,
            Fault::Duplicate => FaultKind::Resent,
            Fault::Refuse(_) => FaultKind::Refused,
            Fault::RefuseInside(..) => FaultKind::RefusedInside,
            _ => FaultKind::Delay,
        };
        let pause = any_length(&mut self.rng, ms(1_500));
        match fault {
            Fault::Hold => self.after(pause, WorldEvent::LetGo { process, server }),
            Fault::LinkDown => self.after(pause, WorldEvent::Unreachable { process, server, yes: false }),
            _ => {}
        }
        let mut target = FaultTarget::next();
        if matches!(fault, Fault::Hold | Fault::Swallow) {
            // A caller looks after his call himself. For the background's the connection does, and ends when it takes too long.
            let plane = if self.rng.bool() { Plane::Foreground } else { Plane::Background };
            target = target.plane(plane);
            if plane == Plane::Background {
                self.after(pause + ms(150), WorldEvent::Reset { process, server, plane });
            }
        }
        link.inject(fault, target);
        self.armed.insert((process, server), kind);
    }

    /// Counts the faults that have hit a call.
    fn count_hits(&mut self) {
        let waits = |(process, server): (usize, usize)| self.processes[process].links[server].faults() > 0;
        let hit = self.armed.iter().filter(|(place, _)| !waits(**place)).map(|(_, kind)| *kind);
        hit.for_each(|kind| self.stats.fault(kind));
        self.armed.retain(|place, _| waits(*place));
    }

    /// Does to a server what is to happen to it. The fault that it is, if it is one.
    fn disturb_server(&mut self, number: usize, what: &WorldEvent) -> Option<FaultKind> {
        let server = self.servers[number].clone();
        Some(match *what {
            WorldEvent::Down { pause, .. } => {
                self.take_away(number, pause);
                FaultKind::Restart
            }
            WorldEvent::Up { .. } => {
                if self.is_there(number) {
                    server.set_down(false);
                    self.keep_the_dead_away();
                }
                return None;
            }
            WorldEvent::EmptyForLong { .. } => {
                self.take_away(number, LONG);
                // If its clock was put back, there are holds that last for longer than it stays away.
                if self.put_back[number] > Duration::ZERO {
                    self.doubt(number, None);
                }
                server.restart_empty();
                FaultKind::RestartEmpty
            }
            WorldEvent::MemoryFull { yes, .. } => {
                server.deny_growth(yes);
                if !yes {
                    return None;
                }
                FaultKind::MemoryFull
            }
            WorldEvent::Snapshot { .. } => {
                self.snapshots[number] = Some(server.snapshot());
                return None;
            }
            WorldEvent::RestartEmpty { .. } => {
                self.doubt(number, None);
                server.restart_empty();
                FaultKind::RestartEmpty
            }
            WorldEvent::Failover { .. } => {
                let snapshot = self.snapshots[number].take()?;
                self.doubt(number, None);
                server.restore(&snapshot);
                FaultKind::Failover
            }
            WorldEvent::StepServer { millis, .. } => {
                // A hold that lasts for longer is still that of its holder.
                if millis > WITHIN_MARGIN {
                    self.doubt(number, None);
                }
                server.step_clock(millis);
                self.put_back[number] += Duration::from_millis(millis.min(0).unsigned_abs());
                FaultKind::ServerStep
            }
            _ => return self.evict(number),
        })
    }

    /// A key of a server goes away.
    fn evict(&mut self, number: usize) -> Option<FaultKind> {
        let server = self.servers[number].clone();
        let keys = server.keys();
        if keys.is_empty() {
            return None;
        }
        let key = &keys[self.rng.usize(..keys.len())];
        self.doubt(number, Some(key));
        server.command(&[b"DEL", key]).expect("a reply");
        Some(FaultKind::Eviction)
    }

    fn take_away(&mut self, server: usize, pause: Duration) {
        self.servers[server].set_down(true);
        let until = self.now + pause;
        self.away[server] = self.away[server].max(until);
        self.after(pause, WorldEvent::Up { server });
    }

    /// Whether a server is not away.
    fn is_there(&self, server: usize) -> bool {
        self.away[server] <= self.now
    }

    /// A server that comes back connects all again, but for those that are dead.
    fn keep_the_dead_away(&self) {
        let dead = self.processes.iter().filter(|process| process.dead);
        dead.flat_map(|process| &process.links).for_each(|link| link.set_down(true));
    }

    fn crash(&mut self, process: usize) {
        if self.plan.over || self.processes[process].dead {
            return;
        }
        self.processes[process].crash();
        self.stats.fault(FaultKind::Crash);
    }

    fn pause(&mut self, process: usize, pause: Duration, counts: bool) {
        let now = self.now;
        let state = &mut self.processes[process];
        if self.plan.over || !state.runs() {
            return;
        }
        state.stands_since = Some(now);
        state.clock_stands = !counts;
        // A process that loses time believes for too long.
        state.clock_is_wrong |= !counts;
        self.stats.fault(FaultKind::Pause);
        self.after(pause, WorldEvent::Resume { process });
    }

    fn set_clock(&mut self, process: usize, ppm: i64, jump: Duration) {
        let now = self.now;
        let state = &mut self.processes[process];
        if !state.runs() {
            return;
        }
        if jump > Duration::ZERO {
            state.clock.jump(now, jump);
            self.stats.fault(FaultKind::ClockJump);
            return;
        }
        state.clock.set_rate(now, ppm);
        let outside = ppm.abs() > MARGIN_PPM;
        // A clock that is too fast gives up early.
        state.clock_is_wrong |= outside && ppm < 0;
        self.stats.fault(if outside { FaultKind::ClockOutside } else { FaultKind::ClockRate });
    }

    /// Nothing goes wrong any more: messages on the way arrive, and all are connected, but to a server that is away for a while yet.
    pub(super) fn end_faults(&mut self) {
        self.count_hits();
        for server in 0..self.servers.len() {
            self.servers[server].deny_growth(false);
            for process in &self.processes {
                let link = &process.links[server];
                link.clear_faults();
                link.lose_notices(0);
                link.release_held();
                if self.is_there(server) {
                    link.set_down(false);
                    link.reset(Plane::Background);
                }
            }
        }
        self.keep_the_dead_away();
    }
}
