//! Requests meet under the layer, on the embedded engine: one that answers at once, and one that takes 20 ms, in tokio's paused time.

use http::{Request, Response, StatusCode};
use leasehold::embedded::{EmbeddedServer, ServerClock};
use leasehold::{Client, Fallback, Lock, LossReason};
use leasehold_tower::{Grpc, HeldLock, Http, LockLayer, LostLock, OnLoss, Refusal, header};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tower::{Layer, ServiceExt, service_fn};

const HEADER: &str = "idempotency-key";

/// How long the inner service works.
const WORK: Duration = Duration::from_secs(1);

/// A server with a client of each of two processes.
struct World {
    server: EmbeddedServer,
    client: Client,
    other: Client,
    round_trip: Duration,
    /// Requests that the inner service has begun, has ended, and serves at the moment.
    begun: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
    inside: Arc<AtomicUsize>,
}

type Answer = Result<Response<String>, Infallible>;

impl World {
    fn new(round_trip: Duration, lease: Duration) -> Self {
        let zero = Instant::now();
        let server = EmbeddedServer::with_clock(ServerClock::tokio(zero));
        server.set_round_trip(round_trip);
        let client = || {
            let settings = Client::builder().tokio_clock(zero).lease(lease).unreachable_after(WORK);
            settings.embedded(&server).expect("a client")
        };
        let (client, other) = (client(), client());
        let count = Arc::<AtomicUsize>::default;
        Self { server, client, other, round_trip, begun: count(), ended: count(), inside: count() }
    }

    fn key(&self) -> impl Fn(&http::request::Parts) -> Option<Lock> + Clone + Send + Sync + use<> {
        header(&self.client, HEADER, "order:")
    }

    /// Works for a second, and answers with the name of its lock.
    fn inner(
        &self,
    ) -> impl tower::Service<Request<String>, Response = Response<String>, Error = Infallible, Future: Send>
    + Clone
    + Send
    + use<> {
        let (begun, ended, inside) = (self.begun.clone(), self.ended.clone(), self.inside.clone());
        service_fn(move |request: Request<String>| {
            let (begun, ended, inside) = (begun.clone(), ended.clone(), inside.clone());
            async move {
                begun.fetch_add(1, Ordering::Relaxed);
                let place = Place::take(&inside);
                sleep(WORK).await;
                drop(place);
                ended.fetch_add(1, Ordering::Relaxed);
                let name = request.extensions().get::<HeldLock>().map(|held| held.name().to_owned());
                Ok(Response::new(name.unwrap_or_default()))
            }
        })
    }

    /// A service, as one process has it.
    fn service<F, R>(&self, layer: LockLayer<F, R>) -> impl Fn(Option<&str>) -> ServedRequest
    where
        LockLayer<F, R>: Clone,
        F: Fn(&http::request::Parts) -> Option<Lock> + Clone + Send + 'static,
        R: leasehold_tower::Refuse<String> + Clone + Send + 'static,
    {
        let service = layer.layer(self.inner());
        move |key| Box::pin(service.clone().oneshot(request(key)))
    }

    fn begun(&self) -> usize {
        self.begun.load(Ordering::Relaxed)
    }

    fn ended(&self) -> usize {
        self.ended.load(Ordering::Relaxed)
    }

