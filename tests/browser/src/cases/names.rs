//! Names of locks are texts: in the page, in what live changes insert, and in headers.

use super::story::long_lease;
use crate::driver::{Browser, Driver};
use crate::page::Page;
use crate::site::Site;
use leasehold_test_support::Server;
use serde_json::json;

/// The names, and what the page shows of each.
fn names() -> Vec<String> {
    let mut names: Vec<_> = [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(2)>",
        "'",
        "' onmouseover='alert(3)",
        "</td></tr></tbody></table><script>alert(4)</script>",
        "two\nlines\r\n\r\ndata: {\"all\":true}",
        "right \u{202e}to left\u{200f}",
        "javascript:alert(5)",
        "&lt;script&gt;alert(6)&lt;/script&gt;",
        "{{7*7}}${alert(8)}",
    ]
    .map(str::to_owned)
    .into();
    names.push("<b>".repeat(500 / 3));
    names.push("x".repeat(500));
    names
}

fn hold(server: &Server, name: &str) {
    server.command(&["HSET", name, "6f0c0000-0000-4000-8000-000000000000:1", "1"]);
    server.command(&["PEXPIRE", name, &long_lease()]);
    // The holder's id has markup as well.
    server.command(&["SET", "simple", "<img src=x onerror=alert(9)>", "PX", &long_lease()]);
}

pub(super) async fn names_are_texts(driver: &Driver) {
    let (server, names) = (Server::start(), names());
    names.iter().for_each(|name| hold(&server, name));
    let site = Site::of(&server, &["--allow-unlock"]);
    // The HTML of the server, which nothing changes afterwards.
    let still = driver.open(Browser::WithoutScript).await;
    still.go(&site.url("/")).await;
    is_harmless(&still, names.len() + 1).await;
    still.close().await;
    // What live changes insert: the names come when the page is there already.
    server.command(&["FLUSHALL"]);
    let page = driver.open(Browser::Usual).await;
    page.go(&site.url("/")).await;
    page.says("#summary", "0 locks").await;
    names.iter().for_each(|name| hold(&server, name));
    is_harmless(&page, names.len() + 1).await;
    for name in &names {
        // The link of a row leads to the lock of this very name.
        let found = "return Array.from(document.querySelectorAll('tbody td.link a'), (link) => new URL(link.href).searchParams.get('name')).includes(arguments[0]);";
        assert_eq!(page.run(found, &[json!(name)]).await, json!(true), "{name:?}");
    }
    for name in &names {
        let address = page.run("return '/lock?name=' + encodeURIComponent(arguments[0]);", &[json!(name)]).await;
        page.go(&site.url(address.as_str().expect("an address"))).await;
        page.says("#summary", "held").await;
        is_bounded(&page).await;
        let filtered = page.run("return '/?filter=' + encodeURIComponent(arguments[0]);", &[json!(name)]).await;
        page.go(&site.url(filtered.as_str().expect("an address"))).await;
        is_bounded(&page).await;
        let value = page.run("return document.querySelector('input[name=filter]').value.length > 0;", &[]).await;
        assert_eq!(value, json!(true), "{name:?}");
    }
    page.close().await;
}

/// The table has all names as texts, and nothing else.
async fn is_harmless(page: &Page, count: usize) {
    page.says("#counts", &format!("rows 1 to {count} of {count}")).await;
    assert_eq!(page.count("tbody tr").await, count);
    is_bounded(page).await;
    let inner = "return Array.from(document.querySelectorAll('tbody td *')).every((one) => ['A', 'TIME', 'CODE', 'BUTTON'].includes(one.tagName) && one.children.length === 0);";
    assert_eq!(page.run(inner, &[]).await, json!(true), "only the links of the page: {}", page.source().await);
    for text in
        ["<script>alert(1)</script>", "\"><img src=x onerror=alert(2)>", "two\\nlines\\r\\n", "right \\u{202e}to left"]
    {
        let cells = "return Array.from(document.querySelectorAll('tbody td:first-child')).filter((cell) => cell.textContent.startsWith(arguments[0])).length;";
        assert_eq!(page.run(cells, &[json!(text)]).await, json!(1), "{text:?} is in a cell");
    }
}

/// Nothing of a name has become an element or an attribute that does something.
async fn is_bounded(page: &Page) {
    assert!(!page.has_alert().await, "an alert is open");
    let found = page
        .run(
            "const all = Array.from(document.querySelectorAll('*')); return { \
             scripts: all.filter((one) => one.tagName === 'SCRIPT' && one.getAttribute('src') !== 'page.js').length, \
             images: document.images.length, bold: document.querySelectorAll('main b:not([data-tile])').length, \
             handlers: all.filter((one) => Array.from(one.attributes).some((each) => each.name.startsWith('on'))).length, \
             links: Array.from(document.links).filter((link) => link.origin !== location.origin).length };",
            &[],
        )
        .await;
    let nothing = json!({ "scripts": 0, "images": 0, "bold": 0, "handlers": 0, "links": 0 });
    assert_eq!(found, nothing, "{}", page.source().await);
}

pub(super) async fn name_adds_no_header(driver: &Driver) {
    let server = Server::start();
    let site = Site::of(&server, &["--allow-unlock"]);
    let page = driver.open(Browser::Usual).await;
    page.go(&site.url("/")).await;
    let ask = "const done = arguments[arguments.length - 1]; fetch(arguments[0], { method: arguments[1] }).then((answer) => \
        done([answer.headers.get('x-evil'), answer.headers.get('set-cookie'), document.cookie, answer.headers.get('content-security-policy') !== null]), \
        (error) => done(String(error)));";
    let evil = "a%0d%0aX-Evil:%201%0d%0aSet-Cookie:%20evil=1%0d%0a%0d%0a<script>alert(1)</script>";
    for (path, method) in [
        (format!("/lock?name={evil}"), "GET"),
        (format!("/?filter={evil}&sort={evil}&kind={evil}&page={evil}"), "GET"),
        (format!("/{evil}"), "GET"),
        (format!("/unlock?name={evil}&holder={evil}"), "POST"),
    ] {
        let told = page.run_to_end(ask, &[json!(path), json!(method)]).await;
        assert_eq!(told, json!([null, null, "", true]), "{method} {path}");
        if method == "GET" {
            page.go(&site.url(&path)).await;
            is_bounded(&page).await;
            page.go(&site.url("/")).await;
        }
    }
    page.close().await;
}
