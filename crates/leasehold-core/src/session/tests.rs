use super::*;

mod parts {
    use crate::hold_cell::HoldCell;
    use crate::session::AcquireRequest;
    use crate::session::hold::Hold;
    use crate::session::lock::Lock;
    use crate::session::request::Request;

    /// A client may hold a hundred thousand locks, and as many of its tasks may wait: each of these has one of its own.
    #[test]
    fn what_there_is_much_of_is_small() {
        let sizes = [
            ("a hold", size_of::<Hold>(), 240),
            ("its cell", size_of::<HoldCell>(), 128),
            ("a lock", size_of::<Lock>(), 96),
            ("a request", size_of::<Request>(), 200),
            ("its parameters", size_of::<AcquireRequest>(), 216),
        ];
        for (what, size, most) in sizes {
            assert!(size <= most, "{what} has {size} bytes, and may have {most}");
        }
    }
}

mod window {
    use super::*;

    #[test]
    fn window_grows_while_replies_are_quick() {
        let round_trip = Duration::from_millis(100);
        let mut window = Window::new(64..=1_024);
        assert!(window.has_room(63) && !window.has_room(64));
        (0..2_000).for_each(|_| window.answered(round_trip));
        assert!(window.has_room(1_023) && !window.has_room(1_024), "it has another end");
        (0..24).for_each(|_| window.answered(round_trip * 2 + Duration::from_millis(1)));
        assert!(window.has_room(999) && !window.has_room(1_000), "a queue at the server does not make it smaller");
        window.not_answered();
        assert!(window.has_room(63) && !window.has_room(64), "a reply that is missing does not close it");
        (0..10).for_each(|_| window.answered(round_trip));
        window.reset();
        assert!(!window.has_room(64), "the next crowd does not begin anew");
        window.answered(round_trip * 3);
        assert!(window.has_room(64), "the next crowd is measured by the last one's round trip");
    }
}

mod retry {
    use super::*;

    #[test]
    fn pauses_double_up_to_half_a_second() {
        let pauses = [0, 1, 2, 3, 6, 7, u32::MAX].map(|attempt| pause_before(attempt).as_millis());
        assert_eq!(pauses, [10, 10, 20, 40, 320, 500, 500]);
    }
}
