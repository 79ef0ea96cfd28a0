//! The views of the page by links, keys and copied commands.

use super::story::long_lease;
use crate::driver::{Browser, Driver};
use crate::page::{Page, Shows};
use crate::site::{Holder, Site};
use leasehold_test_support::Server;
use serde_json::json;

const JVM: &str = "6f0c0000-0000-4000-8000-000000000000:1";

/// Presses a key, with the page as its target.
async fn press(page: &Page, key: &str) {
    let script = "(document.activeElement || document.body).dispatchEvent(new KeyboardEvent('keydown', { key: arguments[0], bubbles: true, cancelable: true }));";
    page.run(script, &[json!(key)]).await;
}

pub(super) async fn views_have_addresses_and_keys(driver: &Driver) {
    let server = Server::start();
    for name in ["odd", "plain"] {
        server.command(&["HSET", name, JVM, "1"]);
        server.command(&["PEXPIRE", name, &long_lease()]);
    }
    server.command(&["PERSIST", "odd"]);
    let till = Holder::of(&server, "till", &["--fair"]);
    let waiter = Holder::waiting(&server, "till", &["--fair"]);
    let site = Site::of(&server, &[]);
    let page = driver.open(Browser::Usual).await;
    page.go(&site.url("/")).await;
    page.shows("till", Shows::Waiting).await;
    let names = "return Array.from(document.querySelectorAll('#locks tbody td.link'), (cell) => cell.textContent);";
    assert_eq!(page.run(names, &[]).await, json!(["odd", "till", "plain"]), "problems, waits, the rest");

    for (css, address, name) in [
        ("a.tile.problems", "/?show=problems", "odd"),
        ("a.tile.waiting", "/?show=waiting", "till"),
        (".chips a[href*='kind=fair']", "/?kind=fair", "till"),
    ] {
        page.go(&site.url("/")).await;
        page.element(css).await.click().await.expect("a click");
        page.says("#counts", "rows 1 to 1 of 1").await;
        page.says("#locks tbody td.link", name).await;
        let at = page.run("return location.pathname + location.search;", &[]).await;
        assert_eq!(at, json!(address), "a view can be shared");
    }

    page.go(&site.url("/")).await;
    page.shows("till", Shows::Waiting).await;
    press(&page, "j").await;
    press(&page, "j").await;
    assert_eq!(page.run("return document.activeElement.textContent;", &[]).await, json!("till"));
    let command = "return document.activeElement.closest('tr').querySelector('button.copy').dataset.command;";
    let command = page.run(command, &[]).await;
    assert!(command.as_str().is_some_and(|text| text.starts_with("leasehold unlock --holder ")), "{command}");
    page.element("#locks button.copy").await.click().await.expect("a click");
    page.says("#locks button.copy", "copied").await;
    press(&page, "?").await;
    assert_eq!(page.count("dialog[open]").await, 1);
    press(&page, "?").await;
    assert_eq!(page.count("dialog[open]").await, 0);
    press(&page, "w").await;
    page.says("#summary", "1 lock with waiters").await;
    page.says("#waits tbody", "waits").await;
    press(&page, "h").await;
    till.end();
    page.says("#past tbody", "till").await;
    page.says("#past tbody", "released").await;
    page.go(&site.url("/lock?name=till")).await;
    page.says("#past tbody", "released").await;
    drop(waiter);
    page.close().await;
}
