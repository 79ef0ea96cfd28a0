//! What the build of the working tree has of other people's crates. Mutants break none of them, so that they need not be compiled again.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

/// How long the hash is that cargo adds to the name of an artifact.
const HASH: usize = 16;

/// Links the artifacts of all crates but those of `own` from one target directory into another that is new. What cannot be linked is
/// compiled again, and cargo decides by itself which of the artifacts it can use.
pub(super) fn link(from: &Path, to: &Path, own: &HashSet<String>) {
    if to.exists() {
        return;
    }
    let hashes: HashSet<String> = names(&from.join(".fingerprint"))
        .into_iter()
        .filter_map(|name| {
            let (name, hash) = split(&name)?;
            (!own.contains(name)).then(|| hash.to_owned())
        })
        .collect();
    for part in [".fingerprint", "build", "deps"] {
        let linked = names(&from.join(part)).into_iter().filter(|name| is_of(name, &hashes));
        for name in linked {
            // A part of an artifact is as good as none.
            let _ = link_all(&from.join(part).join(&name), &to.join(part).join(&name));
        }
    }
}

/// The names in a folder, none if there is no such folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// The name of an artifact without an ending: the crate's, and its hash.
fn split(name: &str) -> Option<(&str, &str)> {
    let (name, hash) = name.rsplit_once('-')?;
    (hash.len() == HASH && hash.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some((name, hash))
}

/// Whether a file or folder is of one of these artifacts.
fn is_of(name: &str, hashes: &HashSet<String>) -> bool {
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    split(stem).is_some_and(|(_, hash)| hashes.contains(hash))
}

/// Links a file, or all files of a folder.
fn link_all(from: &Path, to: &Path) -> io::Result<()> {
    if from.is_dir() {
        fs::create_dir_all(to)?;
        for name in names(from) {
            let name: &OsStr = name.as_ref();
            link_all(&from.join(name), &to.join(name))?;
        }
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::hard_link(from, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn artifacts_are_known_by_their_hashes() {
        let hashes = HashSet::from(["00e9f3a52bd1c0a7".to_owned()]);
        assert_eq!(split("serde-json-00e9f3a52bd1c0a7"), Some(("serde-json", "00e9f3a52bd1c0a7")));
        assert_eq!(split("leasehold-core"), None);
        assert!(is_of("libserde_json-00e9f3a52bd1c0a7.rlib", &hashes));
        assert!(is_of("serde_json-00e9f3a52bd1c0a7.serde_json.7f-cgu.0.rcgu.o", &hashes));
        assert!(!is_of("libserde_json-11e9f3a52bd1c0a7.rlib", &hashes));
    }

    #[test]
    fn artifacts_of_others_are_linked_and_our_own_are_not() {
        let folder = std::env::temp_dir().join(format!("leasehold-reuse-{}", std::process::id()));
        let (from, to) = (folder.join("from"), folder.join("to"));
        let files = [
            ".fingerprint/serde-00e9f3a52bd1c0a7/lib-serde",
            "build/serde-00e9f3a52bd1c0a7/out/made.rs",
            "deps/libserde-00e9f3a52bd1c0a7.rlib",
            ".fingerprint/leasehold-core-11e9f3a52bd1c0a7/lib-leasehold_core",
            "deps/libleasehold_core-11e9f3a52bd1c0a7.rlib",
        ];
        for file in files {
            let path = from.join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, file).expect("a file");
        }
        link(&from, &to, &HashSet::from(["leasehold-core".to_owned()]));
        let linked = files.map(|file| fs::read_to_string(to.join(file)).is_ok_and(|text| text == file));
        assert_eq!(linked, [true, true, true, false, false]);
        fs::remove_dir_all(folder).expect("the folder goes");
    }
}
