//! The scripts: header, code, table in core, decoder and server agree.

use crate::files::{self, File};
use crate::header::Header;
use crate::lua_code::{self, Word};
use crate::replies;
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::script::{self, Script};
use leasehold_embedded::{EmbeddedServer, ManualClock, ServerClock};
use leasehold_test_support::{Binary, Connection, Keys, Profile, Server, Service, binaries};
use std::collections::{BTreeMap, BTreeSet};

/// The Lua files, by their names without folder `lua/` and ending.
fn lua_files() -> BTreeMap<String, File> {
    files::tracked()
        .into_iter()
        .filter(|file| file.path.starts_with("lua/") && file.has_ending("lua"))
        .map(|file| (file.path["lua/".len()..file.path.len() - ".lua".len()].to_owned(), file))
        .collect()
}

fn preludes() -> BTreeMap<String, File> {
    lua_files().into_iter().filter(|(name, _)| name.starts_with("shared/")).collect()
}

/// The short ways, with which some scripts begin.
fn short_ways() -> BTreeMap<String, File> {
    lua_files().into_iter().filter(|(name, _)| name.starts_with("short/")).collect()
}

/// The name of the short way that a script has, if it has one.
fn short_way_of(script: &Script) -> String {
    format!("short/{}", script.name().replace('/', "_"))
}

/// Every script of the table, with its own file and its header.
fn scripts() -> Vec<(&'static Script, File, Header)> {
    let files = lua_files();
    script::ALL
        .iter()
        .map(|script| {
            let file =
                files.get(script.name()).unwrap_or_else(|| panic!("lua/{}.lua is missing", script.name())).clone();
            let header = Header::parse(&file.text).unwrap_or_else(|error| panic!("{}: {error}", file.path));
            (*script, file, header)
        })
        .collect()
}

/// The names of the preludes, and of the short way, that stand in front of a script's own file, in order.
fn included(script: &Script, file: &File, preludes: &BTreeMap<String, File>) -> Vec<String> {
    let mut rest = script.source().strip_suffix(file.text.as_str()).expect("the file comes last");
    let mut included = Vec::new();
    let short_ways = short_ways();
    while !rest.is_empty() {
        let (name, prelude) = preludes
            .iter()
            .chain(&short_ways)
            .find(|(_, prelude)| rest.starts_with(&prelude.text))
            .unwrap_or_else(|| panic!("{}: what stands in front of the file is no prelude:\n{rest}", file.path));
        rest = &rest[prelude.text.len()..];
        included.push(name.clone());
    }
    included
}

/// The names of the functions of a prelude, each with its parameters.
fn functions(prelude: &str) -> Vec<(String, Vec<String>)> {
    let words = lua_code::words(prelude);
    words
        .windows(2)
        .enumerate()
        .filter(|(_, pair)| pair[0].is("function"))
        .map(|(at, pair)| {
            let parameters = words[at + 3..].iter().take_while(|word| !word.is(")")).filter_map(Word::name);
            (pair[1].name().expect("a function has a name").to_owned(), parameters.map(str::to_owned).collect())
        })
        .collect()
}

#[test]
fn every_file_is_in_the_table_and_every_entry_has_a_file() {
    let is_script = |name: &String| !name.starts_with("shared/") && !name.starts_with("short/");
    let files: BTreeSet<_> = lua_files().into_keys().filter(is_script).collect();
    let table = script::ALL.iter().map(|script| script.name().to_owned());
    // The loop of a batch is put behind other scripts, and is none by itself.
    let table: BTreeSet<_> = table.chain(["batch/run".to_owned()]).collect();
    assert_eq!(files, table, "files below lua/, and leasehold_core::script::ALL");
}

