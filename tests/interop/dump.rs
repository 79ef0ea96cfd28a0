//! The writes of a real Redisson: `cargo xtask interop -- --dump [standalone|cluster] [kind]`.
//!
//! It carries out the stories of `dump/stories.txt` on servers of its own, and shows after every step the reply, all keys with
//! type, value and remaining time, and what was published. Our library has no part in it, so it settles questions about the
//! layout. Owners are shown by the name of their thread, and times of the machine's clock as a difference from now.

use crate::agent::{Actor, Jvm};
use crate::place::{Place, PlaceName};
use crate::world::{clock, pass};
use leasehold_test_support::{Resp, Server};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;

const STORIES: &str = include_str!("dump/stories.txt");

/// The time that a step that does not return at once is given before the keys are looked at.
const SETTLING: Duration = Duration::from_millis(250);

/// The time that a step that should return is given.
const PATIENCE: Duration = Duration::from_secs(7);

/// Shows the stories whose title begins with one of the words, or all.
pub(crate) async fn run(words: &[String]) {
    let place = if words.iter().any(|word| word == "cluster") { PlaceName::Cluster } else { PlaceName::Standalone };
    let kinds: Vec<_> = words.iter().filter(|word| PlaceName::ALL.iter().all(|place| place.word() != **word)).collect();
    for story in STORIES.split("\n== ").skip(1) {
        let (title, steps) = story.split_once('\n').unwrap_or((story, ""));
        if kinds.is_empty() || kinds.iter().any(|kind| title.starts_with(kind.as_str())) {
            println!("\n== {title} ({})", place.word());
            Teller::new(place).await.tell(steps).await;
        }
    }
}

/// One story under way.
struct Teller {
    place: Place,
    jvm: Arc<Jvm>,
    /// The names in the output, and what they stand for.
    names: Vec<(String, String)>,
    actors: BTreeMap<String, Actor>,
    waiting: Vec<(String, JoinHandle<Result<crate::agent::Answer, crate::agent::Thrown>>)>,
    /// The permits that each actor got last.
    values: BTreeMap<String, String>,
    /// Whether what each actor does is an acquire.
    acquiring: BTreeMap<String, bool>,
    messages: Arc<Mutex<Vec<String>>>,
}

impl Teller {
    async fn new(name: PlaceName) -> Self {
        let place = Place::start(name);
        let jvm = Jvm::start();
        let target = place.target();
        let uuid = jvm.connect("story", &[&target[0], &target[1]], &[]).await;
        let messages = Arc::default();
        for node in place.nodes() {
            overhear(node, &messages);
        }
        let names = vec![(uuid, "uuid".to_owned())];
        let (actors, values, acquiring) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { place, jvm, names, actors, waiting: Vec::new(), values, acquiring, messages }
    }

    async fn tell(&mut self, steps: &str) {
        for step in steps.lines().map(str::trim).filter(|step| !step.is_empty() && !step.starts_with('#')) {
            let mut words: Vec<_> = step.split(' ').map(|word| self.value(word)).collect();
            let who = words.remove(0);
            let verb = words.remove(0);
            let outcome = match who.as_str() {
                "pass" => {
                    pass(Duration::from_millis(verb.parse().expect("milliseconds"))).await;
                    String::new()
                }
                "server" => {
                    let node = words.first().map_or_else(|| &self.place.nodes()[0], |key| self.place.node(key));
                    format!("-> {:?}", node.command(&[&[verb], &words[..]].concat()))
                }
                who => self.act(who, &verb, &words).await,
            };
            println!("{step}  {outcome}");
            self.show().await;
        }
    }

    /// `$a` is what `a` acquired last.
    fn value(&self, word: &str) -> String {
        let value = word.strip_prefix('$').and_then(|who| self.values.get(who));
        value.cloned().unwrap_or_else(|| word.to_owned())
    }

    /// A step of an actor; one whose name ends in `&` is not waited for.
    async fn act(&mut self, who: &str, verb: &str, words: &[String]) -> String {
        let name = who.trim_end_matches('&');
        if !self.actors.contains_key(name) {
            let actor = self.jvm.actor("story", name);
            let thread = actor.ask("thread", &[]).await;
            self.names.insert(0, (format!("{}:{thread}", self.names[self.names.len() - 1].0), format!("<{name}>")));
            self.actors.insert(name.to_owned(), actor);
        }
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let mut said = self.actors[name].begin(verb, &words).await;
        self.acquiring.insert(name.to_owned(), verb.contains("cquire"));
        if who.ends_with('&') {
            self.waiting.push((name.to_owned(), said));
            pass(SETTLING).await;
            return String::new();
        }
        if let Ok(said) = tokio::time::timeout(PATIENCE, &mut said).await {
            return self.outcome(name, said.expect("an answer"));
        }
        self.waiting.push((name.to_owned(), said));
        format!("does not return in {PATIENCE:?}")
    }

