use super::client::{ANYBODY, Belief, Message, identity};
use super::script::Subject;
use super::search::{Fault, Figures, explore_and_show, explore_broken};
use super::server::Broken;
use super::{Options, explore};

pub(super) fn small(subject: Subject, clients: usize, disturbances: u8, losses: u8) -> Options {
    Options { clients, disturbances, losses, ..Options::new(subject) }
}

fn nothing_found(options: &Options) -> Figures {
    let figures = explore(options).unwrap_or_else(|fault| panic!("{options:?}: {fault}"));
    assert!(figures.ends > 0, "{figures}");
    figures
}

/// The findings if a script is not what it should be. It is found as well where no way is left out.
fn found(options: &Options, broken: Broken) -> Fault {
    let found = |options: &Options| *explore_broken(options, Some(broken)).expect_err("nothing was found");
    let (fault, other) = (found(options), found(&Options { reduced: false, ..options.clone() }));
    let bare = |fault: &Fault| fault.what.replace(|digit: char| digit.is_ascii_digit(), "");
    assert_eq!(bare(&fault), bare(&other), "{fault}\n{other}");
    fault
}

/// A script with one part in the place of another, which it must have.
fn with(source: &str, part: &str, other: &str) -> String {
    assert!(source.contains(part), "the script has no {part:?}");
    source.replace(part, other)
}

#[test]
fn two_clients_are_in_nobodys_way() {
    for subject in Subject::ALL {
        nothing_found(&small(subject, 2, 0, 0));
    }
}

#[test]
fn two_clients_of_which_one_loses_a_connection() {
    nothing_found(&small(Subject::Permits, 2, 0, 1));
    nothing_found(&small(Subject::Fair, 2, 0, 1));
}

#[test]
fn entry_answered_after_the_deadline_is_not_handed_out() {
    nothing_found(&small(Subject::Reentrant, 1, 1, 0));
}

#[test]
fn three_clients_are_in_nobodys_way() {
    nothing_found(&small(Subject::Reentrant, 3, 0, 0));
    nothing_found(&small(Subject::Permits, 3, 0, 0));
}

#[test]
fn fair_waiter_hears_its_turn_despite_an_older_beat() {
    nothing_found(&small(Subject::Fair, 3, 0, 0));
}

#[test]
fn two_clients_of_which_one_crashes_or_is_late() {
    nothing_found(&small(Subject::Permits, 2, 1, 0));
    nothing_found(&small(Subject::Reentrant, 2, 1, 0));
}

#[test]
fn a_hold_that_is_handed_on_is_in_nobodys_way() {
    for (clients, disturbances, losses) in [(1, 0, 1), (2, 0, 0)] {
        let mut handed_on = 0;
        let options = small(Subject::HandOver, clients, disturbances, losses);
        let figures = explore_and_show(&options, None, |world, state| {
            // The server still knows it by the number that it had first.
            let is_handed_on = |belief: &Belief| belief.field.as_bytes() != identity(ANYBODY).field(belief.hold);
            handed_on += world.living(state).filter(|(_, seen)| seen.beliefs.iter().any(is_handed_on)).count();
        });
        let figures = figures.unwrap_or_else(|fault| panic!("{options:?}: {fault}"));
        assert!(handed_on > 0, "{figures}");
    }
}

#[test]
fn a_hold_that_lingers_is_in_nobodys_way() {
    for (clients, disturbances, losses) in [(1, 0, 1), (2, 0, 0)] {
        let (mut lingered, mut taken, mut asked) = (0, 0, 0);
        let options = small(Subject::Linger, clients, disturbances, losses);
        let figures = explore_and_show(&options, None, |world, state| {
            lingered += world.living(state).filter(|(_, seen)| seen.lingers).count();
            // The server still knows it by the number that it had first.
            let is_taken =
                |belief: &Belief| !belief.field.as_bytes().starts_with(&identity(ANYBODY).field(belief.hold));
            taken += world.living(state).filter(|(_, seen)| seen.beliefs.iter().any(is_taken)).count();
            asked += (0..clients)
                .filter(|client| world.face(state, *client).member.notices.contains(&Message::Wanted))
                .count();
        });
        let figures = figures.unwrap_or_else(|fault| panic!("{options:?}: {fault}"));
        assert!(lingered > 0 && taken > 0 && (asked > 0) == (clients > 1), "{lingered} {taken} {asked}: {figures}");
    }
}

#[test]
fn a_release_that_misses_a_lingering_hold_is_found() {
    let misses: Broken = ("lock/release", |source| {
        with(source, "redis.pcall('HGET', lock_key, hold)", "redis.pcall('HGET', lock_key, (hold:gsub('~$', '')))")
    });
    let fault = found(&small(Subject::Linger, 1, 0, 0), misses);
    assert!(fault.what.contains("which client 0 has released"), "{fault}");
}