#[test]
fn the_text_of_a_script_is_its_preludes_and_its_file() {
    let (preludes, short_ways) = (preludes(), short_ways());
    for (script, file, _) in scripts() {
        let short = short_ways.get(&short_way_of(script)).map(|short| short.text.as_str());
        let body: Vec<_> = [short.unwrap_or_default(), &file.text].into_iter().flat_map(lua_code::words).collect();
        // A function is used where it is called: a local variable may have the name of another prelude's function.
        let uses = |text: &str, words: &[Word]| {
            let is_call = |pair: &[Word], name: &str| pair[0].name() == Some(name) && pair[1].is("(");
            functions(text).iter().any(|(name, _)| words.windows(2).any(|pair| is_call(pair, name)))
        };
        let included = included(script, &file, &preludes);
        for (name, prelude) in &preludes {
            // A prelude may use those that stand in front of it.
            let by_prelude = included.iter().filter(|other| *other != name && preludes.contains_key(*other));
            let is_used = uses(&prelude.text, &body)
                || by_prelude.clone().any(|other| uses(&prelude.text, &lua_code::words(&preludes[other].text)));
            assert_eq!(included.contains(name), is_used, "{} includes {name} exactly if it uses it", file.path);
        }
        let own: Vec<_> = included.iter().filter(|name| short_ways.contains_key(*name)).collect();
        let wanted: Vec<_> = short.map(|_| short_way_of(script)).into_iter().collect();
        assert!(own.iter().copied().eq(&wanted), "{} begins with {own:?}", file.path);
    }
}

#[test]
fn a_short_way_returns_before_the_long_way_is_built() {
    let (preludes, short_ways) = (preludes(), short_ways());
    assert!(!short_ways.is_empty(), "there are short ways");
    for (name, short) in &short_ways {
        let (script, file, header) = scripts()
            .into_iter()
            .find(|(script, ..)| short_way_of(script) == *name)
            .unwrap_or_else(|| panic!("{name} is the short way of no script"));
        let included = included(script, &file, &preludes);
        let at = included.iter().position(|other| other == name).expect("the script has it");
        // Each function that stands in front of it is built in every run.
        let used = |text: &str| -> BTreeSet<String> {
            lua_code::words(text).iter().filter_map(Word::name).map(str::to_owned).collect()
        };
        let mut needed = used(&short.text);
        for prelude in included[..at].iter().rev().map(|prelude| &preludes[prelude].text) {
            assert!(functions(prelude).iter().any(|(function, _)| needed.contains(function)), "{name} needs {prelude}");
            needed.extend(used(prelude));
        }
        for (table, slots) in [("KEYS", &header.keys), ("ARGV", &header.args)] {
            let words = lua_code::words(&short.text);
            for at in (0..words.len()).filter(|at| words[*at].is(table) && words[at + 1].is("[")) {
                let Word::Number(slot) = &words[at + 2] else { panic!("{name}: {table} has no number") };
                assert!(
                    slots.iter().any(|declared| declared.index == *slot),
                    "{name}: {table}[{slot}] is not declared"
                );
            }
        }
    }
}

#[test]
fn preludes_have_nothing_but_local_functions() {
    let mut known = BTreeSet::new();
    for (name, prelude) in preludes() {
        let top = prelude.text.lines().filter(|line| !line.is_empty() && !line.starts_with([' ', '-']));
        for line in top {
            assert!(
                line == "end" || line.starts_with("local function "),
                "{name} has more than local functions: {line}"
            );
        }
        for (function, _) in functions(&prelude.text) {
            assert!(known.insert(function.clone()), "{function} is in two preludes");
        }
    }
    assert!(!known.is_empty(), "there are preludes");
}

#[test]
fn headers_name_the_slots_of_the_table() {
    for (script, file, header) in scripts() {
        let words = |slots: &[crate::header::Slot]| slots.iter().map(|slot| slot.word.clone()).collect::<Vec<_>>();
        assert_eq!(words(&header.keys), script.keys(), "KEYS of {}", file.path);
        assert_eq!(words(&header.args), script.args(), "ARGV of {}", file.path);
        assert!(!header.purpose.is_empty(), "{} begins with its purpose", file.path);
        let expected = |slots: usize| -> Vec<String> {
            (1..=slots).map(|slot| if script.is_renewal() { repeated(slots, slot) } else { slot.to_string() }).collect()
        };
        let indices = |slots: &[crate::header::Slot]| slots.iter().map(|slot| slot.index.clone()).collect::<Vec<_>>();
        assert_eq!(indices(&header.keys), expected(header.keys.len()), "KEYS of {} in order", file.path);
        assert_eq!(indices(&header.args), expected(header.args.len()), "ARGV of {} in order", file.path);
        for slot in header.keys.iter().chain(&header.args) {
            let sorts = ["hash", "list", "zset", "channel", "string", "integer"];
            assert!(sorts.contains(&slot.sort.as_str()), "{}: [{}] of {} is a type", file.path, slot.sort, slot.word);
            assert!(!slot.meaning.is_empty(), "{}: {} has a meaning", file.path, slot.word);
        }
        assert!(["array", "integer"].contains(&header.shape.as_str()), "{} returns integers or arrays", file.path);
        for row in &header.returns {
            assert!(!row.meaning.is_empty(), "{}: {} has a meaning", file.path, row.reply);
        }
    }
}

