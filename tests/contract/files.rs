//! The files of the workspace, as text.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file, by its path from the root of the workspace, with slashes.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn has_ending(&self, ending: &str) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, last)| last == ending)
    }

    /// The code of a Rust file, line by line with its number, without comments and without the tests at its end.
    pub(crate) fn code(&self) -> Vec<(usize, String)> {
        let tests = self.text.find("\n#[cfg(test)]\nmod tests {").unwrap_or(self.text.len());
        self.text[..tests]
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
            .map(|(at, line)| (at + 1, line.split(" // ").next().unwrap_or_default().to_owned()))
            .collect()
    }
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path} cannot be read: {error}"))
}

/// Every text file that git tracks; without git, every text file outside of the target directory.
pub(crate) fn tracked() -> Vec<File> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output().ok();
    let mut paths: Vec<PathBuf> = match listed.filter(|output| output.status.success() && !output.stdout.is_empty()) {
        Some(output) => String::from_utf8_lossy(&output.stdout)
            .split('\0')
            .filter(|path| !path.is_empty())
            .map(PathBuf::from)
            .collect(),
        None => walk(Path::new("")),
    };
    paths.sort();
    let files: Vec<_> = paths
        .into_iter()
        .filter_map(|path| {
            let text = fs::read_to_string(root().join(&path)).ok()?;
            Some(File { path: path.to_string_lossy().replace('\\', "/"), text })
        })
        .collect();
    assert!(files.len() > 100, "the workspace has more files than {}", files.len());
    files
}

/// The Rust files below `folder` that are no tests.
pub(crate) fn sources(folder: &str) -> Vec<File> {
    let files: Vec<_> = tracked()
        .into_iter()
        .filter(|file| file.path.starts_with(folder) && file.has_ending("rs") && !file.path.contains("/tests/"))
        .collect();
    assert!(!files.is_empty(), "there are Rust files below {folder}");
    files
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).expect("the folder can be listed");
    entries
        .flat_map(|entry| {
            let name = entry.expect("the folder can be listed").file_name();
            let path = folder.join(&name);
            if root().join(&path).is_dir() {
                if name == "target" || name == ".git" { Vec::new() } else { walk(&path) }
            } else {
                vec![path]
            }
        })
        .collect()
}