#[test]
fn what_is_left_out_comes_to_nothing_new() {
    let small_ones = Subject::ALL.map(|subject| match subject {
        // Two tasks of one client have many more ways to go on, and so has a client whose holds linger.
        Subject::HandOver | Subject::Linger => [(subject, 1, 1, 0), (subject, 2, 0, 0)],
        _ => [(subject, 1, 2, 1), (subject, 2, 0, 1)],
    });
    let larger = [(Subject::Reentrant, 2, 1, 0), (Subject::Permits, 2, 1, 0), (Subject::Fair, 2, 1, 0)];
    for (subject, clients, disturbances, losses) in small_ones.into_iter().flatten().chain(larger) {
        let options = small(subject, clients, disturbances, losses);
        let whole = nothing_found(&Options { reduced: false, ..options.clone() });
        let reduced = nothing_found(&options);
        assert_eq!(reduced.outcomes, whole.outcomes, "{options:?}: {reduced}; {whole}");
        assert!(reduced.states < whole.states, "{reduced}; {whole}");
    }
}

#[test]
fn the_same_world_has_the_same_figures() {
    let options = small(Subject::Permits, 2, 0, 0);
    let [one, other] = [nothing_found(&options), nothing_found(&options)];
    assert_eq!((one.states, one.transitions, one.ends), (other.states, other.transitions, other.ends));
}

#[test]
fn a_release_that_tells_nobody_is_found() {
    let quiet: Broken = ("lock/release", |source| with(source, "redis.call(publish, channel, '0')", "0"));
    let fault = found(&small(Subject::Reentrant, 2, 0, 0), quiet);
    assert!(fault.what.contains("waits for time to pass"), "{fault}");
}

#[test]
fn an_acquire_that_adds_up_is_found() {
    let adds: Broken = ("lock/acquire", |source| {
        let source = with(source, "if stored == ask.count then\n    return {2, left}\n  end", "");
        with(&source, "redis.call('HSET', key, ask.hold, ask.count)", "redis.call('HINCRBY', key, ask.hold, 1)")
    });
    let fault = found(&small(Subject::Reentrant, 1, 0, 1), adds);
    assert!(fault.what.contains("the server has Some(2)"), "{fault}");
    assert!(fault.way.iter().any(|choice| choice.contains("loses")), "{fault}");
}

#[test]
fn a_release_that_ignores_the_owner_is_found() {
    let ignores: Broken = ("lock/release", |source| {
        with(source, "redis.pcall('HGET', lock_key, hold)", "redis.call('HGETALL', lock_key)[2] or false")
    });
    let fault = found(&small(Subject::Reentrant, 2, 1, 0), ignores);
    assert!(fault.what.contains("the server has None"), "{fault}");
}

#[test]
fn a_lock_that_outlives_its_holder_is_found() {
    let stays: Broken =
        ("lock/acquire", |source| with(source, "redis.pcall('PEXPIRE', key, lease)", "redis.call('PERSIST', key)"));
    let fault = found(&small(Subject::Reentrant, 2, 1, 0), stays);
    assert!(fault.way.iter().any(|choice| choice.contains("crash")), "{fault}");
}

#[test]
fn permits_that_a_copy_gives_back_again_are_found() {
    let again: Broken = ("permits/release", |source| {
        let source = with(source, "if #held > 0 then\n  give_back", "if #all > 0 then\n  give_back");
        with(&source, "give_back(permits_key, deadlines_key, held)", "give_back(permits_key, deadlines_key, all)")
    });
    let fault = found(&small(Subject::Permits, 2, 0, 1), again);
    assert!(fault.what.contains("permits are available"), "{fault}");
    assert!(fault.way.iter().any(|choice| choice.contains("loses")), "{fault}");
}

/// The acquire of the fair lock without its short way.
fn with_long_way(source: &str, part: &str, other: &str) -> String {
    with(&with(source, "acquire_shortly(KEYS, ARGV)", "nil"), part, other)
}

#[test]
fn a_newcomer_that_overtakes_is_found() {
    let overtakes: Broken = ("fair/acquire", |source| {
        let place = "return acquire_place(fair, ask, ARGV[7]) or";
        let taken = "redis.call('EXISTS', fair.lock) == 1 or redis.call('LLEN', fair.queue) == 0";
        with_long_way(source, place, &format!("return ({taken}) and acquire_place(fair, ask, ARGV[7]) or"))
    });
    let fault = found(&small(Subject::Fair, 3, 0, 0), overtakes);
    assert!(fault.what.contains("overtook"), "{fault}");
}

#[test]
fn a_fair_lock_that_two_have_is_found() {
    let generous: Broken =
        ("fair/acquire", |source| with_long_way(source, "return acquire_place(fair, ask, ARGV[7]) or", "return"));
    let fault = found(&small(Subject::Fair, 2, 0, 0), generous);
    assert!(fault.what.contains("believe"), "{fault}");
}

#[test]
fn a_reader_beside_another_clients_writer_is_found() {
    let blind: Broken =
        ("read/acquire", |source| with(source, "if mode == 'write' and not beside then", "if false then"));
    let fault = found(&small(Subject::ReadWrite, 2, 0, 0), blind);
    assert!(fault.what.contains("believe"), "{fault}");
}

#[test]
fn permits_that_nobody_has_are_found() {
    let generous: Broken =
        ("permits/acquire", |source| with(source, "if available < #all or too_late then", "if too_late then"));
    let fault = found(&small(Subject::Permits, 2, 0, 0), generous);
    assert!(fault.what.contains("permits"), "{fault}");
}
