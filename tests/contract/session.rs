//! The rooms of a session: components that know no other component, flows that call no higher flow, and one facade.

use crate::files::{self, File};
use std::collections::{BTreeMap, BTreeSet};

const SESSION: &str = "crates/leasehold-core/src/session";

/// The most lines of a function.
const MOST_LINES_OF_A_FUNCTION: usize = 60;

/// What every component may use: names of things, values without a state that others share, and the way out.
const COMMON: [&str; 8] = ["failures", "ids", "missing", "out", "replicas", "retry", "timers", "wish"];

/// The one file of components with fields that flows name: it has the components side by side.
const SIDE_BY_SIDE: &str = "parts.rs";

/// The files of the session, by their names below its folder; the facade is `session.rs`.
fn rooms() -> Vec<(String, File)> {
    let name = |path: &str| {
        let rest = path.strip_prefix(SESSION)?;
        Some(rest.strip_prefix('/').map_or_else(|| "session.rs".to_owned(), str::to_owned))
    };
    files::sources(SESSION).into_iter().filter_map(|file| Some((name(&file.path)?, file))).collect()
}

/// The name of the function that begins on a line of code.
fn function(code: &str) -> Option<&str> {
    let (before, rest) = code.split_once("fn ")?;
    let is_start = before.split_whitespace().all(|word| word == "const" || word.starts_with("pub"));
    let name = rest.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).next()?;
    (is_start && !name.is_empty()).then_some(name)
}

/// The methods of all components together, by the file that has them, and the calls of each file.
fn flows() -> (BTreeMap<String, String>, BTreeMap<String, BTreeSet<String>>) {
    let (mut methods, mut calls) = (BTreeMap::new(), BTreeMap::<String, BTreeSet<String>>::new());
    for (room, file) in rooms() {
        let mut inside = false;
        let mut text = String::new();
        for (_, code) in file.code() {
            inside = (inside || code.starts_with("impl Parts")) && code != "}";
            if let Some(name) = function(&code).filter(|_| inside) {
                methods.insert(name.to_owned(), room.clone());
            }
            text.extend(code.split_whitespace());
            text.push(' ');
        }
        let called = ["self.", "self.parts.", "Self::"].into_iter().flat_map(|start| text.split(start).skip(1));
        let name = |rest: &str| {
            let end = rest.find(|letter: char| !(letter.is_alphanumeric() || letter == '_'))?;
            rest[end..].starts_with('(').then(|| rest[..end].to_owned())
        };
        calls.insert(room, called.filter_map(name).collect());
    }
    (methods, calls)
}

#[test]
fn only_the_facade_has_methods_of_the_session() {
    for (room, file) in rooms() {
        let has = file.code().iter().any(|(_, code)| code.starts_with("impl Session"));
        assert_eq!(has, room == "session.rs", "{room}: flows are methods of `Parts`, and the facade calls them");
    }
}

#[test]
fn no_flow_calls_one_that_calls_it() {
    let (methods, calls) = flows();
    assert!(methods.len() > 150, "the methods are found: {}", methods.len());
    let below: BTreeMap<&str, BTreeSet<&str>> = calls
        .iter()
        .map(|(room, called)| {
            let homes = called.iter().filter_map(|name| methods.get(name)).map(String::as_str);
            (room.as_str(), homes.filter(|home| home != room).collect())
        })
        .collect();
    assert!(below["flow/first_reply.rs"].contains("flow/after_attempt.rs"), "the calls are found");
    // Take away the files that call none of the others, until none is left.
    let mut left = below;
    while !left.is_empty() {
        let lowest: Vec<&str> = left.iter().filter(|(_, below)| below.is_empty()).map(|(room, _)| *room).collect();
        assert!(!lowest.is_empty(), "these files call each other in a circle: {left:#?}");
        for room in lowest {
            left.remove(room);
            left.values_mut().for_each(|below| {
                below.remove(room);
            });
        }
    }
}

#[test]
fn a_component_knows_no_other() {
    for (room, file) in rooms() {
        let folder = room.split(['/', '.']).next().unwrap_or_default();
        if matches!(folder, "session" | "flow" | "parts" | "invariants") {
            continue;
        }
        for (line, code) in file.code() {
            let used = code.strip_prefix("use crate::session::").unwrap_or_default();
            let module = used.split([':', ';']).next().unwrap_or_default();
            // What is named directly is public, and has no state of its own.
            let is_value = module.is_empty() || module.starts_with('{') || module.starts_with(char::is_uppercase);
            let allowed = is_value || module == folder || COMMON.contains(&module);
            assert!(allowed, "{}:{line}: a component knows no other: {code}", file.path);
        }
    }
}

#[test]
fn a_component_keeps_its_fields() {
    for (room, file) in rooms() {
        let folder = room.split('/').next().unwrap_or_default();
        if matches!(folder, "session.rs" | "flow" | "invariants.rs" | "api.rs" | "wish.rs") {
            continue;
        }
        let open = file.code().into_iter().find(|(_, code)| {
            let field = code.strip_prefix("    pub").map(|rest| rest.split_once(") ").map_or(rest, |(_, rest)| rest));
            field.is_some_and(|rest| !rest.contains('(') && rest.contains(": "))
        });
        assert_eq!(open.is_some(), room == SIDE_BY_SIDE, "{}: {open:?}: a component keeps its fields", file.path);
    }
}

#[test]
fn no_function_of_the_session_is_too_long() {
    for (_, file) in rooms() {
        let mut begun: Option<(usize, String)> = None;
        for (line, code) in file.code() {
            if let Some(name) = function(&code) {
                begun = Some((line, name.to_owned()));
            }
            let ends = code == "    }" || code == "}";
            if let Some((first, name)) = begun.take_if(|_| ends) {
                let lines = line - first + 1;
                assert!(lines <= MOST_LINES_OF_A_FUNCTION, "{}: {name} has {lines} lines", file.path);
            }
        }
    }
}
