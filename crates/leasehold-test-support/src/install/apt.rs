//! The Redis of a Debian-like system, unpacked from its packages instead of installed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{failed, files_under, run};

/// The system's Redis, with the libraries that this machine lacks beside it in `lib/`.
pub(super) fn redis(work: &Path) -> Result<PathBuf, String> {
    let packages = vec!["redis-server".to_owned(), "redis-tools".to_owned()];
    let private = if download(work, false, &packages).is_ok() {
        false
    } else {
        // The lists are missing or out of date. They are fetched into a place of our own.
        run(apt("apt-get", work, true).args(["--quiet", "update"]))?;
        download(work, true, &packages)?;
        true
    };
    let root = unpack(work)?;
    let program = fs::canonicalize(root.join("usr/bin/redis-server")).map_err(failed("finding the program"))?;
    if lacks_libraries(&program)? {
        download(work, private, &libraries(work, private)?)?;
        unpack(work)?;
        copy_libraries(&root, &work.join("home/lib"))?;
    }
    Ok(program)
}

fn download(work: &Path, private: bool, packages: &[String]) -> Result<String, String> {
    run(apt("apt-get", work, private).args(["--quiet", "download"]).args(packages))
}

/// A command of apt, on the system's lists or on private ones.
fn apt(program: &str, work: &Path, private: bool) -> Command {
    let mut command = Command::new(program);
    command.current_dir(work);
    // As root, apt would change to a user who cannot write here.
    command.args(["-o", "APT::Sandbox::User=root"]);
    if private {
        for (dir, at) in [("State", "apt-state"), ("Cache", "apt-cache")] {
            let path = work.join(at);
            let _ = fs::create_dir_all(path.join(if dir == "State" { "lists/partial" } else { "archives/partial" }));
            command.arg("-o").arg(format!("Dir::{dir}={}", path.display()));
        }
        command.args(["-o", "Dir::State::status=/var/lib/dpkg/status"]);
    }
    command
}

/// Unpacks every package that lies in the working directory.
fn unpack(work: &Path) -> Result<PathBuf, String> {
    let root = work.join("root");
    let entries = fs::read_dir(work).map_err(failed("listing the packages"))?;
    for package in entries.flatten().map(|entry| entry.path()) {
        if package.extension().is_some_and(|ending| ending == "deb") {
            run(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&root))?;
        }
    }
    Ok(root)
}

fn lacks_libraries(program: &Path) -> Result<bool, String> {
    Ok(run(Command::new("ldd").arg(program))?.contains("not found"))
}

/// The packages of the libraries that Redis needs, directly or not. The C library is the machine's own, as is its loader.
fn libraries(work: &Path, private: bool) -> Result<Vec<String>, String> {
    let wanted =
        |name: &str| name.starts_with("lib") && !["libc6", "libelogind0"].contains(&name) && !name.contains(':');
    let mut names: Vec<String> = Vec::new();
    let mut unseen = vec!["redis-tools".to_owned()];
    // Going by libraries only, because the package itself also depends on tools of the system.
    while let Some(package) = unseen.pop() {
        let depends = run(apt("apt-cache", work, private).args(["depends", "--important", &package]))?;
        for name in depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: ")) {
            if wanted(name) && !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
                unseen.push(name.to_owned());
            }
        }
    }
    Ok(names)
}

/// Copies the shared libraries under their own names and under those that programs ask for.
fn copy_libraries(root: &Path, to: &Path) -> Result<(), String> {
    fs::create_dir_all(to).map_err(failed("making a directory"))?;
    for path in files_under(root) {
        let name = path.file_name().unwrap_or_default();
        if name.to_string_lossy().contains(".so.")
            && path.extension().is_none_or(|ending| ending != "py")
            && path.exists()
        {
            fs::copy(&path, to.join(name)).map_err(failed("copying a library"))?;
        }
    }
    Ok(())
}
