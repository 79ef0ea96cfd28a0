//! The programs, which `cargo xtask browser` names in the environment.

use std::path::PathBuf;

/// The command `leasehold`.
pub(crate) fn leasehold() -> PathBuf {
    named("LEASEHOLD_PROGRAM")
}

/// The driver of Chromium.
pub(crate) fn driver() -> PathBuf {
    named("LEASEHOLD_CHROMEDRIVER")
}

/// Chromium.
pub(crate) fn browser() -> PathBuf {
    named("LEASEHOLD_CHROMIUM")
}

/// The folder for the pictures.
pub(crate) fn pictures() -> PathBuf {
    named("LEASEHOLD_PICTURES")
}

fn named(variable: &str) -> PathBuf {
    std::env::var_os(variable).map_or_else(|| panic!("{variable} is not set: use `cargo xtask browser`"), PathBuf::from)
}
