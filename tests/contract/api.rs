//! The recorded API of `docs/api` and the sources name the same methods and types, as far as names tell.
//!
//! `cargo xtask api --check` compares every signature. It needs a tool that not every machine has.

use crate::files::{File, read, sources};
use std::collections::BTreeSet;

/// The names of functions and types that the sources of a library make public, methods in macros included.
fn public_names(folder: &str) -> BTreeSet<String> {
    let of_code = |file: &File| file.code().into_iter().map(|(_, line)| line).collect::<Vec<_>>();
    let lines: Vec<_> =
        sources(folder).iter().filter(|file| !file.path.contains("/tests/")).flat_map(of_code).collect();
    lines.iter().filter_map(|line| public_name(line)).collect()
}

/// The name that stands first in a declaration that is public everywhere. What a macro puts in its place is no name.
fn public_name(line: &str) -> Option<String> {
    let mut words = line.trim_start().strip_prefix("pub ")?.split([' ', '(', '<', ';', ':', '{']);
    loop {
        match words.next()? {
            "async" | "const" | "unsafe" => {}
            "fn" | "struct" | "enum" | "trait" | "type" => {
                return words.next().filter(|name| !name.is_empty() && !name.starts_with('$')).map(str::to_owned);
            }
            _ => return None,
        }
    }
}

/// The last name of the path of each function and type of a recorded API.
fn recorded_names(page: &str) -> BTreeSet<String> {
    read(page).lines().filter_map(recorded_name).collect()
}

fn recorded_name(line: &str) -> Option<String> {
    let rest = ["fn ", "struct ", "enum ", "trait ", "type "].iter().find_map(|word| line.split_once(word))?.1;
    // Arguments of types have paths of their own: `Guard<leasehold::kind::Permit>::ids`.
    let mut depth = 0_usize;
    let mut path = String::new();
    for c in rest.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' | ' ' if depth == 0 => break,
            _ if depth == 0 => path.push(c),
            _ => {}
        }
    }
    path.trim_end_matches(':').rsplit("::").next().map(str::to_owned)
}

#[test]
fn recorded_api_has_the_names_of_the_sources() {
    for (folder, page) in [
        ("crates/leasehold/src", "docs/api/leasehold.txt"),
        ("crates/leasehold-tower/src", "docs/api/leasehold-tower.txt"),
    ] {
        let (public, recorded) = (public_names(folder), recorded_names(page));
        assert!(public.len() > 5 && recorded.len() > 5, "{page} has {} names", recorded.len());
        // Traits that seal others are public to nobody.
        let new: Vec<_> =
            public.difference(&recorded).filter(|name| !["Sealed", "Group"].contains(&name.as_str())).collect();
        assert!(new.is_empty(), "{page} lacks {new:?}: `cargo xtask api` writes it");
    }
}

#[test]
fn recorded_methods_are_in_the_sources() {
    let all = [
        "crates/leasehold/src",
        "crates/leasehold-tower/src",
        "crates/leasehold-core/src",
        "crates/leasehold-embedded/src",
    ];
    let text: String = all.iter().flat_map(|folder| sources(folder)).map(|file| file.text).collect();
    for page in ["docs/api/leasehold.txt", "docs/api/leasehold-tower.txt"] {
        for line in read(page).lines().filter(|line| line.contains("fn ")) {
            let name = recorded_name(line).expect("a name");
            // Methods of derived and foreign traits have no text of their own.
            let is_of_trait =
                ["clone", "eq", "fmt", "hash", "default", "from", "cmp", "partial_cmp"].contains(&name.as_str());
            let known = is_of_trait || text.contains(&format!("fn {name}")) || text.contains(&format!(" {name}("));
            assert!(known, "{page} has {line:?}, and the sources have no {name}: `cargo xtask api` writes it");
        }
    }
}
