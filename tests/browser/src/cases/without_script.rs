//! Tables without JavaScript: the browser reads them anew every five seconds.

use super::story::long_lease;
use crate::driver::{Browser, Driver};
use crate::site::{Holder, Site};
use leasehold_test_support::Server;

pub(super) async fn tables_are_read_anew(driver: &Driver) {
    let server = Server::start();
    let hold = |name: &str| {
        server.command(&["HSET", name, "6f0c0000-0000-4000-8000-000000000000:1", "1"]);
        server.command(&["PEXPIRE", name, &long_lease()]);
    };
    for at in 0..120 {
        hold(&format!("stock:{at:03}"));
    }
    let site = Site::of(&server, &[]);
    let page = driver.open(Browser::WithoutScript).await;
    page.go(&site.url("/?sort=name")).await;
    assert_eq!(page.count("tbody tr").await, 100);
    page.says("#counts", "rows 1 to 100 of 120").await;
    page.element(".bar .pages a:last-child").await.click().await.expect("a click");
    page.says("#counts", "rows 101 to 120 of 120").await;
    page.element("input[name=filter]").await.send_keys("stock:00\u{e007}").await.expect("keys");
    page.says("#counts", "rows 1 to 10 of 10").await;
    // The page is not touched from here on.
    hold("stock:00-later");
    let took = page.says("#counts", "rows 1 to 11 of 11").await;
    println!("  a new lock was shown after {:.1} s", took.as_secs_f64());
    let holder = Holder::of(&server, "till", &["--fair"]);
    page.go(&site.url("/lock?name=till")).await;
    page.says("#summary", "till: held (fair lock)").await;
    page.says("#holders tbody", &holder.pid().to_string()).await;
    holder.end();
    page.says("#summary", "till: free").await;
    page.close().await;
}