/// The index of a slot that is repeated for each lock: `i`, or `2i-1` and `2i`.
fn repeated(slots: usize, slot: usize) -> String {
    match (slots, slots - slot) {
        (1, _) => "i".to_owned(),
        (n, 0) => format!("{n}i"),
        (n, less) => format!("{n}i-{less}"),
    }
}

#[test]
fn scripts_use_the_slots_that_they_declare_and_no_others() {
    for (script, file, header) in scripts() {
        let words = lua_code::words(&file.text);
        for (table, slots) in [("KEYS", &header.keys), ("ARGV", &header.args)] {
            let declared: BTreeSet<_> = slots.iter().map(|slot| slot.index.clone()).collect();
            let mut used = BTreeSet::new();
            for (at, word) in words.iter().enumerate().filter(|(_, word)| word.is(table)) {
                let counted = at.checked_sub(1).is_some_and(|before| words[before].is("#"));
                if counted {
                    assert!(script.is_renewal(), "{} counts {table}, which only a repeated script may", file.path);
                    continue;
                }
                assert!(words[at + 1].is("["), "{}: {table} is used by index only, not {word:?}", file.path);
                let index: String = words[at + 2..]
                    .iter()
                    .take_while(|word| !word.is("]"))
                    .map(|word| match word {
                        Word::Name(text) | Word::Number(text) | Word::Text(text) | Word::Sign(text) => text.as_str(),
                    })
                    .filter(|text| *text != "*")
                    .collect();
                used.insert(index);
            }
            assert_eq!(used, declared, "{table} of {}: used, and declared", file.path);
        }
    }
}

#[test]
fn scripts_use_no_undeclared_name() {
    for (script, file, _) in scripts() {
        // The whole text in its order: a prelude may use what stands in front of it, and nothing else.
        assert_eq!(lua_code::undeclared(script.source(), &[]), [""; 0], "in {}", file.path);
    }
}

#[test]
fn no_script_makes_up_a_key() {
    let preludes = preludes();
    let of_keys = |prelude: &File| -> BTreeSet<String> {
        let functions = functions(&prelude.text).into_iter();
        functions.filter(|(_, parameters)| parameters.iter().any(is_key_name)).map(|(function, _)| function).collect()
    };
    for (name, prelude) in &preludes {
        // A key goes to a command, or to a function of another prelude that takes one.
        let others: BTreeSet<_> =
            preludes.iter().filter(|(other, _)| *other != name).flat_map(|(_, other)| of_keys(other)).collect();
        let takes =
            |word: &Word| word.is("redis") || word.is("fair") || word.name().is_some_and(|it| others.contains(it));
        for (function, parameters) in functions(&prelude.text) {
            let touches = lua_code::words(&prelude.text).iter().any(takes);
            // A script that touches nothing is told of no key.
            let is_plain = touches || !parameters.iter().any(is_key_name);
            assert!(parameters.len() < 5 && is_plain, "{function} of {name} is plain");
        }
        let bound: Vec<_> =
            functions(&prelude.text).into_iter().flat_map(|(_, parameters)| parameters).filter(is_key_name).collect();
        assert_keys(&prelude.path, &prelude.text, &bound, &BTreeMap::new());
        assert_channels(&prelude.path, &prelude.text, &[]);
        for slot in FIELDS_OF_FAIR {
            assert!(!prelude.text.contains(&format!("fair.{slot} = ")), "{name}: fair.{slot} stays what it was");
        }
    }
    assert_keys_stay(&preludes);
    let takes_key: BTreeMap<_, Vec<_>> = preludes
        .values()
        .flat_map(|prelude| functions(&prelude.text))
        .map(|(function, parameters)| {
            (function, (0..parameters.len()).filter(|at| is_key_name(&parameters[*at])).collect())
        })
        .collect();
    for (_, file, header) in scripts() {
        let bound = bound_to("KEYS", &file.text, |_| true);
        assert_keys(&file.path, &file.text, &bound, &takes_key);
        let is_channel = |index: &str| header.args.iter().any(|slot| slot.index == index && slot.sort == "channel");
        assert_channels(&file.path, &file.text, &bound_to("ARGV", &file.text, is_channel));
        for name in bound.iter().chain(&["channel".to_owned()]) {
            let assigned = file.text.lines().filter(|line| line.trim_start().starts_with(&format!("{name} = ")));
            assert_eq!(assigned.count(), 0, "{}: {name} stays what it was bound to", file.path);
        }
        let is_fair = file.text.contains("local fair = {");
        for slot in FIELDS_OF_FAIR.into_iter().filter(|slot| is_fair && file.text.contains(&format!("{slot} = "))) {
            let table = if slot == "channel" { "ARGV" } else { "KEYS" };
            assert!(file.text.contains(&format!("{slot} = {table}[")), "{}: fair.{slot} is one of {table}", file.path);
            assert!(!file.text.contains(&format!("fair.{slot} = ")), "{}: fair.{slot} stays that", file.path);
        }
    }
}

