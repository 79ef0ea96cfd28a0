//! The features of leasehold, and the sets of them that are checked.

use crate::{Outcome, cargo, metadata, packages};

/// A set of features, by which a build is told from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Features {
    names: Vec<String>,
}

impl Features {
    /// Those of a new user, who names none.
    pub(crate) const fn default() -> Self {
        Self { names: Vec::new() }
    }

    /// None, each alone, and all: the sets in which something can be missing. No code asks for two features at once.
    ///
    /// # Errors
    ///
    /// cargo does not tell which features there are.
    pub(crate) fn sets() -> Result<Vec<Self>, String> {
        Ok(sets_of(&declared()?))
    }

    /// As cargo and a manifest write them.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }
}

/// Checks every set of features for warnings and lints. The rest of `cargo xtask lint` has all features on, and sees no code that needs one.
pub(crate) fn lint() -> Outcome {
    let mut complaints = Vec::new();
    for set in Features::sets()? {
        let mut clippy = cargo(&["clippy", "--package", "leasehold", "--lib", "--no-default-features"]);
        clippy.args(["--features", &set.names().join(","), "--", "--deny", "warnings"]);
        complaints.extend(crate::run(&mut clippy).err());
    }
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("; ")) }
}

fn sets_of(declared: &[String]) -> Vec<Features> {
    let alone = declared.iter().map(|name| Features { names: vec![name.clone()] });
    [Features::default()].into_iter().chain(alone).chain([Features { names: declared.to_vec() }]).collect()
}

/// The features that the manifest of leasehold declares.
fn declared() -> Result<Vec<String>, String> {
    let told = metadata()?;
    let ours = packages(&told).iter().find(|package| package["name"] == "leasehold");
    let features = ours.and_then(|ours| ours["features"].as_object()).ok_or("cargo metadata names no features")?;
    Ok(features.keys().filter(|name| *name != "default").cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_none_each_alone_and_all() {
        let sets: Vec<_> = sets_of(&["a", "b"].map(str::to_owned)).iter().map(|set| set.names().join(",")).collect();
        assert_eq!(sets, ["", "a", "b", "a,b"]);
    }

    #[test]
    fn features_are_those_of_the_manifest() {
        let declared = declared().expect("features");
        assert!(["embedded", "tls"].iter().all(|name| declared.iter().any(|other| other == name)), "{declared:?}");
        assert!(!declared.iter().any(|name| name == "default"), "{declared:?}");
    }
}
