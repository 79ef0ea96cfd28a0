use super::script::Subject;
use super::search::explore_broken;
use super::{Options, explore};

fn small(subject: Subject) -> Options {
    Options { clients: 2, disturbances: 1, losses: 1, ..Options::new(subject) }
}

#[test]
fn two_clients_of_every_subject_find_nothing() {
    for subject in Subject::ALL {
        let figures = explore(&small(subject)).unwrap_or_else(|fault| panic!("{subject}: {fault}"));
        assert!(figures.ends > 0, "{subject}: {figures}");
        eprintln!("{subject}: {figures}");
    }
}
