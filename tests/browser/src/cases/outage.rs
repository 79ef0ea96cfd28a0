//! The page says that the server, or its own process, is gone, and goes on when it is back.

use crate::driver::{Browser, Driver};
use crate::page::Shows;
use crate::site::{Site, free_port};
use leasehold_test_support::Server;
use std::time::Duration;

/// How soon the page says so, and goes on.
const SOON: Duration = Duration::from_secs(5);

pub(super) async fn page_says_so_and_goes_on(driver: &Driver) {
    let server = Server::start();
    let hold = |name: &str| drop(server.command(&["HSET", name, "6f0c0000-0000-4000-8000-000000000000:1", "1"]));
    hold("stock");
    let listen = format!("127.0.0.1:{}", free_port());
    let site = Site::at(&server, &listen, &[]);
    let page = driver.open(Browser::Usual).await;
    page.go(&site.url("/")).await;
    page.shows("stock", Shows::Held).await;
    let soon = |what: &str, took: Duration| {
        println!("  {what:<46} {:.1} s", took.as_secs_f64());
        assert!(took < SOON, "{what}");
    };
    server.kill();
    soon("the server was killed, and the page says so", page.says("#status.warning", "NO ANSWER for ").await);
    page.shows("stock", Shows::Held).await;
    server.restart();
    hold("later");
    soon("the server is back, and the page goes on", page.says("#locks tbody", "later").await);
    soon("nothing is said of the outage any more", page.says("#status:not(.warning)", "scan takes").await);
    site.freeze(true);
    soon(
        "leasehold serve is frozen, and the page says so",
        page.says("#connection", "No message from leasehold serve for ").await,
    );
    assert!(page.text("#age").await.starts_with("stale · "), "{}", page.text("#age").await);
    site.freeze(false);
    soon("leasehold serve goes on, and the page does", page.says_nothing("#connection").await);
    drop(site);
    soon(
        "leasehold serve was killed, and the page says so",
        page.says("#connection", "No connection to leasehold serve").await,
    );
    let _again = Site::at(&server, &listen, &[]);
    hold("last");
    soon("leasehold serve is back, and the page goes on", page.says("#locks tbody", "last").await);
    assert_eq!(page.text("#connection").await, "");
    page.close().await;
}
