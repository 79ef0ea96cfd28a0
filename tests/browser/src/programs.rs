//! The programs under test, found on the `PATH` and below the target directory.

use std::path::{Path, PathBuf};

/// The command `leasehold`, in the build that users have.
pub(crate) fn leasehold() -> PathBuf {
    let program = target().join("release/leasehold");
    assert!(program.is_file(), "{} is missing: cargo build --release --package leasehold-cli", program.display());
    program
}

/// The driver of Chromium.
pub(crate) fn driver() -> PathBuf {
    on_path(&["chromedriver"])
}

/// Chromium, under its name on several systems.
pub(crate) fn browser() -> PathBuf {
    on_path(&["chromium", "chromium-browser", "google-chrome"])
}

/// The folder for the pictures.
pub(crate) fn pictures() -> PathBuf {
    let folder = target().join("browser/pictures");
    std::fs::create_dir_all(&folder).expect("a folder for the pictures");
    folder
}

/// The target directory: this program is in `debug` below it.
fn target() -> PathBuf {
    let program = std::env::current_exe().expect("this program has a path");
    program.ancestors().nth(2).map(Path::to_owned).expect("a target directory")
}

fn on_path(names: &[&str]) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = names
        .iter()
        .find_map(|name| std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file()));
    found.unwrap_or_else(|| {
        panic!("there is no {} on the PATH (on Debian: apt-get install chromium chromium-driver)", names[0])
    })
}
