use super::*;

mod subscriptions {
    use super::*;
    use crate::link::ServerError;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    /// Subscriptions, and what they hand out.
    struct Bench {
        subscriptions: Subscriptions,
        out: Out,
        timers: Timers,
    }

    impl Bench {
        fn new() -> Self {
            Self { subscriptions: Subscriptions::new(), out: Out::default(), timers: Timers::default() }
        }

        fn listen(&mut self, lock: usize, name: &'static str) {
            self.subscriptions.listen(LockId::new(lock), &Bytes::from_static(name.as_bytes()), &mut self.out);
        }

        fn drop_all(&mut self, lock: usize) {
            self.subscriptions.retain(LockId::new(lock), |_| false, &mut self.out);
        }

        fn subscribed(&mut self, name: &'static str, result: Result<(), LinkError>) -> Answered {
            let name = Bytes::from_static(name.as_bytes());
            self.subscriptions.subscribed(NOW, &name, &result, || 0.5, &mut self.out, &mut self.timers)
        }

        fn unsubscribed(&mut self, name: &'static str, result: Result<(), LinkError>) {
            let name = Bytes::from_static(name.as_bytes());
            self.subscriptions.unsubscribed(NOW, &name, &result, || 0.5, &mut self.out, &mut self.timers);
        }

        /// The commands for the server since the last look: `+` subscribes, `-` unsubscribes.
        fn commands(&mut self) -> Vec<String> {
            assert!(self.subscriptions.is_sound());
            let text = |name: &Bytes| String::from_utf8_lossy(name).into_owned();
            let actions = std::iter::from_fn(|| self.out.actions.pop_front());
            let commands = actions.map(|action| match action {
                Action::Subscribe { channel } => format!("+{}", text(&channel)),
                Action::Unsubscribe { channel } => format!("-{}", text(&channel)),
                other => panic!("{other:?}"),
            });
            commands.collect()
        }
    }

    #[test]
    fn locks_share_a_subscription_and_the_last_one_ends_it() {
        let mut bench = Bench::new();
        bench.listen(1, "a");
        bench.listen(2, "a");
        assert_eq!(bench.commands(), ["+a"]);
        assert!(!bench.subscriptions.is_confirmed(LockId::new(1)));
        assert_eq!(bench.subscribed("a", Ok(())), Answered::Confirmed(vec![LockId::new(1), LockId::new(2)]));
        assert!(bench.subscriptions.is_confirmed(LockId::new(2)));
        bench.drop_all(1);
        assert_eq!(bench.commands(), [""; 0]);
        bench.drop_all(2);
        assert_eq!(bench.commands(), ["-a"]);
        bench.unsubscribed("a", Ok(()));
        assert!(bench.subscriptions.is_empty());
    }

    #[test]
    fn listener_during_an_unsubscription_subscribes_after_it() {
        let mut bench = Bench::new();
        bench.listen(1, "a");
        let confirmed = bench.subscribed("a", Ok(()));
        assert_eq!(confirmed, Answered::Confirmed(vec![LockId::new(1)]));
        bench.drop_all(1);
        bench.listen(2, "a");
        assert_eq!(bench.commands(), ["+a", "-a"], "one command at a time");
        bench.unsubscribed("a", Ok(()));
        assert_eq!(bench.commands(), ["+a"]);
    }

    #[test]
    fn subscription_asked_on_a_lost_connection_is_asked_again() {
        let mut bench = Bench::new();
        bench.listen(1, "a");
        bench.commands();
        bench.subscriptions.reset(&mut bench.out);
        assert_eq!(bench.commands(), [""; 0], "the command under way is answered first");
        assert_eq!(bench.subscribed("a", Ok(())), Answered::Nothing);
        assert_eq!(bench.commands(), ["+a"]);
        assert_eq!(bench.subscribed("a", Ok(())), Answered::Confirmed(vec![LockId::new(1)]));
        bench.subscriptions.reset(&mut bench.out);
        assert_eq!(bench.commands(), ["+a"]);
    }

    #[test]
    fn failed_subscription_is_retried_and_a_refused_one_is_not() {
        let mut bench = Bench::new();
        bench.listen(1, "a");
        bench.commands();
        let failed = bench.subscribed("a", Err(LinkError::NotSent("no connection".to_owned())));
        assert_eq!(failed, Answered::Failed(vec![LockId::new(1)]));
        assert_eq!((bench.subscriptions.timers(), bench.timers.len()), (1, 1));
        let Some(Timer::Channel(id)) = bench.timers.pop(NOW + Duration::from_secs(1)) else { panic!("a timer is set") };
        bench.subscriptions.is_due(id, &mut bench.out);
        assert_eq!(bench.commands(), ["+a"]);
        let refusal = ServerError::new("NOPERM No permissions to access a channel");
        let refused = bench.subscribed("a", Err(LinkError::Refused(refusal.clone())));
        assert_eq!(refused, Answered::Refused(vec![LockId::new(1)], refusal));
        assert_eq!(bench.commands(), ["-a"]);
        assert_eq!(bench.subscriptions.locks().count(), 0, "the lock listens no more");
    }
}
