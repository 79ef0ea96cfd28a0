//! The token frees a lock by the page's own form, and nothing else frees one. The server's data say whether it is freed.

use super::story::long_lease;
use crate::driver::{Browser, Driver};
use crate::foreign_page;
use crate::page::Page;
use crate::site::{Site, TOKEN};
use leasehold_test_support::{Resp, Server};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::time::sleep;

const JVM: &str = "6f0c0000-0000-4000-8000-000000000000:1";
const FREE_STOCK: &str = "/unlock?name=stock&holder=6f0c0000-0000-4000-8000-000000000000%3A1";

/// Posts a form from the page that is open, and returns the status.
const POST: &str = "const done = arguments[arguments.length - 1]; const body = new URLSearchParams(arguments[1]); \
    fetch(arguments[0], { method: 'POST', body }).then((answer) => done(answer.status), (error) => done(String(error)));";

fn server_with_a_lock() -> Server {
    let server = Server::start();
    server.command(&["HSET", "stock", JVM, "1"]);
    server.command(&["PEXPIRE", "stock", &long_lease()]);
    server
}

fn is_held(server: &Server) -> bool {
    server.command(&["EXISTS", "stock"]) == Resp::Int(1)
}

async fn post(page: &Page, path: &str, form: Value) -> Value {
    page.run_to_end(POST, &[json!(path), form]).await
}

pub(super) async fn token_frees_and_nothing_else(driver: &Driver) {
    let server = server_with_a_lock();
    let page = driver.open(Browser::Usual).await;
    let right = json!({ "token": TOKEN });
    let without = Site::of(&server, &[]);
    page.go(&without.url("/lock?name=stock")).await;
    assert_eq!(page.count("form").await, 0, "without --allow-unlock there is no form");
    assert_eq!(post(&page, FREE_STOCK, right.clone()).await, json!(403));
    assert!(is_held(&server), "freed without --allow-unlock");

    let site = Site::of(&server, &["--allow-unlock"]);
    page.go(&site.url("/lock?name=stock")).await;
    assert_eq!(page.count("form.unlock").await, 1);
    assert!(!page.source().await.contains(TOKEN), "the page does not tell the token");
    for form in [json!({}), json!({ "token": "" }), json!({ "token": "a token of 24 letters or s" })] {
        assert_eq!(post(&page, FREE_STOCK, form.clone()).await, json!(403), "{form}");
        assert!(is_held(&server), "freed with {form}");
    }
    page.go(&site.url(&format!("{FREE_STOCK}&token={}", TOKEN.replace(' ', "+")))).await;
    page.says("#summary", "method not allowed").await;
    assert!(is_held(&server), "freed by GET");

    enter(&page, &site, "another token of 24 letters").await;
    page.says("#summary", "the token is wrong").await;
    assert!(is_held(&server), "freed with a wrong token");
    enter(&page, &site, TOKEN).await;
    page.says("#summary", "stock: freed").await;
    assert!(!is_held(&server), "the right token frees");
    page.close().await;
}

/// Writes a token into the form of the lock, and sends it.
async fn enter(page: &Page, site: &Site, token: &str) {
    page.go(&site.url("/lock?name=stock")).await;
    page.element("form.unlock input[name=token]").await.send_keys(token).await.expect("keys");
    page.element("form.unlock button").await.click().await.expect("a click");
}

pub(super) async fn pages_from_elsewhere_free_nothing(driver: &Driver) {
    let server = server_with_a_lock();
    let site = Site::of(&server, &["--allow-unlock"]);
    let page = driver.open(Browser::Usual).await;
    // One host with another port is another origin of the same site; another name of the host is another site. The foreign pages even have the
    // right token, so that it is not this that saves the lock.
    for host in ["127.0.0.1", "localhost"] {
        let target = format!("http://127.0.0.1:{}{FREE_STOCK}", site.port());
        for (what, html) in attacks(&target) {
            let before = refused(&site);
            let port = foreign_page::serve(html);
            page.go(&format!("http://{host}:{port}/")).await;
            let begun = Instant::now();
            while refused(&site) == before {
                assert!(
                    begun.elapsed() < Duration::from_secs(10),
                    "{what} from {host} has not come to leasehold serve"
                );
                sleep(Duration::from_millis(20)).await;
            }
            assert!(is_held(&server), "{what} from {host} has freed the lock");
        }
    }
    // Requests that only read are no requests to free, so nothing counts them.
    let get = format!("http://127.0.0.1:{}{FREE_STOCK}&token={}", site.port(), TOKEN.replace(' ', "+"));
    let port = foreign_page::serve(format!(
        "<body><form action='{get}' method=get></form><p id=end></p><script>const image = new Image(); \
         image.onerror = () => {{ document.getElementById('end').textContent = 'the image has come'; }}; image.src = '{get}';</script>"
    ));
    page.go(&format!("http://127.0.0.1:{port}/")).await;
    page.says("#end", "the image has come").await;
    assert!(is_held(&server), "freed by an image");
    page.close().await;
}

/// Pages that ask for the lock to be freed as soon as they are open.
fn attacks(target: &str) -> [(&'static str, String); 4] {
    let target = target.replace('&', "&amp;");
    let form = |kind: &str| {
        format!(
            "<body><form action='{target}' method=post {kind}><input name=token value='{TOKEN}'></form><script>document.forms[0].submit();</script>"
        )
    };
    let script = |call: &str| {
        let target = target.replace("&amp;", "&");
        format!(
            "<body><script>const target = '{target}'; const body = new URLSearchParams({{ token: '{TOKEN}' }}); {call}</script>"
        )
    };
    [
        ("a form", form("")),
        ("a form as plain text", form("enctype='text/plain'")),
        ("a script", script("fetch(target, { method: 'POST', mode: 'no-cors', credentials: 'include', body });")),
        ("a beacon", script("navigator.sendBeacon(target, body);")),
    ]
}

/// How many requests to free a lock were refused.
fn refused(site: &Site) -> u64 {
    let text = site.get("/metrics");
    let line = text.lines().find_map(|line| line.strip_prefix("leasehold_serve_unlocks_total{outcome=\"refused\"} "));
    line.and_then(|count| count.trim().parse().ok()).expect("the count")
}
