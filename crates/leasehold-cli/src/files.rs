//! The files that options name.

use crate::failure::{Exit, Failure};
use std::path::Path;

/// The bytes of a file that an option names.
///
/// # Errors
///
/// It cannot be read.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| Failure::new(Exit::Io, format!("{} cannot be read: {error}", path.display())))
}

/// The text of a file without the line break at its end.
///
/// # Errors
///
/// It is no text in UTF-8.
pub(crate) fn one_line(bytes: Vec<u8>, path: &Path) -> Result<String, Failure> {
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::new(Exit::Io, format!("{} is no text in UTF-8", path.display())))?;
    Ok(text.strip_suffix('\n').map_or(text.as_str(), |line| line.strip_suffix('\r').unwrap_or(line)).to_owned())
}