/// The local variables that a script binds to a slot of `table`, if the index of the slot is `wanted`.
fn bound_to(table: &str, text: &str, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let mut bound = Vec::new();
    for (names, values) in text.lines().filter_map(|line| line.strip_prefix("local ")?.split_once(" = ")) {
        for (name, value) in names.split(", ").zip(values.split(", ")) {
            let index = value.strip_prefix(table).and_then(|rest| rest.strip_prefix('[')?.strip_suffix(']'));
            if index.is_some_and(&wanted) {
                bound.push(name.to_owned());
            }
        }
    }
    bound
}

#[test]
fn a_call_of_one_lock_has_no_channel_among_its_keys() {
    // A server refuses a call with two keys while their slot moves, if one of the keys is not there. A channel never is.
    for (script, _, header) in scripts() {
        let channels: Vec<_> =
            header.keys.iter().filter(|slot| slot.sort == "channel" || slot.word == "channel").collect();
        assert!(channels.is_empty(), "{} has {channels:?} among its KEYS", script.name());
        let publishes = script.args().contains(&"publish");
        assert_eq!(publishes, script.args().contains(&"channel"), "{} publishes to its channel", script.name());
    }
}

/// Every channel to which a script publishes is one of its `ARGV`, or made of that by the one function that may.
#[track_caller]
fn assert_channels(path: &str, text: &str, bound: &[String]) {
    let words = lua_code::words(text);
    for how in ["call", "pcall"] {
        for arguments in lua_code::calls(&words, &["redis", ".", how]) {
            let Some(channel) = arguments.get(1).filter(|_| publishes(&arguments[0])) else { continue };
            let is_known = match &channel[..] {
                [name] => name.name().is_some_and(|name| bound.iter().any(|bound| bound == name)),
                [first, ..] => first.is("channel_of") || first.is("ARGV"),
                [] => false,
            };
            assert!(is_known, "{path}: {arguments:?} publishes to a channel that is none of ARGV");
        }
    }
}

/// Whether the command of a call is one that publishes: scripts are told which by an argument.
fn publishes(command: &[Word]) -> bool {
    command.last().is_some_and(|word| word.is("publish")) || command.first().is_some_and(|word| word.is("ARGV"))
}

