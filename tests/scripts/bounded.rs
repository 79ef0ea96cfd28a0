//! No script reads more of a key than a fixed number of its entries, or bytes, whatever has put them there. Every script of the table is
//! tried with keys of a million entries, and its work is counted.

use crate::eval::eval;
use bytes::Bytes;
use leasehold_core::script::{self, Script};
use leasehold_test_support::{Resp, Server};

/// How many entries, or bytes, a large key has.
const MANY: usize = 1_000_000;

/// What a script may do at the most: its commands, the parts of their replies, and the bytes of these.
const MOST: i64 = 100_000;

/// The hold of all calls.
const HOLD: &str = "6f0c:7";

/// The types of keys. The key of a type that is large has the type as its name.
const TYPES: [&str; 4] = ["hash", "list", "zset", "string"];

/// What the large hash is: an application's, or a read-write lock of this mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hash {
    Plain,
    Mode(&'static str),
}

/// A server with a large key of each type. List and sorted set have the same entries.
struct Scene {
    server: Server,
}

impl Scene {
    /// The members of the sorted set have this score.
    fn new(score: &str) -> Self {
        let scene = Self { server: Server::start() };
        let fill = "for i = ARGV[2] + 1, ARGV[2] + 20000 do
             redis.call('HSET', 'hash', 'e' .. i .. ':1', 9999)
             redis.call('RPUSH', 'list', 'e' .. i .. ':1')
             redis.call('ZADD', 'zset', ARGV[1], 'e' .. i .. ':1')
           end";
        for first in (0..MANY).step_by(20_000) {
            scene.command(&["EVAL", fill, "0", score, &first.to_string()]);
        }
        scene
    }

    fn command(&self, words: &[&str]) {
        let answer = self.server.command(words);
        assert!(!answer.is_error(), "{answer:?}");
    }

    /// Makes the large hash what it is to be, and the large text what an earlier script may have overwritten.
    fn prepare(&self, keys: &[String], hash: Hash) {
        let restore = "for _, key in ipairs({'hash', 'list', 'zset'}) do
             if redis.call('EXISTS', 'aside:' .. key) == 1 then redis.call('RENAME', 'aside:' .. key, key) end
           end";
        self.command(&["EVAL", restore, "0"]);
        if keys.iter().any(|key| key == "hash") {
            let writer = format!("{HOLD}:write");
            self.command(&["HDEL", "hash", "mode", HOLD, &writer]);
            match hash {
                Hash::Plain => {}
                Hash::Mode("read") => self.command(&["HSET", "hash", "mode", "read", HOLD, "1"]),
                Hash::Mode(mode) => self.command(&["HSET", "hash", "mode", mode, &writer, "1"]),
            }
        }
        if keys.iter().any(|key| key == "string") {
            self.command(&["SET", "string", &"7".repeat(MANY)]);
        }
        for key in keys.iter().filter(|key| key.starts_with("absent")) {
            self.command(&["DEL", key]);
        }
    }

    /// The work of a script: commands, parts of replies, bytes of replies, and what a command does within the server. A large key is not
    /// deleted but put aside, because the next script needs it.
    fn work(&self, script: &Script, keys: &[String], hash: Hash) -> i64 {
        self.prepare(keys, hash);
        let counting = format!(
            "local work, large = 0, {{hash = true, list = true, zset = true}}
             local function put_aside(key)
               if large[key] then
                 large[key] = false
                 return redis.call('RENAMENX', key, 'aside:' .. key) == 1
               end
             end
             local function counted(run)
               return function(name, ...)
                 work = work + 1
                 if name == 'DEL' then
                   local deleted = 0
                   for _, key in ipairs({{...}}) do
                     if run('EXISTS', key) == 1 then
                       deleted = deleted + 1
                       if not put_aside(key) then run('DEL', key) end
                     end
                   end
                   return deleted
                 end
                 local key = ...
                 if name == 'SET' and run('EXISTS', key) == 1 then put_aside(key) end
                 local reply = run(name, ...)
                 if type(reply) == 'table' or type(reply) == 'string' then work = work + #reply end
                 if name == 'LREM' then work = work + {MANY} end
                 if name == 'ZREMRANGEBYSCORE' and type(reply) == 'number' then work = work + reply end
                 return reply
               end
             end
             local redis = {{call = counted(redis.call), pcall = counted(redis.pcall), error_reply = redis.error_reply}}
             local function script()
             {}
             end
             script()
             return work",
            script.source()
        );
        let bytes = |word: &str| Bytes::copy_from_slice(word.as_bytes());
        let keys: Vec<_> = keys.iter().map(|key| bytes(key)).collect();
        let args: Vec<_> = script.args().iter().map(|word| bytes(argument(script, word))).collect();
        match self.server.command(&eval(&counting, &keys, &args)) {
            Resp::Int(work) => work,
            // A command that is refused the type of its key has read nothing.
            Resp::Error(text) if text.contains("WRONGTYPE") => 0,
            other => panic!("{} KEYS {keys:?}: {other:?}", script.name()),
        }
    }
}

