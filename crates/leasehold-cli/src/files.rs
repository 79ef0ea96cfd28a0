//! Reads the files of options.

use crate::failure::{Exit, Failure};
use std::path::Path;

/// Reads a file.
///
/// # Errors
///
/// The file cannot be read.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| Failure::new(Exit::Io, format!("{} cannot be read: {error}", path.display())))
}

/// Decodes a file as UTF-8, without the trailing line break.
///
/// # Errors
///
/// The contents are not UTF-8.
pub(crate) fn one_line(bytes: Vec<u8>, path: &Path) -> Result<String, Failure> {
    let text =
        String::from_utf8(bytes).map_err(|_| Failure::new(Exit::Io, format!("{} is not UTF-8", path.display())))?;
    Ok(text.strip_suffix('\n').map_or(text.as_str(), |line| line.strip_suffix('\r').unwrap_or(line)).to_owned())
}
