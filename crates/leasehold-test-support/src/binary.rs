//! Finding the server programs on this machine.

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// Whose server it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flavor {
    /// Redis.
    Redis,
    /// Valkey.
    Valkey,
}

/// The version of a server, ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
    /// The third number.
    pub patch: u32,
}

/// A server program that runs on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// Its path.
    pub path: PathBuf,
    /// Whose it is, by its own words and not by its file name.
    pub flavor: Flavor,
    /// Its version.
    pub version: Version,
}

/// There is no fitting server program. The text ends with the command that gets one.
#[derive(Clone, PartialEq, Eq)]
pub struct NoServer {
    wanted: &'static str,
}

/// All server programs of this machine, Redis before Valkey and old before new, one for each version.
///
/// They are those that the environment variable `LEASEHOLD_SERVERS` lists, in the form of `PATH` but of files. Without that variable, or
/// where it is empty: `redis-server` and `valkey-server` on the `PATH`, and what `cargo xtask servers` put under `servers/` in the target
/// directory. A program that does not run is left out. The search is made once in a process.
#[must_use]
pub fn binaries() -> Vec<Binary> {
    static FOUND: OnceLock<Vec<Binary>> = OnceLock::new();
    FOUND.get_or_init(look_for_binaries).clone()
}

/// As [`binaries`], by a new search: for those who install some meanwhile.
#[must_use]
pub fn look_for_binaries() -> Vec<Binary> {
    let candidates = match listed_by_the_user() {
        Some(list) => env::split_paths(&list).collect(),
        None => on_the_path().chain(installed()).collect::<Vec<_>>(),
    };
    let mut found: Vec<_> = candidates.iter().filter_map(|path| Binary::probe(path)).collect();
    found.sort_by_key(|binary| (binary.flavor, binary.version));
    found.dedup_by_key(|binary| (binary.flavor, binary.version));
    found
}

/// The servers that the environment variable `LEASEHOLD_SERVERS` lists. An empty one counts as none, as a shell makes it by `export
/// LEASEHOLD_SERVERS=`.
#[must_use]
pub fn listed_by_the_user() -> Option<OsString> {
    listed(env::var_os("LEASEHOLD_SERVERS"))
}

fn listed(variable: Option<OsString>) -> Option<OsString> {
    variable.filter(|list| !list.is_empty())
}

impl Binary {
    /// A server for tests that do not care: the newest Redis, else the newest Valkey.
    pub fn any() -> Result<Self, NoServer> {
        Self::redis().or_else(|_| Self::valkey()).map_err(|_| NoServer { wanted: "Redis or Valkey server" })
    }

    /// All of them, for tests that run on each: without any there is nothing that such a test shows.
    pub fn all() -> Result<Vec<Self>, NoServer> {
        Self::any().map(|_| binaries())
    }

    /// The newest Redis.
    pub fn redis() -> Result<Self, NoServer> {
        Self::newest("Redis server", |binary| binary.flavor == Flavor::Redis)
    }

    /// The newest Valkey.
    pub fn valkey() -> Result<Self, NoServer> {
        Self::newest("Valkey server", |binary| binary.flavor == Flavor::Valkey)
    }

    /// The newest Redis that knows sharded notices, else the newest such Valkey.
    pub fn with_sharded_notices() -> Result<Self, NoServer> {
        let wanted = "Redis 7.0 or Valkey server";
        let knows = |binary: &Self| binary.version >= Version { major: 7, minor: 0, patch: 0 };
        Self::newest(wanted, |binary| binary.flavor == Flavor::Redis && knows(binary))
            .or_else(|_| Self::newest(wanted, knows))
    }

    /// The newest Redis that speaks TLS, else the newest such Valkey. Not every build does.
    pub fn with_tls() -> Result<Self, NoServer> {
        let wanted = "server that speaks TLS";
        Self::newest(wanted, |binary| binary.flavor == Flavor::Redis && binary.speaks_tls())
            .or_else(|_| Self::newest(wanted, Self::speaks_tls))
    }

