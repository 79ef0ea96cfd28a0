use super::*;
use std::time::Duration;

const NOW: Instant = Instant::from_nanos(1_000_000_000);
const SOON: Instant = Instant::from_nanos(2_000_000_000);
const LATER: Instant = Instant::from_nanos(3_000_000_000);

/// A line whose contender is in this phase, and behind which another request waits.
fn line(phase: Phase) -> (Line, Ticket, Ticket) {
    let (contender, other) = (Ticket::new(1), Ticket::new(2));
    let mut line = Line::default();
    line.begin(contender, SOON);
    line.push(other, End::Back);
    line.phase = phase;
    (line, contender, other)
}

const PHASES: [Phase; 7] = [
    Phase::Due(SOON),
    Phase::Trying,
    Phase::Subscribing,
    Phase::Sleeping(LATER),
    Phase::Ahead(LATER),
    Phase::BackingOff(LATER),
    Phase::Gated,
];

#[test]
fn contender_leaving_opens_the_turn_only_where_it_was_its_turn() {
    for phase in PHASES {
        let (mut line, contender, other) = line(phase);
        let expected = match phase {
            Phase::Due(_) | Phase::Trying => AfterLeaving::TurnIsOpen,
            _ => AfterLeaving::NextWaits,
        };
        assert_eq!(line.leave(NOW, contender), expected, "{phase:?}");
        assert!(line.contender().is_none() && line.phase() != Phase::Trying, "{phase:?}");
        line.pick(|_| true);
        assert!(line.is_contender(other) && line.queue().is_empty(), "{phase:?}");
    }
}

#[test]
fn waiter_leaving_changes_nothing_for_the_contender() {
    for phase in PHASES {
        let (mut line, contender, other) = line(phase);
        assert_eq!(line.leave(NOW, other), AfterLeaving::Unchanged);
        assert!(line.is_contender(contender) && line.phase() == phase);
    }
}

#[test]
fn last_waiter_leaving_empties_the_line() {
    let (mut line, contender, other) = line(Phase::Due(SOON));
    assert_eq!(line.leave(NOW, contender), AfterLeaving::TurnIsOpen);
    line.pick(|_| false);
    assert_eq!((line.contender(), line.len()), (None, 1), "its future is not polled");
    assert_eq!(line.timeout(), None, "an open turn does not lapse");
    assert_eq!(line.leave(NOW, other), AfterLeaving::Empty);
    line.end();
    assert_eq!(line.phase(), Phase::Idle);
}

#[test]
fn notice_wakes_a_sleeper_and_is_kept_for_an_attempt_under_way() {
    for phase in PHASES {
        let (mut line, ..) = line(phase);
        assert_eq!(line.note_notice(), matches!(phase, Phase::Sleeping(_) | Phase::Ahead(_)), "{phase:?}");
        line.wait(true, SOON, LATER);
        let asks_again = phase == Phase::Trying;
        assert_eq!(line.phase(), if asks_again { Phase::Due(SOON) } else { Phase::Sleeping(LATER) }, "{phase:?}");
    }
}

#[test]
fn confirmed_subscription_ends_a_wait_and_is_kept_for_an_attempt_under_way() {
    for phase in PHASES {
        let (mut line, ..) = line(phase);
        let waits = matches!(phase, Phase::Subscribing | Phase::Sleeping(_) | Phase::Ahead(_));
        assert_eq!(line.note_confirmed(), waits, "{phase:?}");
        line.wait(true, SOON, LATER);
        let asks_again = phase == Phase::Trying;
        assert_eq!(line.phase(), if asks_again { Phase::Due(SOON) } else { Phase::Sleeping(LATER) }, "{phase:?}");
    }
}

#[test]
fn attempt_forgets_the_notices_before_it() {
    let (mut line, ..) = line(Phase::Trying);
    assert!(!line.note_notice());
    line.begin_attempt();
    line.wait(true, SOON, LATER);
    assert_eq!(line.phase(), Phase::Sleeping(LATER));
}

#[test]
fn missed_notices_shorten_every_rest() {
    for phase in PHASES {
        let (mut line, ..) = line(phase);
        line.note_missed_notices(SOON);
        let expected = match phase {
            Phase::Sleeping(_) => Phase::Sleeping(SOON),
            Phase::Ahead(_) => Phase::Ahead(SOON),
            Phase::BackingOff(_) => Phase::BackingOff(SOON),
            other => other,
        };
        assert_eq!(line.phase(), expected);
        line.note_missed_notices(SOON + Duration::from_secs(9));
        assert_eq!(line.phase(), expected, "none is made longer");
    }
}

#[test]
fn unconfirmed_subscription_is_waited_for_before_anything_else() {
    let (mut line, ..) = line(Phase::Trying);
    assert!(!line.note_notice());
    line.wait(false, SOON, LATER);
    assert_eq!(line.phase(), Phase::Subscribing);
}

#[test]
fn sleeper_asks_ahead_and_keeps_the_end_of_its_sleep() {
    for phase in PHASES {
        let (mut line, contender, _) = line(phase);
        let asks = line.ask_ahead();
        assert_eq!(asks, matches!(phase, Phase::Sleeping(_)), "{phase:?}");
        if asks {
            assert!(line.is_turn_of(contender) && !line.is_due(), "a turn that nothing was offered for does not lapse");
            assert_eq!(line.timeout(), Some(LATER));
        }
    }
}

#[test]
fn contender_refused_ahead_waits_for_notices_longer() {
    let (mut line, ..) = line(Phase::Sleeping(LATER));
    for asks in [true, false, true, false, false, true] {
        assert_eq!(line.ask_ahead(), asks);
        if asks {
            line.begin_attempt();
            line.wait(true, SOON, LATER);
        }
    }
}