/// A function that takes all keys of a script calls them `keys`, and gets nothing else.
fn assert_keys_stay(preludes: &BTreeMap<String, File>) {
    let short_ways = short_ways();
    let texts: Vec<_> = preludes.values().chain(short_ways.values()).collect();
    let taking: Vec<_> = texts
        .iter()
        .flat_map(|file| functions(&file.text))
        .filter(|(_, parameters)| parameters.iter().any(|parameter| parameter == "keys"))
        .collect();
    assert!(!taking.is_empty(), "there are such functions");
    for file in &texts {
        let words = lua_code::words(&file.text);
        let changed = words.windows(2).any(|pair| pair[0].is("keys") && pair[1].is("="));
        assert!(!changed && !file.text.contains("local keys"), "{}: keys stay what they were", file.path);
        for (function, parameters) in &taking {
            assert_eq!(parameters[0], "keys", "{function}");
            for arguments in lua_code::calls(&words, &[function]) {
                let [keys] = &arguments[0][..] else { panic!("{}: {function} gets {arguments:?}", file.path) };
                assert!(keys.is("KEYS") || keys.is("keys"), "{}: {function} gets {arguments:?}", file.path);
            }
        }
    }
    for short in short_ways.values() {
        assert_keys(&short.path, &short.text, &[], &BTreeMap::new());
    }
}

/// The fields by which the preludes of the fair lock know its keys and its channel.
const FIELDS_OF_FAIR: [&str; 5] = ["lock", "queue", "deadlines", "marks", "channel"];

/// The one file that puts texts together: fields of the marks, and the channels of waiters, which Redisson makes of the
/// lock's channel and a hold.
const PUTS_TOGETHER: &str = "lua/shared/fair_names.lua";

/// The one function that may put a key together: Redisson has keys that no caller can name before it has read the lock.
const PUTS_KEYS_TOGETHER: &str = "hold_key_of";

/// Whether a parameter of a prelude's function is a key: it is called so.
fn is_key_name(name: &String) -> bool {
    name == "key" || name.ends_with("_key")
}

/// Every key that a command or a prelude's function gets is one of `KEYS`, or bound to one.
#[track_caller]
fn assert_keys(path: &str, text: &str, bound: &[String], takes_key: &BTreeMap<String, Vec<usize>>) {
    let words = lua_code::words(text);
    let one = words.windows(2).position(|pair| pair[0].is("function") && pair[1].is(PUTS_KEYS_TOGETHER));
    let after =
        one.map_or(0, |one| one + words[one..].iter().skip(1).position(|word| word.is("function")).unwrap_or(0));
    let elsewhere = words[..one.unwrap_or(0)].iter().chain(&words[after..]).any(|word| word.is(".."));
    assert!(path == PUTS_TOGETHER || !elsewhere, "{path} puts no texts together");
    let is_key = |argument: &[Word]| match argument {
        [fair, dot, slot] if fair.is("fair") && dot.is(".") => FIELDS_OF_FAIR[..4].iter().any(|known| slot.is(known)),
        [name] => name.name().is_some_and(|name| bound.iter().any(|bound| bound == name)),
        [name, ..] if name.is(PUTS_KEYS_TOGETHER) => true,
        // A function that is given all KEYS calls them `keys`.
        [keys, open, ..] => (keys.is("KEYS") || keys.is("keys")) && open.is("["),
        [] => false,
    };
    for how in ["call", "pcall"] {
        for arguments in lua_code::calls(&words, &["redis", ".", how]) {
            // A message touches no key, and neither does a question about the listeners of a channel.
            let asks_for_listeners = matches!(&arguments[0][..], [Word::Text(text)] if text == "PUBSUB");
            if let Some(key) = arguments.get(1).filter(|_| !(publishes(&arguments[0]) || asks_for_listeners)) {
                assert!(is_key(key), "{path}: {arguments:?} touches a key that is none of KEYS");
            }
        }
    }
    for (function, places) in takes_key {
        for arguments in lua_code::calls(&words, &[function]) {
            for at in places {
                assert!(is_key(&arguments[*at]), "{path}: {function} gets a key that is none of KEYS: {arguments:?}");
            }
        }
    }
}

#[test]
fn decoder_understands_the_headers_replies_and_no_others() {
    for (script, file, header) in scripts() {
        for code in -20..=20 {
            if replies::is_named(script, &header, code) {
                let row = header.returns.iter().find(|row| row.words().first() == Some(&code.to_string().as_str()));
                let row = row.or_else(|| header.returns.iter().find(|row| row.words()[0].parse::<i64>().is_err()));
                let reply = replies::reply(&header, row.expect("a code has a row"), code);
                assert!(
                    replies::is_understood(script, &reply),
                    "{}: {} is not understood",
                    file.path,
                    replies::show(&reply)
                );
            } else {
                for row in header.returns.iter().filter(|row| !row.reply.is_empty() || header.shape == "integer") {
                    let reply = replies::reply(&header, row, code);
                    assert!(
                        !replies::is_understood(script, &reply),
                        "{}: {} is understood, and the header does not name it",
                        file.path,
                        replies::show(&reply)
                    );
                }
            }
        }
    }
}

