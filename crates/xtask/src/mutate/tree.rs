//! A copy of the tracked files, in which mutants live. The files of the working tree are never touched.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::mutant::Mutant;

/// The copy.
pub(super) struct Tree {
    pub(super) root: PathBuf,
}

impl Tree {
    /// Brings the copy below `folder` up to the state of the working tree. An unchanged file keeps its time, so that cargo does not build
    /// it anew.
    pub(super) fn of(workspace: &Path, folder: &Path) -> Result<Self, String> {
        let root = folder.join("tree");
        let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(workspace).output();
        let listed = listed.ok().filter(|listed| listed.status.success()).ok_or("`git ls-files` does not work here")?;
        let names = String::from_utf8_lossy(&listed.stdout).into_owned();
        let mut known = HashSet::new();
        for name in names.split('\0').filter(|name| !name.is_empty()) {
            // A file that is deleted and still tracked is not copied.
            if let Ok(bytes) = fs::read(workspace.join(name)) {
                write(&root.join(name), &bytes).map_err(|error| format!("{name} cannot be copied: {error}"))?;
                known.insert(root.join(name));
            }
        }
        remove_others(&root, &known).map_err(|error| format!("the copy cannot be cleaned: {error}"))?;
        Ok(Self { root })
    }

    /// Puts a mutant into the copy, for as long as the answer lives.
    pub(super) fn with(&self, mutant: &Mutant) -> Result<Applied, String> {
        let path = self.root.join(&mutant.file);
        let before = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", mutant.file))?;
        let broken = mutant.apply(&before)?;
        fs::write(&path, broken).map_err(|error| format!("{}: {error}", mutant.file))?;
        Ok(Applied { path, before })
    }
}

/// A mutant that is in the copy; dropped, it is out of it again.
pub(super) struct Applied {
    path: PathBuf,
    before: String,
}

impl Drop for Applied {
    fn drop(&mut self) {
        if let Err(error) = fs::write(&self.path, &self.before) {
            println!("xtask: {} could not be restored: {error}", self.path.display());
        }
    }
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|known| known == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, bytes)
}

/// Removes what is not tracked any more, so that no test that was deleted runs here.
fn remove_others(folder: &Path, known: &HashSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, known)?;
        } else if !known.contains(&path) && path.file_name().is_none_or(|name| name != "Cargo.lock") {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}
