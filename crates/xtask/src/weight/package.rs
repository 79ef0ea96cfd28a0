//! The package of a user, who depends on one lock crate and on nothing else.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Outcome, cargo, features::Features, root};

/// The processors that a build may use at once.
const JOBS: &str = "2";

pub(crate) struct Package {
    title: String,
    dependency: String,
    folder: PathBuf,
    target: PathBuf,
}

impl Package {
    /// The base of the comparison, with the feature by which it speaks to a server.
    pub(crate) fn rslock(within: &Path) -> Self {
        let dependency = "rslock = { version = \"0.10\", features = [\"tokio-comp\"] }";
        Self::new(within, "rslock with tokio-comp".to_owned(), dependency.to_owned())
    }

    pub(crate) fn leasehold(within: &Path, features: &Features) -> Self {
        let names = features.names();
        let title =
            if names.is_empty() { "leasehold".to_owned() } else { format!("leasehold with {}", names.join(", ")) };
        let path = root().join("crates/leasehold");
        let dependency = format!("leasehold = {{ path = {:?}, features = {names:?} }}", path.display().to_string());
        Self::new(within, title, dependency)
    }

    fn new(within: &Path, title: String, dependency: String) -> Self {
        let folder = within.join(title.replace([' ', ','], "-"));
        Self { title, dependency, folder, target: within.join("target") }
    }

    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    /// Writes the package. It gets the versions that this workspace is locked to.
    pub(crate) fn write(&self) -> Outcome {
        let manifest = format!(
            "[package]\nname = \"user\"\nversion = \"0.0.0\"\nedition = \"2024\"\npublish = false\n\n[workspace]\n\n[dependencies]\n{}\n",
            self.dependency
        );
        fs::create_dir_all(self.folder.join("src"))
            .and_then(|()| fs::write(self.folder.join("Cargo.toml"), manifest))
            .and_then(|()| fs::write(self.folder.join("src/lib.rs"), ""))
            .and_then(|()| fs::copy(root().join("Cargo.lock"), self.folder.join("Cargo.lock")))
            .map_err(|error| format!("{} cannot be written: {error}", self.folder.display()))?;
        Ok(())
    }

    /// The crates that a build compiles for this machine, those of build scripts and macros among them. It downloads what is missing.
    pub(crate) fn crates(&self) -> Result<BTreeSet<String>, String> {
        let output = self.cargo(&["tree", "--edges", "normal,build", "--prefix", "none", "--format", "{p}"]).output();
        let output = output.map_err(|error| format!("cargo tree cannot be run: {error}"))?;
        if !output.status.success() {
            return Err(format!("cargo tree failed: {}", String::from_utf8_lossy(&output.stderr)));
        }
        let crates = without_root(&String::from_utf8_lossy(&output.stdout));
        if crates.is_empty() { Err("cargo tree names no crates".to_owned()) } else { Ok(crates) }
    }

    /// Removes what other builds have left behind.
    pub(crate) fn forget_builds(&self) -> Outcome {
        match fs::remove_dir_all(&self.target) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(format!("{} cannot be removed: {error}", self.target.display()))
            }
            _ => Ok(()),
        }
    }

    /// A debug build, without a network.
    pub(crate) fn build(&self) -> Outcome {
        let mut command = self.cargo(&["build", "--quiet", "--offline", "--jobs", JOBS]);
        // A crate from a registry is never compiled incrementally, as one from a path would be.
        command.env("CARGO_INCREMENTAL", "0").env("CARGO_TARGET_DIR", &self.target);
        let status = command.status().map_err(|error| format!("cargo build cannot be run: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("the build of {} failed ({status})", self.title)) }
    }

    fn cargo(&self, args: &[&str]) -> Command {
        let mut command = cargo(args);
        command.arg("--manifest-path").arg(self.folder.join("Cargo.toml"));
        command
    }
}

/// The packages of a tree without its root, which comes first.
fn without_root(tree: &str) -> BTreeSet<String> {
    let below = tree.lines().skip(1).filter(|line| !line.is_empty());
    below.map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_package_is_counted_once_and_the_users_own_is_not() {
        let tree =
            "user v0.0.0 (/tmp/user)\nrslock v0.10.0\nlibc v0.2.1\nredis v1.0.0\nlibc v0.2.1\nredis v1.0.0 (*)\n\n";
        assert_eq!(without_root(tree).len(), 3);
    }

    #[test]
    fn dependency_names_its_features() {
        let within = Path::new("/nowhere");
        let package = Package::leasehold(within, &Features::default());
        assert!(package.dependency.ends_with("crates/leasehold\", features = [] }"), "{}", package.dependency);
        assert_eq!(package.title(), "leasehold");
    }
}