#[test]
fn the_code_answers_with_the_replies_of_the_header() {
    for (script, file, header) in scripts() {
        let words = lua_code::words(script.source());
        let mut answered = BTreeSet::new();
        for at in 0..words.len() {
            let (Some(opening), rest) = (words.get(at), &words[at + 1..]) else { continue };
            let answers = match header.shape.as_str() {
                "integer" => opening.is("return") || opening.is("and") || opening.is("or"),
                _ => opening.is("{") || (script.is_renewal() && (opening.is("and") || opening.is("or"))),
            };
            let number = match rest {
                [Word::Number(digits), ..] => digits.parse::<i64>().ok(),
                [minus, Word::Number(digits), ..] if minus.is("-") => digits.parse::<i64>().ok().map(|number| -number),
                _ => None,
            };
            answered.extend(number.filter(|_| answers));
        }
        for code in &answered {
            assert!(
                replies::is_named(script, &header, *code),
                "{} answers {code}, which its header does not name",
                file.path
            );
        }
        // A refusal for a key of another kind comes from a prelude; a renewal's 0 is what its counter begins with.
        for code in header.codes().into_iter().filter(|code| *code != -4) {
            assert!(answered.contains(&code), "{} never answers {code}, which its header names", file.path);
        }
    }
}

/// The state that the server needs so that an example returns what it says.
fn scene(script: &str) -> &'static [&'static str] {
    match script {
        "lock/acquire" | "fenced/acquire" | "simple/acquire" | "read/acquire" | "write/acquire" => &[],
        "simple/release" => &["SET stock:1001 Xu2k PX 5500"],
        "simple/renew" => &["SET a Xu2k PX 5500"],
        "simple/inspect" => &["SET stock:1001 Xu2k PX 5210"],
        "read/release" | "read/renew" => {
            &["HSET s mode read 6f0c…:7 1", "PEXPIRE s 10000", "ZADD leasehold:1:rw_readers:{s} 1800000010000 6f0c…:7"]
        }
        "write/release" => &["HSET s mode write 6f0c…:7:write 1", "PEXPIRE s 30000"],
        "read_write/inspect" => {
            &["HSET s mode read 6f0c…:7 2", "PEXPIRE s 30000", "ZADD leasehold:1:rw_readers:{s} 1800000029640 6f0c…:7"]
        }
        "lock/inspect" => &["HSET stock:1001 6f0c…:7 2", "PEXPIRE stock:1001 29640"],
        "lock/release" | "lock/force_release" => &["HSET stock:1001 6f0c…:7 1", "PEXPIRE stock:1001 30000"],
        "lock/renew" => &["HSET a 6f0c…:7 1", "PEXPIRE a 10000"],
        "fenced_fair/acquire" | "fair/beat" => &[],
        "fair/acquire" => &["HSET s 6f0c…:3 1", "PEXPIRE s 20000"],
        "fair/release" | "fair/force_release" => &["HSET s 6f0c…:7 1", "PEXPIRE s 20000"],
        "fair/inspect" => &[
            "HSET s 6f0c…:7 2",
            "PEXPIRE s 20000",
            "RPUSH redisson_lock_queue:{s} 6f0c…:8",
            "ZADD redisson_lock_timeout:{s} 1800000003000 6f0c…:8",
        ],
        "semaphore/set" | "permits/set" | "latch/set" => &[],
        "semaphore/acquire" | "semaphore/add" | "semaphore/drain" | "semaphore/inspect" => &["SET seats 10"],
        "semaphore/release" => &["SET seats 8", "SET leasehold:1:op:{seats}:6f0c…:7 -2"],
        "permits/acquire" => &["SET seats 10"],
        "permits/release" | "permits/give" | "permits/resize" | "permits/inspect" | "permits/lease" => {
            &["SET seats 9", "ZADD {seats}:timeout 1800000029640 0123456789abcdef"]
        }
        "permits/renew" => &["ZADD {a}:timeout 1800000010000 0123456789abcdef"],
        "latch/acquire" => &[],
        "latch/count_down" | "latch/inspect" | "latch/delete" => &["SET parts 3"],
        "any/inspect" => &[
            "HSET s 6f0c…:7 2",
            "PEXPIRE s 20000",
            "RPUSH redisson_lock_queue:{s} 6f0c…:8",
            "ZADD redisson_lock_timeout:{s} 1800000003000 6f0c…:8",
        ],
        "record/put" => &[],
        "record/get" | "record/remove" => &[
            "HSET leasehold:1:client:6f0c… host web-3 pid 4711 application orders since 1800000000000",
            "PEXPIRE leasehold:1:client:6f0c… 29640",
        ],
        "durable/mark" => &["HSET stock:1001 6f0c…:7 1", "PEXPIRE stock:1001 30000"],
        "ticket/offer" => &["HSET stock:1001 6f0c…:7 1", "PEXPIRE stock:1001 20000"],
        "ticket/adopt" => {
            &["HSET s 6f0c…:7 1", "PEXPIRE s 20000", "SET leasehold:1:ticket:{s} c0ffee:1800000000000000 PX 20000"]
        }
        "store/read" | "store/write" | "store/check" => {
            &["SET balance 100", "HSET leasehold:1:fence:{balance} token 33 owner 6f0c…:6 write 4"]
        }
        other => panic!("the example of {other} has no scene in tests/contract/lua.rs: add it"),
    }
}