/// The type of the key in a slot.
fn type_of(script: &Script, word: &str) -> &'static str {
    match (script.name().split('/').next(), word) {
        (Some("simple"), "lock") => "string",
        (Some("any"), "permits") => "zset",
        (_, "lock" | "marks" | "client" | "fence") => "hash",
        (_, "queue") => "list",
        (_, "deadlines" | "readers" | "writers") => "zset",
        (_, "token" | "hold_key" | "record" | "ticket" | "semaphore" | "permits" | "latch" | "data") => "string",
        _ => panic!("say which type the key {word:?} of {} has", script.name()),
    }
}

/// The value of an argument.
fn argument(script: &Script, word: &str) -> &'static str {
    match word {
        "count" if script.name().ends_with("/release") => "0",
        "hold" if script.name().starts_with("write/") => "6f0c:7:write",
        "hold" | "holder" | "front" | "owner" | "writer" | "reader" => HOLD,
        "kept" => "6f0c:7!",
        "client" => "6f0c",
        "ids" | "id" => "0123456789abcdef",
        "count" | "permits" | "number" | "waits" | "placed" | "granted" | "prefer" => "1",
        "capacity" | "token" | "pid" | "up" => "7",
        // Longer than the test takes.
        "lease" | "memory" | "mark" | "window" | "skew" | "lifetime" | "since" => "30000000",
        "keep" => "0",
        "not_after" => "-1",
        "settings" => "2000,500,1000,300000,2000,2000,250,600000",
        "publish" => "PUBLISH",
        "question" => "NUMSUB",
        "most" => "16",
        "host" | "application" | "within" | "note" | "locks" | "value" | "channel" | "exclusive" | "shared"
        | "counter" | "latch" | "secret" | "offered" => "it",
        _ => panic!("say what the argument {word:?} of {} can be", script.name()),
    }
}

/// The keys of a call: those that are large have the names of their types, and the others are absent.
fn keys(script: &Script, large: impl Fn(usize, &'static str) -> Option<&'static str>) -> Vec<String> {
    let slots = script.keys().iter().enumerate();
    slots
        .map(|(at, word)| large(at, type_of(script, word)).map_or_else(|| format!("absent:{at}"), str::to_owned))
        .collect()
}

#[test]
fn a_script_reads_a_bounded_part_of_a_key_of_a_million_entries() {
    let mut beyond = Vec::new();
    // Members that are over, and members that are to come.
    for score in ["1", "4000000000000"] {
        let scene = Scene::new(score);
        for script in script::ALL {
            let mut calls = vec![keys(script, |_, own| Some(own))];
            for slot in 0..script.keys().len() {
                calls.extend(TYPES.map(|large| keys(script, |at, _| (at == slot).then_some(large))));
            }
            for keys in calls {
                // A guarded value is read as a whole: it is what the caller asks for.
                if script.name() == "store/read" && keys[0] == "string" {
                    continue;
                }
                let has_hash = keys.iter().any(|key| key == "hash");
                for hash in [Hash::Plain, Hash::Mode("read"), Hash::Mode("write")] {
                    if !has_hash && hash != Hash::Plain {
                        continue;
                    }
                    let work = scene.work(script, &keys, hash);
                    if work > MOST {
                        beyond.push(format!("{} KEYS {keys:?}, {hash:?}, scores {score}: {work}", script.name()));
                    }
                }
            }
        }
    }
    assert!(beyond.is_empty(), "more than {MOST} steps:\n{}", beyond.join("\n"));
}
