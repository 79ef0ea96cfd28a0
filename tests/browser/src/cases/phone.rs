//! The page on the narrow screen of a phone. It leaves pictures for a person to look at.

use super::story::long_lease;
use crate::driver::{Browser, Driver};
use crate::page::Page;
use crate::programs;
use crate::site::{Holder, Site};
use leasehold_test_support::Server;
use serde_json::json;
use std::fs;

pub(super) async fn page_is_readable(driver: &Driver) {
    let server = Server::start();
    for at in 0..3 {
        let name = format!("stock:{at}");
        server.command(&["HSET", &name, "6f0c0000-0000-4000-8000-000000000000:1", "1"]);
        server.command(&["PEXPIRE", &name, &long_lease()]);
    }
    let long = format!("orders:{}", "a-long-name-without-a-blank-".repeat(4));
    server.command(&["HSET", &long, "6f0c0000-0000-4000-8000-000000000000:2", "1"]);
    let till = Holder::of(&server, "till", &["--fair"]);
    let waiter = Holder::waiting(&server, "till", &["--fair"]);
    let site = Site::of(&server, &["--allow-unlock"]);
    for (browser, word) in [(Browser::Usual, "desktop"), (Browser::Phone, "phone")] {
        let page = driver.open(browser).await;
        for (path, what) in [
            ("/?sort=name", "table"),
            ("/lock?name=till", "lock"),
            ("/lock?name=nothing", "free"),
            ("/waits", "waits"),
            ("/history", "history"),
        ] {
            page.go(&site.url(path)).await;
            let summary = match what {
                "table" => "5 locks",
                "waits" => "1 lock with waiters",
                "history" => "Last ",
                _ => ": ",
            };
            page.says("#summary", summary).await;
            if what == "table" {
                page.shows("till", crate::page::Shows::Waiting).await;
            }
            is_readable(&page, path).await;
            let file = programs::pictures().join(format!("{word}-{what}.png"));
            fs::write(&file, page.picture().await).expect("a picture is written");
            println!("  {}", file.display());
        }
        page.close().await;
    }
    drop((waiter, till));
}

/// Nothing has to be moved sideways, and nothing is small.
async fn is_readable(page: &Page, path: &str) {
    let wide = "return [...document.querySelectorAll('body, body *')].filter((one) => !one.closest('.chips') && \
        one.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map((one) => one.tagName + ' ' + one.textContent.slice(0, 40));";
    assert_eq!(page.run(wide, &[]).await, json!([]), "{path}: wider than the screen");
    let small = "return [...document.querySelectorAll('p, td, label, button, a')].filter((one) => parseFloat(getComputedStyle(one).fontSize) < 13).length;";
    assert_eq!(page.run(small, &[]).await, json!(0), "{path}: small text");
}
