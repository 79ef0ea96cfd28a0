use super::*;

mod subscriptions {
    use super::*;
    use crate::command::Kind;
    use crate::link::ServerError;
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::settings::Settings;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    /// A session with two locks, which listen to channels.
    struct Bench {
        session: Session,
        locks: [LockId; 2],
    }

    impl Bench {
        fn new() -> Self {
            let client = ClientId::new(uuid::Uuid::nil());
            let mut session = Session::new(client, Settings::default(), 1);
            let locks = ["one", "other"].map(|name| {
                let name = LockName::new("", name).expect("a name");
                session.locks.get_or_insert(&name, Kind::Lock, &client)
            });
            Self { session, locks }
        }

        fn listen(&mut self, lock: usize, name: &'static str) {
            let name = Bytes::from_static(name.as_bytes());
            self.session.subscriptions.listen(self.locks[lock], &name, &mut self.session.out);
        }

        fn drop_all(&mut self, lock: usize) {
            self.session.subscriptions.retain(self.locks[lock], |_| false, &mut self.session.out);
        }

        fn subscribed(&mut self, name: &'static str, result: Result<(), LinkError>) {
            self.session.handle_subscribed(NOW, &Bytes::from_static(name.as_bytes()), result);
        }

        fn unsubscribed(&mut self, name: &'static str, result: Result<(), LinkError>) {
            self.session.handle_unsubscribed(NOW, &Bytes::from_static(name.as_bytes()), result);
        }

        /// The locks whose subscriptions the server has confirmed.
        fn hear(&self) -> [bool; 2] {
            self.locks.map(|lock| self.session.subscriptions.hears(lock))
        }

        /// The commands for the server since the last call: `+` subscribes, `-` unsubscribes.
        fn commands(&mut self) -> Vec<String> {
            assert!(self.session.subscriptions.is_sound());
            let text = |name: &Bytes| String::from_utf8_lossy(name).into_owned();
            let actions = std::iter::from_fn(|| self.session.poll_action());
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
        bench.listen(0, "a");
        bench.listen(1, "a");
        assert_eq!(bench.commands(), ["+a"]);
        assert_eq!(bench.hear(), [false, false]);
        bench.subscribed("a", Ok(()));
        assert_eq!(bench.hear(), [true, true]);
        bench.drop_all(0);
        assert_eq!(bench.commands(), [""; 0]);
        bench.drop_all(1);
        assert_eq!(bench.commands(), ["-a"]);
        bench.unsubscribed("a", Ok(()));
        assert_eq!(bench.session.subscriptions.len(), 0);
    }

    #[test]
    fn listener_during_an_unsubscription_subscribes_after_it() {
        let mut bench = Bench::new();
        bench.listen(0, "a");
        bench.subscribed("a", Ok(()));
        assert_eq!(bench.hear(), [true, false]);
        bench.drop_all(0);
        bench.listen(1, "a");
        assert_eq!(bench.commands(), ["+a", "-a"], "one command at a time");
        bench.unsubscribed("a", Ok(()));
        assert_eq!(bench.commands(), ["+a"]);
    }

    #[test]
    fn subscription_asked_on_a_lost_connection_is_asked_again() {
        let mut bench = Bench::new();
        bench.listen(0, "a");
        bench.commands();
        bench.session.handle_event(NOW, LinkEvent::NoticesReset);
        assert_eq!(bench.commands(), [""; 0], "the command in flight is answered first");
        bench.subscribed("a", Ok(()));
        assert_eq!((bench.commands(), bench.hear()), (vec!["+a".to_owned()], [false, false]));
        bench.subscribed("a", Ok(()));
        assert_eq!(bench.hear(), [true, false]);
        bench.session.handle_event(NOW, LinkEvent::NoticesReset);
        assert_eq!(bench.commands(), ["+a"]);
    }

    #[test]
    fn failed_subscription_is_retried_and_a_refused_one_is_not() {
        let mut bench = Bench::new();
        bench.listen(0, "a");
        bench.commands();
        bench.subscribed("a", Err(LinkError::NotSent("no connection".to_owned())));
        let event = bench.session.poll_event();
        assert!(matches!(event, Some(Event::SubscribeFailed(_, Failure { lasting: false, .. }))), "{event:?}");
        assert_eq!((bench.session.subscriptions.timers(), bench.session.timers.len()), (1, 1));
        bench.session.handle_timeout(NOW + Duration::from_secs(1));
        assert_eq!(bench.commands(), ["+a"]);
        let refusal = ServerError::new("NOPERM No permissions to access a channel");
        bench.subscribed("a", Err(LinkError::Refused(refusal)));
        assert_eq!(bench.commands(), ["-a"]);
        assert_eq!(bench.session.subscriptions.locks().count(), 0, "the lock listens no more");
    }
}
