//! `cargo xtask browser`: the web page of `leasehold serve` in Chromium.

use crate::interop::target;
use crate::{Outcome, cargo, run, servers};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The names of the browser on several systems.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The browser and the program that drives it. Both come from one source, because a driver fits its own version alone.
struct Chromium {
    browser: PathBuf,
    driver: PathBuf,
}

/// Builds the command and the check, and runs it; what is forwarded are parts of the names of cases.
pub(crate) fn check(forwarded: &[String]) -> Outcome {
    let chromium = Chromium::found_or_installed()?;
    let servers = servers::found_or_installed();
    if servers.is_empty() {
        return Err(format!("there is no server to lock on: {}", servers::ADVICE));
    }
    let servers = env::join_paths(servers.iter().map(|binary| &binary.path));
    let servers = servers.map_err(|error| format!("the servers cannot be named: {error}"))?;
    // As users have it: a look at a hundred thousand names takes a debug build seconds.
    run(&mut cargo(&["build", "--release", "--package", "leasehold-cli"]))?;
    let (target, pictures) = (target(), target().join("browser/pictures"));
    fs::create_dir_all(&pictures).map_err(|error| format!("{} cannot be made: {error}", pictures.display()))?;
    let mut check = cargo(&["run", "--quiet", "--manifest-path", "tests/browser/Cargo.toml", "--target-dir"]);
    check.arg(target.join("browser")).arg("--").args(forwarded);
    check.env("LEASEHOLD_PROGRAM", target.join("release/leasehold"));
    check.env("LEASEHOLD_CHROMIUM", chromium.browser).env("LEASEHOLD_CHROMEDRIVER", chromium.driver);
    run(check.env("LEASEHOLD_SERVERS", servers).env("LEASEHOLD_PICTURES", pictures))
}

impl Chromium {
    fn found_or_installed() -> Result<Self, String> {
        if let Some(found) = Self::found() {
            return Ok(found);
        }
        let advice = "Chromium or its driver is missing. Install both (on Debian: apt-get install chromium chromium-driver) and run this again";
        if !is_root() || on_path("apt-get").is_none() {
            return Err(advice.to_owned());
        }
        println!("There is no Chromium with its driver here. Installing both:");
        let apt = || {
            let mut apt = Command::new("apt-get");
            apt.arg("--quiet").env("DEBIAN_FRONTEND", "noninteractive");
            apt
        };
        run(apt().arg("update")).and_then(|()| {
            run(apt().args(["--yes", "install", "--no-install-recommends", "chromium", "chromium-driver"]))
        })?;
        Self::found().ok_or_else(|| advice.to_owned())
    }

    fn found() -> Option<Self> {
        let browser = BROWSERS.into_iter().find_map(on_path)?;
        Some(Self { browser, driver: on_path("chromedriver")? })
    }
}

/// A program of the search path.
fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|program| Path::is_file(program))
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}
