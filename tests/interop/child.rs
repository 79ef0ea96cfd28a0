//! Another process of our side: this program, started again, which can be killed.
//!
//! It is told what to do by lines on its standard input, and says what came of it by lines on its standard output. It ends with
//! its input.

use crate::kind::{Held, Kind, Wish};
use crate::world::{clock, settings};
use leasehold::{Client, Error};
use std::collections::HashMap;
use std::fmt::Display;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child as Process, ChildStdin, ChildStdout, Command};
use tokio::runtime::Runtime;

/// Set in the other process: where its server is.
pub(crate) const URL: &str = "LEASEHOLD_INTEROP_CHILD_URL";

/// A process that uses the library. Dropping it kills it.
pub(crate) struct Child {
    process: Process,
    orders: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Child {
    pub(crate) async fn start(url: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().expect("this program"))
            .env(URL, url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("this program, once more");
        let orders = process.stdin.take().expect("its input");
        let lines = BufReader::new(process.stdout.take().expect("its output")).lines();
        let mut child = Self { process, orders, lines };
        child.hear("ready").await;
        child
    }

    /// Gives an order: see [`obey`].
    pub(crate) async fn order(&mut self, verb: &str, kind: impl Display, name: &str) {
        let line = format!("{verb} {kind} {name}\n");
        self.orders.write_all(line.as_bytes()).await.expect("a process that listens");
    }

    /// The next thing that it says, which must be this word with a time; the time.
    pub(crate) async fn hear(&mut self, word: &str) -> u64 {
        let line = self.lines.next_line().await.expect("its output").expect("a process that speaks");
        let (first, time) = line.split_once(' ').unwrap_or_else(|| panic!("the other process said {line:?}"));
        assert_eq!(first, word, "the other process said {line:?}");
        time.parse().expect("a time")
    }

    /// Acquires, and returns when it holds the lock.
    pub(crate) async fn acquire(&mut self, kind: impl Display, name: &str) {
        self.order("acquire", kind, name).await;
        self.hear("held").await;
    }

    /// Kills it (SIGKILL).
    pub(crate) fn kill(&mut self) {
        self.process.start_kill().expect("a process that runs");
    }
}

/// The name of the agent and [`obey`] for a leased semaphore, which is no kind of lock.
pub(crate) const PERMIT: &str = "permit";

/// Obeys orders until there are no more: `acquire kind name` and `release kind name`, where a kind may be [`PERMIT`].
pub(crate) fn obey(runtime: &Runtime, url: &str) {
    let client = runtime.block_on(settings().connect(url)).expect("a client");
    let mut held: HashMap<String, Box<dyn Held>> = HashMap::new();
    say("ready");
    for line in std::io::stdin().lines() {
        let line = line.expect("an order");
        let (verb, object) = line.split_once(' ').expect("an order of three words");
        let (word, name) = object.split_once(' ').expect("an order of three words");
        match verb {
            "acquire" => {
                let guard = runtime.block_on(acquire(&client, word, name)).expect("the lock");
                say("held");
                held.insert(object.to_owned(), guard);
            }
            "release" => {
                let guard = held.remove(object).expect("a lock that it holds");
                runtime.block_on(guard.release()).expect("a release");
                say("released");
            }
            verb => panic!("no order {verb:?}"),
        }
    }
}

async fn acquire(client: &Client, word: &str, name: &str) -> Result<Box<dyn Held>, Error> {
    if word == PERMIT {
        return Ok(Box::new(client.semaphore(name).acquire().await?));
    }
    Kind::named(word).expect("a kind").of(client, name).acquire(Wish::default()).await
}

fn say(word: &str) {
    println!("{word} {}", clock());
}
