//! `cargo xtask licenses`: may everything that we build on be used under the licences that we offer?

use crate::{Outcome, cargo};
use spdx::{Expression, LicenseReq, ParseMode};
use std::collections::BTreeMap;

/// Licences that ask for no more than notice. A person who adds one has read it.
const ACCEPTED: [&str; 12] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Checks every package of the tree, of all platforms and features, development dependencies included.
pub(crate) fn run() -> Outcome {
    let tree = ["tree", "--workspace", "--all-features", "--target", "all", "--prefix", "none", "--format", "{p}\t{l}"];
    let output = cargo(&tree).output().map_err(|error| format!("cargo tree cannot be run: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo tree failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut packages = BTreeMap::new();
    for (package, license) in text.lines().filter_map(|line| line.split_once('\t')) {
        // Packages that were shown before are marked behind their licence.
        packages.insert(package.trim().to_owned(), license.trim_end_matches("(*)").trim().to_owned());
    }
    let refused: Vec<_> = packages.iter().filter(|(_, license)| !is_accepted(license)).collect();
    for (package, license) in &refused {
        println!("{package}: {}", if license.is_empty() { "no licence" } else { license });
    }
    println!("{} packages, {} with a licence that is not accepted", packages.len(), refused.len());
    if refused.is_empty() && !packages.is_empty() { Ok(()) } else { Err("the licences are not in order".to_owned()) }
}

/// Manifests of old write a slash for `OR`.
const MODE: ParseMode = ParseMode { allow_slash_as_or_operator: true, ..ParseMode::STRICT };

/// Whether an SPDX expression can be fulfilled with accepted licences.
fn is_accepted(expression: &str) -> bool {
    let accepts = |license: &LicenseReq| ACCEPTED.contains(&license.to_string().as_str());
    Expression::parse_mode(expression, MODE).is_ok_and(|expression| expression.evaluate(accepts))
}

#[cfg(test)]
mod tests {
    use super::is_accepted;

    #[test]
    fn one_way_to_comply_is_enough_and_all_of_it_is_needed() {
        for accepted in ["MIT", "MIT/Apache-2.0", "GPL-3.0-only OR MIT", "(MIT OR Apache-2.0) AND Unicode-3.0"] {
            assert!(is_accepted(accepted), "{accepted}");
        }
        assert!(is_accepted("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT"));
        assert!(is_accepted("GPL-2.0-only AND ISC OR MIT"), "AND binds tighter");
        for refused in ["", "GPL-3.0-only", "MIT AND GPL-3.0-only", "MIT OR", "(MIT", "MIT)", "MIT WITH Foo", "ISC MIT"]
        {
            assert!(!is_accepted(refused), "{refused}");
        }
    }
}