    fn outcome(&mut self, who: &str, said: Result<crate::agent::Answer, crate::agent::Thrown>) -> String {
        match said {
            Ok(answer) => {
                let shown = format!("-> {}", answer.value);
                if self.acquiring[who] {
                    self.values.insert(who.to_owned(), answer.value);
                }
                shown
            }
            Err(thrown) => format!("-> throws {}: {}", thrown.class, self.named(&thrown.message)),
        }
    }

    /// Shows what there is now.
    async fn show(&mut self) {
        pass(Duration::from_millis(30)).await;
        let (done, waiting) = self.waiting.drain(..).partition(|(_, said)| said.is_finished());
        self.waiting = waiting;
        let done: Vec<_> = done;
        for (who, said) in done {
            let outcome = self.outcome(&who, said.await.expect("an answer"));
            println!("    {who} has returned {outcome}");
        }
        for message in self.messages.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect::<Vec<_>>() {
            println!("    {}", self.named(&message));
        }
        for node in self.place.nodes() {
            let keys = node.command(&["KEYS", "*"]);
            let mut keys: Vec<_> = keys.elements().iter().filter_map(Resp::as_str).collect();
            keys.sort_unstable();
            for key in keys {
                println!("    {}", self.named(&describe(node, key)));
            }
        }
    }

    fn named(&self, text: &str) -> String {
        self.names.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }
}

/// A key with its type, its value and its remaining time.
fn describe(node: &Server, key: &str) -> String {
    let kind = text(&node.command(&["TYPE", key]));
    let value = match kind.as_str() {
        "hash" => pairs(&node.command(&["HGETALL", key])),
        "zset" => pairs(&node.command(&["ZRANGE", key, "0", "-1", "WITHSCORES"])),
        "list" => node.command(&["LRANGE", key, "0", "-1"]).elements().iter().map(text).collect::<Vec<_>>().join(", "),
        _ => text(&node.command(&["GET", key])),
    };
    let left = node.command(&["PTTL", key]).as_int().unwrap_or_default();
    format!("{key:<60} {kind:<6} [{value}] ttl {left}")
}

fn pairs(reply: &Resp) -> String {
    let pairs = reply.elements().chunks(2).map(|pair| format!("{} = {}", text(&pair[0]), moment(&text(&pair[1]))));
    pairs.collect::<Vec<_>>().join(", ")
}

/// A time of the machine's clock in milliseconds, as a difference from now.
fn moment(value: &str) -> String {
    let now = i64::try_from(clock() / 1000).unwrap_or_default();
    match value.parse::<i64>() {
        Ok(at) if (at - now).abs() < 10_000_000 => format!("now{:+}", at - now),
        _ => value.to_owned(),
    }
}

fn text(value: &Resp) -> String {
    match value {
        Resp::Simple(text) => text.clone(),
        value => match value.as_str() {
            Some(text) => text.to_owned(),
            None => value
                .as_bytes()
                .map_or_else(|| format!("{value:?}"), |bytes| format!("{} raw bytes {}", bytes.len(), hex(bytes))),
        },
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Takes down what is published on a server. `MONITOR` shows both sorts of notices, sharded ones too.
fn overhear(node: &Server, messages: &Arc<Mutex<Vec<String>>>) {
    let mut connection = node.connect().expect("a connection");
    connection.set_read_timeout(Duration::from_secs(3600)).expect("a timeout");
    connection.command(&["MONITOR"]).expect("an answer");
    let messages = messages.clone();
    drop(std::thread::spawn(move || {
        while let Ok(line) = connection.receive() {
            let line = text(&line);
            let Some((_, command)) = line.split_once("lua] ") else { continue };
            let command = command.replace('"', "");
            // A latch of an unlock is gone before the keys are looked at.
            if command.to_lowercase().contains("publish ") || command.to_lowercase().starts_with("set redisson_unlock")
            {
                messages.lock().unwrap_or_else(PoisonError::into_inner).push(command);
            }
        }
    }));
}
