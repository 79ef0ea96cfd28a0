//! `leasehold serve` answers its own page alone, writes only with the token, and makes no markup of names.

use crate::http::Site;
use crate::support::{Start as _, exists, held_by_a_jvm, leasehold, path, run_script};
use leasehold_test_support::{Server, until};
use std::process::Stdio;

const JVM: &str = "6f0c0000-0000-4000-8000-000000000000:1";
const TOKEN: &str = "a token of 24 letters or so";
const FREE_STOCK: &str = "/unlock?name=stock&holder=6f0c0000-0000-4000-8000-000000000000%3A1";

/// The form with the token.
fn form() -> String {
    format!("token={}", TOKEN.replace(' ', "+"))
}

/// A page that may free the lock `stock`, which a JVM holds.
fn site_with_a_token(server: &Server) -> Site {
    held_by_a_jvm(server, "stock", "3600000");
    let file = path(server);
    std::fs::write(&file, format!("{TOKEN}\n")).expect("a file");
    Site::of(server, &["--allow-unlock", "--token-file", file.to_str().expect("a path")])
}

#[test]
fn requests_for_another_host_are_refused() {
    let server = Server::start();
    let site = Site::of(&server, &["--host", "locks.example.org"]);
    let ask = |target: &str, hosts: &str| {
        site.ask(&format!("GET {target} HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n")).status
    };
    for host in ["localhost", "localhost:9", "127.0.0.1", "[::1]:80", "locks.example.org"] {
        assert_eq!(ask("/", &format!("Host: {host}\r\n")), 200, "{host}");
    }
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    for host in [machine.clone(), machine.to_uppercase(), format!("{machine}:8090")] {
        assert_eq!(ask("/", &format!("Host: {host}\r\n")), 200, "{host}");
    }
    assert_eq!(ask("/", &format!("Host: {machine}.evil.example\r\n")), 421);
    for path in [
        "/",
        "/events",
        "/metrics",
        "/lock?name=a",
        "/page.js",
        "/nothing",
        "/locks.json",
        "/lock.json?name=a",
        "/waits",
        "/history.json",
        "/healthz",
    ] {
        assert_eq!(ask(path, "Host: evil.example\r\n"), 421, "{path}");
    }
    assert_eq!(ask("/", ""), 421);
    assert_eq!(ask("/", "Host: localhost\r\nHost: evil.example\r\n"), 421);
    assert_eq!(ask("http://evil.example/", "Host: localhost\r\n"), 421);
    assert_eq!(ask("/", "Host: localhost.evil.example\r\n"), 421);
}

#[test]
fn every_answer_has_the_headers_that_bound_a_browser() {
    let server = Server::start();
    let site = site_with_a_token(&server);
    let evil = "GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    let paths = ["/", "/lock?name=stock", "/metrics", "/page.js", "/page.css", "/nothing", "/unlock"];
    let more = ["/locks.json", "/lock.json?name=stock", "/waits", "/history", "/healthz"];
    let mut answers: Vec<_> = paths.iter().map(|path| site.get(path)).collect();
    let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 404, 405]);
    answers.extend(more.iter().map(|path| site.get(path)));
    answers.push(site.ask(evil));
    answers.push(site.post("/", "", ""));
    answers.push(site.post("/unlock", "", "token=wrong"));
    for answer in &answers {
        for header in [
            "\r\ncontent-security-policy: default-src 'none'; script-src 'self'; style-src 'self';",
            "frame-ancestors 'none'",
            "\r\nx-content-type-options: nosniff\r\n",
            "\r\nreferrer-policy: same-origin\r\n",
            "\r\ncache-control: no-store\r\n",
            "\r\ncross-origin-resource-policy: same-origin\r\n",
        ] {
            assert!(format!("{}\r\n", answer.head).contains(header), "{header}: {answer:?}");
        }
        assert!(!answer.head.contains("unsafe-inline") && !answer.body.contains("style="), "{answer:?}");
    }
    let inline =
        answers[0].body.matches("<script").count() - answers[0].body.matches("<script src=\"page.js\" defer>").count();
    assert_eq!(inline, 0, "{answers:?}");
}

#[test]
fn names_are_text_in_pages_changes_and_headers() {
    let server = Server::start();
    let evil = "<script>alert('1')</script>\"&\r\n\r\ndata: x\u{1b}[2J\u{202e}";
    held_by_a_jvm(&server, evil, "3600000");
    server.command(&[&b"HSET"[..], b"no text \xff<script>", b"6f0c0000-0000-4000-8000-000000000000:1", b"1"]);
    server.command(&["SET", "odd", "<script>alert(2)</script>", "PX", "3600000"]);
    let site = Site::of(&server, &["--allow-unlock", "--every", "100ms"]);
    let encoded: String = evil.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let of_evil = format!("/lock?name={encoded}");
    let pages = ["/", "/?filter=%3Cscript%3E%22", of_evil.as_str(), "/lock?name=odd", "/lock?name=%ff%3Cscript%3E"];
    for path in pages {
        let answer = site.get(path);
        assert_eq!(answer.body.matches("<script").count(), 1, "our own file alone: {answer:?}");
        assert!(!answer.body.contains(['\r', '\u{1b}', '\u{202e}']), "{answer:?}");
        assert!(answer.body.contains("&lt;script&gt;"), "{path}: {answer:?}");
    }
    let mut table = site.events("/events");
    table.until("it is found", |page| {
        page.locks().iter().any(|(name, cells)| name == evil && cells[0].contains(r"\u{1b}[2J"))
    });
    let answer = site.get("/lock?name=a%0d%0aX-Evil:%201");
    assert!(!answer.head.contains("x-evil"), "{answer:?}");
    let answer = site.post("/unlock?name=a%0d%0aX-Evil:%201&holder=b", "", "token=wrong");
    assert!(answer.status == 403 && !answer.head.contains("x-evil"), "{answer:?}");
}

