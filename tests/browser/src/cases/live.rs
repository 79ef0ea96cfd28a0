//! Every event of a lock is shown within a second.

use super::story;
use crate::driver::{Browser, Driver};
use crate::site::Site;
use leasehold_test_support::Server;

pub(super) async fn events_are_shown_within_a_second(driver: &Driver) {
    let server = Server::start();
    let site = Site::of(&server, &[]);
    let page = driver.open(Browser::Usual).await;
    page.go(&site.url("/")).await;
    page.says("#summary", "0 locks").await;
    story::tell(&page, &server, "live:").await;
    page.close().await;
}