#[test]
fn examples_return_what_they_say() {
    for (script, file, header) in scripts() {
        let server = EmbeddedServer::with_clock(ServerClock::manual(&ManualClock::new()));
        for line in scene(script.name()) {
            let words: Vec<_> = line.split(' ').map(str::as_bytes).collect();
            server.command(&words).expect("the scene can be set");
        }
        let bytes = |words: &[String]| words.iter().map(|word| Bytes::from(word.clone())).collect::<Vec<_>>();
        let call = Call::new(script, bytes(&header.example.keys), bytes(&header.example.args));
        let reply = server.execute(&call).unwrap_or_else(|error| panic!("the example of {}: {error}", file.path));
        assert_eq!(replies::show(&reply), header.example.returns, "the example of {}", file.path);
        assert!(replies::is_understood(script, &reply) || script.is_renewal(), "{} is understood", file.path);
    }
}

#[test]
fn a_header_names_the_keys_that_no_caller_declares() {
    for (script, file, header) in scripts() {
        let makes_up = script.source().contains("hold_key_of(");
        assert_eq!(!header.also.is_empty(), makes_up, "{}: the line `also` of the header", file.path);
    }
}

#[test]
fn examples_run_on_a_server_that_refuses_undeclared_keys() {
    let strict = Profile::ALL.iter().find(|profile| profile.keys == Keys::Declared).expect("a strict profile");
    let service = Service::start(strict, &Binary::any().expect("a server"));
    let mut connection = Connection::connect(service.addr()).expect("a connection");
    for (script, file, header) in scripts() {
        service.server().command(&["FLUSHALL"]);
        for line in scene(script.name()) {
            let set = service.server().command(&line.split(' ').collect::<Vec<_>>());
            assert!(!set.is_error(), "{line}: {set:?}");
        }
        let count = header.example.keys.len().to_string();
        let mut words = vec!["EVAL", script.source(), &count];
        words.extend(header.example.keys.iter().chain(&header.example.args).map(String::as_str));
        let reply = connection.command(&words).expect("a reply");
        assert!(!reply.is_error(), "the example of {}: {reply:?}", file.path);
    }
}

#[test]
fn servers_know_the_scripts_by_our_sha1() {
    let mut servers: Vec<_> = binaries().iter().map(|binary| Server::builder().binary(binary).start()).collect();
    if servers.is_empty() {
        // Says which command gets one.
        servers.push(Server::start());
    }
    for server in &servers {
        for script in script::ALL {
            let loaded = server.command(&["SCRIPT", "LOAD", script.source()]);
            assert_eq!(loaded.as_str(), Some(script.sha1()), "{} on {}", script.name(), server.binary());
        }
    }
}