    /// Whether the build has TLS.
    #[must_use]
    pub fn speaks_tls(&self) -> bool {
        // The name of the setting is in the program only when the setting is.
        let setting = b"tls-auth-clients";
        fs::read(&self.path).is_ok_and(|program| program.windows(setting.len()).any(|window| window == setting))
    }

    /// Looks at one program: asks it for its version. `None` if it does not run or is something else.
    #[must_use]
    pub fn probe(path: &Path) -> Option<Self> {
        let output = Self::launcher(path).arg("--version").output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let flavor = match text.split_whitespace().next()? {
            "Redis" => Flavor::Redis,
            "Valkey" => Flavor::Valkey,
            _ => return None,
        };
        let version = text.split_whitespace().find_map(|word| word.strip_prefix("v="))?;
        let mut numbers = version.split('.').map(|number| number.parse().ok());
        let mut number = || numbers.next().flatten();
        let version = Version { major: number()?, minor: number()?, patch: number()? };
        Some(Self { path: path.to_owned(), flavor, version })
    }

    /// A command that starts the program, with the libraries that were installed beside it.
    pub(crate) fn start(&self) -> Command {
        Self::launcher(&self.path)
    }

    fn launcher(path: &Path) -> Command {
        let mut command = Command::new(path);
        let libraries = path.with_file_name("lib");
        if libraries.is_dir() {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        command
    }

    fn newest(wanted: &'static str, fits: impl Fn(&Self) -> bool) -> Result<Self, NoServer> {
        let fitting = binaries().into_iter().filter(fits);
        fitting.max_by_key(|binary| binary.version).ok_or(NoServer { wanted })
    }
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl fmt::Display for Binary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.flavor, self.version)
    }
}

impl fmt::Display for NoServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no {} was found; install one for the tests with:  cargo xtask servers", self.wanted)
    }
}

/// As [`fmt::Display`], because `expect` shows this form and the reader needs the sentence.
impl fmt::Debug for NoServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for NoServer {}

/// The folder into which `cargo xtask servers` puts servers: one directory each, with the program and perhaps `lib/` in it.
pub(crate) fn servers_dir() -> PathBuf {
    let exe = env::current_exe().ok();
    // Cargo marks its target directory, wherever the user told it to be.
    let marked = exe.iter().flat_map(|exe| exe.ancestors()).find(|dir| dir.join("CACHEDIR.TAG").is_file());
    let target = marked.map(Path::to_owned).or_else(|| env::var_os("CARGO_TARGET_DIR").map(PathBuf::from));
    target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target")).join("servers")
}

fn on_the_path() -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<_> = env::split_paths(&path).collect();
    dirs.into_iter().flat_map(programs_in)
}

fn installed() -> impl Iterator<Item = PathBuf> {
    let dirs = fs::read_dir(servers_dir()).into_iter().flatten().flatten();
    dirs.flat_map(|dir| programs_in(dir.path()))
}

fn programs_in(dir: PathBuf) -> impl Iterator<Item = PathBuf> {
    ["redis-server", "valkey-server"].into_iter().map(move |name| dir.join(name)).filter(|path| path.is_file())
}

/// The file name of the program of a flavor.
pub(crate) fn program_name(flavor: Flavor) -> &'static OsStr {
    OsStr::new(match flavor {
        Flavor::Redis => "redis-server",
        Flavor::Valkey => "valkey-server",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_server_and_it_tells_its_version() {
        let binary = Binary::any().expect("a server program");
        assert_eq!(Binary::probe(&binary.path), Some(binary));
    }

    #[test]
    fn what_is_no_server_is_not_taken_for_one() {
        assert_eq!(Binary::probe(Path::new("/bin/sh")), None);
        assert_eq!(Binary::probe(Path::new("/nonexistent/redis-server")), None);
    }

    #[test]
    fn a_list_of_servers_that_is_empty_counts_as_none() {
        assert_eq!(listed(Some(OsString::new())), None);
        assert_eq!(listed(Some(OsString::from("/a:/b"))), Some(OsString::from("/a:/b")));
    }

    #[test]
    fn a_missing_server_names_the_command_that_installs_one() {
        let missing = NoServer { wanted: "Valkey server" };
        assert!(format!("{missing:?}").ends_with("cargo xtask servers"));
    }
}