    /// Waits until the inner service works.
    async fn working(&self) {
        while self.inside.load(Ordering::Relaxed) == 0 {
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Nothing is left once what is on its way has arrived.
    async fn assert_free(&self) {
        sleep(self.round_trip * 4 + Duration::from_millis(50)).await;
        assert_eq!(self.server.keys(), [""; 0]);
    }
}

type ServedRequest = std::pin::Pin<Box<dyn Future<Output = Answer> + Send>>;

/// A request inside of the inner service.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(inside: &Arc<AtomicUsize>) -> Self {
        inside.fetch_add(1, Ordering::Relaxed);
        Self(inside.clone())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn request(key: Option<&str>) -> Request<String> {
    let request = Request::post("/orders");
    let request = key.into_iter().fold(request, |request, key| request.header(HEADER, key));
    request.body(String::new()).expect("a request")
}

fn status(answer: &Answer) -> StatusCode {
    answer.as_ref().expect("an answer").status()
}

fn refusal(answer: &Answer) -> Option<Refusal> {
    answer.as_ref().expect("an answer").extensions().get().cloned()
}

/// Runs a test on an engine that answers at once, and on one that takes its time.
fn in_both(test: impl AsyncFn(World)) {
    in_both_with(WORK * 30, test);
}

/// As [`in_both`], with a lease of choice.
fn in_both_with(lease: Duration, test: impl AsyncFn(World)) {
    for millis in [0, 20] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.expect("a runtime").block_on(async { test(World::new(Duration::from_millis(millis), lease)).await });
    }
}

#[test]
fn a_second_request_with_the_key_is_refused_at_once() {
    in_both(async |world| {
        let send = world.service(LockLayer::new(world.key()));
        let elsewhere = world.service(LockLayer::new(header(&world.other, HEADER, "order:")));
        let (first, second, third) = tokio::join!(
            send(Some("a")),
            async {
                world.working().await;
                let begun = Instant::now();
                let answer = send(Some("a")).await;
                assert!(begun.elapsed() <= world.round_trip * 2, "it does not wait: {:?}", begun.elapsed());
                answer
            },
            async {
                world.working().await;
                elsewhere(Some("a")).await
            }
        );
        assert_eq!(status(&first), StatusCode::OK);
        assert_eq!(first.unwrap().into_body(), "order:a", "the handler sees its lock");
        for refused in [second, third] {
            assert_eq!(status(&refused), StatusCode::LOCKED);
            assert_eq!(refusal(&refused), Some(Refusal::Busy { lock: "order:a".to_owned() }));
        }
        assert_eq!(world.begun(), 1, "the inner service saw the first alone");
        world.assert_free().await;
    });
}

#[test]
fn the_lock_is_free_when_the_answer_is_there() {
    in_both(async |world| {
        let send = world.service(LockLayer::new(world.key()));
        assert_eq!(status(&send(Some("a")).await), StatusCode::OK);
        assert_eq!(world.server.keys(), [""; 0]);
        assert_eq!(status(&send(Some("a")).await), StatusCode::OK);
    });
}

#[test]
fn requests_that_wait_are_served_one_after_the_other() {
    in_both(async |world| {
        let send = world.service(LockLayer::new(world.key()).wait(WORK * 10));
        let begun = Instant::now();
        let (a, b, c) = tokio::join!(send(Some("a")), send(Some("a")), send(Some("a")));
        for answer in [&a, &b, &c] {
            assert_eq!(status(answer), StatusCode::OK);
        }
        assert!(begun.elapsed() >= WORK * 3, "one at a time: {:?}", begun.elapsed());
        world.assert_free().await;
    });
}

#[test]
fn a_wait_has_an_end_and_a_status_of_choice() {
    in_both(async |world| {
        let layer = LockLayer::new(world.key()).wait(WORK / 2).refuse_with(Http::new().busy(StatusCode::CONFLICT));
        let send = world.service(layer);
        let (first, second) = tokio::join!(send(Some("a")), async {
            world.working().await;
            let begun = Instant::now();
            let answer = send(Some("a")).await;
            assert!(begun.elapsed() >= WORK / 2 && begun.elapsed() < WORK, "{:?}", begun.elapsed());
            answer
        });
        assert_eq!([status(&first), status(&second)], [StatusCode::OK, StatusCode::CONFLICT]);
        assert_eq!(world.begun(), 1);
    });
}

#[test]
fn requests_with_other_keys_run_at_the_same_time() {
    in_both(async |world| {
        let send = world.service(LockLayer::new(world.key()));
        let begun = Instant::now();
        let (a, b) = tokio::join!(send(Some("a")), send(Some("b")));
        assert_eq!([status(&a), status(&b)], [StatusCode::OK; 2]);
        assert!(begun.elapsed() < WORK * 2, "{:?}", begun.elapsed());
    });
}

#[test]
fn a_request_without_a_key_is_served_or_refused() {
    in_both(async |world| {
        let send = world.service(LockLayer::new(world.key()));
        let answer = send(None).await;
        assert_eq!(answer.unwrap().into_body(), "", "it is served without a lock");
        let send = world.service(LockLayer::new(world.key()).require_key());
        let answer = send(None).await;
        assert_eq!((status(&answer), refusal(&answer)), (StatusCode::BAD_REQUEST, Some(Refusal::NoKey)));
        assert_eq!(world.begun(), 1);
    });
}

#[test]
fn a_key_that_names_no_lock_is_a_bad_request() {
    in_both(async |world| {
        let send = world.service(LockLayer::new(header(&world.client, HEADER, "")));
        let answer = send(Some("")).await;
        assert_eq!(status(&answer), StatusCode::BAD_REQUEST);
        assert!(matches!(refusal(&answer), Some(Refusal::InvalidKey(_))));
        assert_eq!(world.begun(), 0);
    });
}

#[test]
fn a_response_future_that_is_dropped_releases() {
    in_both(async |world| {
        let send = world.service(LockLayer::new(world.key()));
        // In the middle of the acquire, right after it, and in the middle of the work.
        for millis in [1, 10, 21, 500] {
            assert!(timeout(Duration::from_millis(millis), send(Some("a"))).await.is_err());
            assert_eq!(world.inside.load(Ordering::Relaxed), 0, "the inner future is dropped");
            world.assert_free().await;
        }
        assert_eq!(status(&send(Some("a")).await), StatusCode::OK);
    });
}

#[test]
fn a_waiting_request_that_is_dropped_takes_nothing() {
    in_both(async |world| {
        let send = world.service(LockLayer::new(world.key()).wait(WORK * 10));
        let (first, ()) = tokio::join!(send(Some("a")), async {
            world.working().await;
            assert!(timeout(WORK / 4, send(Some("a"))).await.is_err());
        });
        assert_eq!(status(&first), StatusCode::OK);
        world.assert_free().await;
        assert_eq!(world.begun(), 1);
    });
}

#[test]
fn a_panic_of_the_inner_service_releases() {
    in_both(async |world| {
        let panics = service_fn(async |_: Request<String>| -> Answer {
            sleep(WORK / 2).await;
            panic!("the handler panics")
        });
        let service = LockLayer::new(world.key()).layer(panics);
        let served = tokio::spawn(service.oneshot(request(Some("a")))).await;
        assert!(served.is_err_and(|error| error.is_panic()));
        world.assert_free().await;
    });
}

#[test]
fn an_error_of_the_inner_service_goes_out_and_releases() {
    in_both(async |world| {
        let fails = service_fn(async |_: Request<String>| Err::<Response<String>, _>("the handler fails"));
        let service = LockLayer::new(world.key()).layer(fails);
        assert_eq!(service.oneshot(request(Some("a"))).await.expect_err("the handler's error"), "the handler fails");
        assert_eq!(world.server.keys(), [""; 0], "the lock is free before the error is there");
    });
}

/// Takes the lock from a request that is served, and returns its answer.
async fn answer_after_loss(world: &World) -> Answer {
    let send = world.service(LockLayer::new(world.key()));
    let (answer, ()) = tokio::join!(send(Some("a")), async {
        world.working().await;
        world.other.lock("order:a").force_release().await.expect("a server").expect("a holder");
    });
    answer
}

#[test]
fn a_request_that_loses_its_lock_is_stopped() {
    // A renewal finds the loss before the work has ended.
    in_both_with(WORK / 2, async |world| {
        let answer = answer_after_loss(&world).await;
        assert_eq!(status(&answer), StatusCode::INTERNAL_SERVER_ERROR);
        let lost = Refusal::Lost { lock: "order:a".to_owned(), reason: LossReason::Removed };
        assert_eq!(refusal(&answer), Some(lost));
        sleep(WORK * 2).await;
        assert_eq!((world.begun(), world.ended()), (1, 0), "the work is not polled again");
    });
}

#[test]
fn a_loss_that_shows_at_the_release_is_told() {
    in_both(async |world| {
        let answer = answer_after_loss(&world).await;
        assert_eq!(status(&answer), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(matches!(refusal(&answer), Some(Refusal::Lost { .. })));
        assert_eq!(world.ended(), 1);
    });
}

#[test]
fn a_request_that_loses_its_lock_can_end_and_is_marked() {
    in_both(async |world| {
        let send = world.service(LockLayer::new(world.key()).on_loss(OnLoss::Mark));
        let (answer, ()) = tokio::join!(send(Some("a")), async {
            world.working().await;
            world.other.lock("order:a").force_release().await.expect("a server").expect("a holder");
        });
        assert_eq!(world.ended(), 1);
        let response = answer.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let mark: &LostLock = response.extensions().get().expect("a mark");
        assert_eq!((mark.name(), mark.reason()), ("order:a", LossReason::Removed));
        let unmarked = send(Some("a")).await.unwrap();
        assert!(unmarked.extensions().get::<LostLock>().is_none());
    });
}

#[test]
fn the_handler_sees_the_loss_and_the_fencing_token() {
    in_both(async |world| {
        let client = world.client.clone();
        let key = move |_: &http::request::Parts| Some(client.fenced_lock("account:7"));
        let told = service_fn(async |request: Request<String>| {
            let held: HeldLock = request.extensions().get().cloned().expect("the lock");
            assert!(held.is_held() && held.holder_id().as_str().contains(':'));
            let token = held.fencing_token().expect("a fenced lock has a token").as_i64();
            let end = held.cancellation_token().cancelled().await;
            assert!(!held.is_held());
            Ok::<_, Infallible>(Response::new(format!("{} {end:?}", token > 0)))
        });
        let service = LockLayer::new(key).on_loss(OnLoss::Mark).layer(told);
        let (answer, ()) = tokio::join!(service.oneshot(request(None)), async {
            sleep(WORK).await;
            world.other.fenced_lock("account:7").force_release().await.expect("a server").expect("a holder");
        });
        assert_eq!(answer.unwrap().into_body(), "true Lost(Removed)");
    });
}

#[test]
fn without_the_server_the_answer_is_unavailable() {
    in_both(async |world| {
        world.server.set_down(true);
        let send = world.service(LockLayer::new(world.key()).wait(WORK * 10));
        let begun = Instant::now();
        let answer = send(Some("a")).await;
        assert_eq!(status(&answer), StatusCode::SERVICE_UNAVAILABLE);
        assert!(matches!(refusal(&answer), Some(Refusal::Unavailable(_))));
        assert!(begun.elapsed() < WORK * 5, "it comes by unreachable_after: {:?}", begun.elapsed());
        assert_eq!(world.begun(), 0);
    });
}

#[test]
fn a_key_of_another_type_is_a_fault_of_the_service() {
    in_both(async |world| {
        world.server.command(&[b"SET", b"order:a", b"no lock"]).expect("a key");
        let answer = world.service(LockLayer::new(world.key()))(Some("a")).await;
        assert_eq!(status(&answer), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(matches!(refusal(&answer), Some(Refusal::Failed(_))));
        assert_eq!(answer.unwrap().into_body(), "", "the name and the error stay inside");
    });
}

#[test]
fn grpc_is_answered_by_its_own_codes() {
    in_both(async |world| {
        let send = world.service(LockLayer::new(world.key()).require_key().refuse_with(Grpc::new()));
        let (_, busy, none) = tokio::join!(
            send(Some("a")),
            async {
                world.working().await;
                send(Some("a")).await
            },
            send(None)
        );
        for (answer, code) in [(busy, "10"), (none, "3")] {
            let response = answer.unwrap();
            assert_eq!(response.status(), StatusCode::OK);
            assert_eq!(response.headers()["grpc-status"], code);
            assert_eq!(response.headers()["content-type"], "application/grpc");
        }
    });
}

#[test]
fn a_waiting_request_takes_no_place_of_a_limit_below() {
    in_both(async |world| {
        let limited = tower::limit::ConcurrencyLimit::new(world.inner(), 2);
        let service = LockLayer::new(world.key()).wait(WORK * 10).layer(limited);
        let send = |key| service.clone().oneshot(request(Some(key)));
        let begun = Instant::now();
        let last = async {
            world.working().await;
            send("b").await.unwrap();
            begun.elapsed()
        };
        let (.., elapsed) = tokio::join!(send("a"), send("a"), send("a"), last);
        assert!(elapsed < WORK * 2, "it need not wait for those that wait for another key: {elapsed:?}");
    });
}

#[test]
fn handler_sees_that_its_lock_was_granted_without_the_server() {
    in_both(async |world| {
        let lock = world.client.lock("order:a").fallback(Fallback::Local);
        let seen = service_fn(async |request: Request<String>| {
            let held = request.extensions().get::<HeldLock>().expect("the lock of the request");
            Ok::<_, Infallible>(Response::new(format!("{}", held.is_degraded())))
        });
        let service = LockLayer::new(move |_: &http::request::Parts| Some(lock.clone())).wait(WORK * 10).layer(seen);
        for down in [false, true] {
            world.server.set_down(down);
            let answer = service.clone().oneshot(request(None)).await;
            assert_eq!(answer.expect("an answer").into_body(), format!("{down}"));
        }
        world.server.set_down(false);
        world.assert_free().await;
    });
}
