//! The programs of docs/tasks on the server in `LEASEHOLD_URL`, each with its own key prefix.

use leasehold::Client;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

fn url(world: &str) -> String {
    let server = std::env::var("LEASEHOLD_URL").expect("LEASEHOLD_URL names a server");
    format!("{server}?prefix=tasks:{}:{world}:", std::process::id())
}

/// Starts a program. `world` separates the keys of this test from the keys of other tests.
fn start(program: &str, world: &str, arguments: &[&str]) -> Child {
    let mut command = Command::new(program);
    command.args(arguments).env("LEASEHOLD_URL", url(world)).env("ADDRESS", "127.0.0.1:0");
    command.stdout(Stdio::piped()).spawn().expect("the program starts")
}

/// Runs a program to its end, and returns its lines.
fn lines(program: &str, world: &str, arguments: &[&str]) -> Vec<String> {
    let output = start(program, world, arguments).wait_with_output().expect("the program ends");
    assert!(output.status.success(), "{program}: {:?}", output.status);
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// Returns the next line of a running program.
fn next_line(reader: &mut impl BufRead) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).expect("the program prints a line");
    line.trim_end().to_owned()
}

#[test]
fn one_of_three_servers_does_the_nightly_job() {
    let nightly = || lines(env!("CARGO_BIN_EXE_nightly"), "nightly", &["2026-11-28"]);
    assert_eq!(nightly(), ["writes the report", "done"]);
    assert_eq!([nightly(), nightly()].concat(), ["another server has done it", "another server has done it"]);
}

#[test]
fn next_scheduler_leads_when_the_first_is_terminated() {
    let begin = || start(env!("CARGO_BIN_EXE_scheduler"), "leader", &[]);
    let mut first = begin();
    let mut told = BufReader::new(first.stdout.take().expect("its stdout"));
    assert!(next_line(&mut told).starts_with("leads with the token "));
    let mut second = begin();
    let mut told = BufReader::new(second.stdout.take().expect("its stdout"));
    terminate(&first);
    assert!(first.wait().expect("it ends").success());
    assert!(next_line(&mut told).starts_with("leads with the token "));
    terminate(&second);
    assert!(second.wait().expect("it ends").success());
}

fn terminate(child: &Child) {
    let killed = Command::new("kill").arg(child.id().to_string()).status().expect("kill");
    assert!(killed.success());
}

#[test]
fn order_that_arrives_twice_is_charged_once() {
    let lines = lines(env!("CARGO_BIN_EXE_payment"), "payment", &[]);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0], "the provider charges order 7");
    assert!(["charged; was paid before", "was paid before; charged"].contains(&lines[1].as_str()), "{lines:?}");
}

#[test]
fn fifty_buyers_get_twenty_units() {
    assert_eq!(lines(env!("CARGO_BIN_EXE_inventory"), "inventory", &[]), ["sold 20 of 20 units to 50 buyers"]);
}

#[tokio::test]
async fn request_whose_key_is_locked_gets_423() {
    let mut server = start(env!("CARGO_BIN_EXE_web"), "web", &[]);
    let mut told = BufReader::new(server.stdout.take().expect("its stdout"));
    let address = next_line(&mut told).strip_prefix("http://").expect("an address").to_owned();
    let post = |path: &str, key: &str| {
        let mut stream = TcpStream::connect(&address).expect("a connection");
        let request = format!("POST {path} HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n{key}\r\n");
        stream.write_all(request.as_bytes()).expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer.split(' ').nth(1).expect("a status").to_owned()
    };
    let other = Client::connect(&url("web")).await.expect("a client");
    let held = other.lock("orders:7f3a").acquire().await.expect("a free lock");
    assert_eq!(post("/orders", "Idempotency-Key: 7f3a\r\n"), "423");
    assert_eq!(post("/orders", "Idempotency-Key: 7f3b\r\n"), "200");
    held.release().await.expect("a release");
    assert_eq!(post("/orders", "Idempotency-Key: 7f3a\r\n"), "200");
    assert_eq!(post("/orders", ""), "400");
    assert_eq!(post("/articles/1001", ""), "200");
    server.kill().expect("it ends");
    server.wait().expect("it ends");
}

#[test]
fn lock_of_a_jvm_and_of_set_nx() {
    assert_eq!(lines(env!("CARGO_BIN_EXE_stock"), "stock", &[]), ["deducted"]);
    assert_eq!(lines(env!("CARGO_BIN_EXE_report"), "report", &[]), ["holds the lock"]);
}
