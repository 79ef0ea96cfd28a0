//! The page is for this machine, unless it is told otherwise, and answers to its own names.

use crate::driver::{Browser, Driver};
use crate::site::Site;
use leasehold_test_support::Server;
use serde_json::json;
use std::fs;
use std::net::TcpListener;

pub(super) async fn page_is_for_this_machine(driver: &Driver) {
    let server = Server::start();
    let page = driver.open(Browser::Usual).await;
    // The default has a port of its own, which something else may have.
    if TcpListener::bind("127.0.0.1:8090").is_ok() {
        let site = Site::started(&server, &[]);
        assert_eq!(listens_at(8090), ["0100007F"], "loopback and nothing else");
        page.go(&site.url("/")).await;
        page.says("#summary", "0 locks").await;
    } else {
        println!("  the default address was not tried, because something else listens on port 8090");
    }
    let told = Site::of(&server, &[]);
    assert_eq!(listens_at(told.port()), ["0100007F"]);
    let wide = Site::at(&server, "0.0.0.0:0", &[]);
    assert_eq!(listens_at(wide.port()), ["00000000"], "every address, because it was told so");
    page.close().await;
}

/// The addresses at which something listens on a port, as Linux writes them.
fn listens_at(port: u16) -> Vec<String> {
    let port = format!(":{port:04X}");
    let tables =
        ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default()).concat();
    // The second word is the own address, and the fourth one is 0A where a socket listens.
    let lines = tables.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let listening = lines.filter(|words| words.get(3) == Some(&"0A"));
    listening.filter_map(|words| words.get(1)?.strip_suffix(port.as_str()).map(str::to_owned)).collect()
}

pub(super) async fn another_name_reads_nothing(driver: &Driver) {
    let server = Server::start();
    server.command(&["HSET", "secret", "6f0c0000-0000-4000-8000-000000000000:1", "1"]);
    let site = Site::of(&server, &[]);
    let page = driver.open(Browser::Rebound).await;
    for path in ["/", "/lock?name=secret", "/metrics"] {
        page.go(&format!("http://evil.example:{}{path}", site.port())).await;
        page.says("#summary", "unknown Host header").await;
        assert!(!page.source().await.contains("secret"), "{path}");
    }
    let ask = "const done = arguments[0]; fetch('/events').then((answer) => done(answer.status), (error) => done(String(error)));";
    assert_eq!(page.run_to_end(ask, &[]).await, json!(421));
    page.close().await;
}