#[test]
fn without_the_option_nothing_is_freed() {
    let server = Server::start();
    held_by_a_jvm(&server, "stock", "3600000");
    let site = Site::of(&server, &[]);
    assert!(!site.get("/lock?name=stock").body.contains("<form"), "there is no form");
    for body in [form().as_str(), "token=", ""] {
        assert_eq!(site.post(FREE_STOCK, "", body).status, 403);
    }
    assert!(exists(&server, "stock"));
}

#[test]
fn only_the_token_of_our_own_page_frees() {
    let server = Server::start();
    let site = site_with_a_token(&server);
    let (form, long) = (form(), "x".repeat(5_000));
    let form = form.as_str();
    let in_address = format!("{FREE_STOCK}&{form}");
    for (path, headers, body, status) in [
        (FREE_STOCK, "", "", 403),
        (FREE_STOCK, "", "token=wrong", 403),
        (FREE_STOCK, "", "token=a+token+of+24+letters+or+s", 403),
        (in_address.as_str(), "", "", 403),
        (FREE_STOCK, "Origin: http://evil.example\r\n", form, 403),
        (FREE_STOCK, "Origin: null\r\n", form, 403),
        (FREE_STOCK, "Sec-Fetch-Site: cross-site\r\n", form, 403),
        (FREE_STOCK, "Content-Type: text/plain\r\n", form, 415),
        (FREE_STOCK, "", long.as_str(), 413),
        ("/unlock", "", form, 400),
        ("/unlock?name=stock", "", form, 400),
        ("/unlock?name=stock&holder=", "", form, 400),
        ("/unlock?name=stock&holder=6f0c0000-0000-4000-8000-000000000000%3A2", "", form, 409),
        ("/unlock?name=nothing&holder=a", "", form, 404),
    ] {
        let answer = site.post(path, headers, body);
        assert_eq!(answer.status, status, "{path} {headers} {body}: {answer:?}");
    }
    let get = site.get(&in_address);
    assert!(get.status == 405 && get.head.contains("\r\nallow: post"), "{get:?}");
    assert!(exists(&server, "stock"));
    let page = site.get("/lock?name=stock").body;
    let action = page.split("action=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a form");
    let origin = format!("Origin: http://{}\r\nSec-Fetch-Site: same-origin\r\n", site.address);
    let answer = site.post(&format!("/{}", action.replace("&amp;", "&")), &origin, form);
    assert!(answer.status == 200 && answer.body.contains("freed") && answer.body.contains(JVM), "{answer:?}");
    assert!(!exists(&server, "stock"));
    until("it is told on stderr", || site.running.stderr().contains("stock: freed"));
    let metrics = site.get("/metrics").body;
    assert!(metrics.contains("unlocks_total{outcome=\"freed\"} 1\n"), "{metrics}");
    assert!(metrics.contains("unlocks_total{outcome=\"refused\"} 14\n"), "{metrics}");
}

#[test]
fn page_that_is_old_frees_nothing_else() {
    let server = Server::start();
    let site = site_with_a_token(&server);
    assert!(site.get("/lock?name=stock").body.contains(JVM), "the page shows the JVM");
    server.command(&["DEL", "stock"]);
    let holder = run_script(&server, &["stock"], "echo in; read end").stdin(Stdio::piped()).start();
    holder.says("in");
    assert_eq!(site.post(FREE_STOCK, "", &form()).status, 409);
    assert!(exists(&server, "stock"));
}

#[test]
fn tokens_are_given_or_made_and_short_ones_refused() {
    let server = Server::start();
    let serve = |words: &[&str]| {
        let mut command = leasehold(&server);
        command.args(["serve", "--listen", "127.0.0.1:0", "--allow-unlock"]).args(words);
        command
    };
    serve(&[]).env("LEASEHOLD_SERVE_TOKEN", "short").finish().fails_with(64, &["16 characters"]);
    serve(&["--token-file", "no/such/file"]).finish().fails_with(74, &["no/such/file"]);
    let site = Site::started(serve(&[]));
    until("the token is told", || site.running.stderr().ends_with('\n'));
    let said = site.running.stderr();
    let token = said.trim_end().strip_prefix("leasehold: token to free locks: ").expect("the token, once");
    assert!(token.len() == 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit()), "{said:?}");
    held_by_a_jvm(&server, "stock", "3600000");
    assert_eq!(site.post(FREE_STOCK, "", &format!("token={token}")).status, 200);
    let pages = ["/", "/lock?name=stock", "/metrics"].map(|path| site.get(path).body).concat();
    assert!(!pages.contains(token) && !site.running.stdout().contains(token));
}

#[test]
fn address_for_other_machines_is_warned_of() {
    let server = Server::start();
    let mut command = leasehold(&server);
    command.args(["serve", "--listen", "0.0.0.0:0"]);
    let site = Site::started(command);
    until("it warns", || site.running.stderr().contains("other machines can reach"));
    let quiet = Site::of(&server, &[]);
    assert_eq!(quiet.running.stderr(), "");
    let ask = |host: &str| site.ask(&format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).status;
    assert_eq!((ask("localhost"), ask("192.0.2.1"), ask("0.0.0.0")), (200, 421, 421));
}
