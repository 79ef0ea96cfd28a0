//! The model as it is, to its end; and with each rule broken, to a counterexample.

use crate::checker::{Figures, check};
use crate::fault::Fault;
use crate::model::Model;
use crate::properties::PROPERTIES;

/// Two clients of today's protocol without re-entry, whose clocks drift, and one disturbance.
const TODAY: Model =
    Model { clients: 2, disturbances: 1, drift: true, reentry: false, hand_over: false, linger: false, fault: None };

/// The same with as little as there can be.
const QUIET: Model = Model { disturbances: 0, drift: false, ..TODAY };

/// The model keeps all properties, and has so many states. A number that changes says that the model has changed.
#[track_caller]
fn keeps_all(model: Model, states: usize) {
    match check(&model, "") {
        Ok(Figures { states: found, transitions }) => {
            assert_eq!(found, states, "states, and {transitions} transitions");
        }
        Err(found) => panic!("{} is broken:\n{}", found.property, found.steps.join("\n")),
    }
}

/// The broken model comes to a state in which this property does not hold.
#[track_caller]
fn breaks(fault: Fault, property: &str, model: Model) {
    assert!(PROPERTIES.iter().any(|one| one.name.contains(property)), "{property} is a property");
    let found = check(&Model { fault: Some(fault), ..model }, property);
    let found = found.expect_err("a broken rule is noticed");
    assert!(found.property.contains(property) && !found.steps.is_empty(), "{found:#?}");
}

#[test]
fn two_clients_keep_all_properties() {
    keeps_all(TODAY, 900_190);
}

#[test]
fn two_clients_that_reenter_keep_all_properties() {
    keeps_all(Model { reentry: true, ..QUIET }, 165_675);
}

#[test]
fn a_client_that_reenters_amid_a_fault_keeps_all_properties() {
    keeps_all(Model { clients: 1, reentry: true, ..TODAY }, 156_598);
}

#[test]
fn three_clients_keep_all_properties() {
    keeps_all(Model { clients: 3, ..QUIET }, 159_025);
}

#[test]
fn hand_over_keeps_all_properties() {
    keeps_all(Model { hand_over: true, drift: true, ..QUIET }, 720_204);
}

#[test]
fn lingering_leases_keep_all_properties() {
    keeps_all(Model { linger: true, ..QUIET }, 894_741);
}

#[test]
fn a_deadline_from_the_reply_outlives_the_lease() {
    breaks(Fault::DeadlineFromTheReply, "a deadline passes before the lease", QUIET);
    breaks(Fault::DeadlineFromTheReply, "at most one client believes", QUIET);
}

#[test]
fn a_deadline_without_a_margin_outlives_the_lease() {
    let drifting = Model { drift: true, ..QUIET };
    breaks(Fault::NoMargin, "a deadline passes before the lease", drifting);
    breaks(Fault::NoMargin, "at most one client believes", drifting);
}

#[test]
fn a_release_before_settling_leaves_a_hold_behind() {
    let disturbed = Model { disturbances: 1, ..QUIET };
    breaks(Fault::ReleaseBeforeSettling, "an unsettled change blocks", disturbed);
    breaks(Fault::ReleaseBeforeSettling, "no higher count", disturbed);
}

#[test]
fn a_late_copy_compared_by_client_frees_a_later_hold() {
    let disturbed = Model { disturbances: 1, ..QUIET };
    breaks(Fault::ComparedByClientOnly, "no message changes a hold", disturbed);
    breaks(Fault::ComparedByClientOnly, "a deadline passes before the lease", disturbed);
    breaks(Fault::ComparedByClientOnly, "at most one client believes", disturbed);
}

#[test]
fn a_renewal_after_the_deadline_brings_a_hold_back() {
    breaks(Fault::RenewalAfterTheDeadline, "a hold that is lost", QUIET);
}

#[test]
fn hand_over_without_a_bound_starves_the_other_client() {
    breaks(Fault::HandOverWithoutBound, "a bounded number of times", Model { hand_over: true, ..QUIET });
}

#[test]
fn a_lease_that_lingers_despite_a_request_is_noticed() {
    breaks(Fault::LingeringDespiteARequest, "no lease lingers", Model { linger: true, ..QUIET });
}
