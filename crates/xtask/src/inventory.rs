//! `cargo xtask inventory`: the load test of the example service, with all that it needs.

use crate::{Outcome, cargo, run, servers};
use leasehold_test_support::Server;
use std::env;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Builds the service and sells its units, on each database there is. `LEASEHOLD_URL` and `DATABASE_URL` name servers that run already;
/// otherwise private ones are started, and are gone afterwards.
pub(crate) fn run_all() -> Outcome {
    let server = match env::var_os("LEASEHOLD_URL") {
        Some(_) => None,
        None => {
            let binaries = servers::found_or_installed();
            let binary =
                binaries.first().ok_or("there is neither a Redis nor a Valkey server: run `cargo xtask servers`")?;
            Some(Server::builder().binary(binary).start())
        }
    };
    let url = server.as_ref().map(Server::url);
    let load = |database: Option<String>| {
        let mut command = cargo(&["run", "--manifest-path", "examples/axum-inventory/Cargo.toml"]);
        command.args(["--target-dir", "target/inventory", "--", "load"]);
        command.envs(url.iter().map(|url| ("LEASEHOLD_URL", url)));
        command.envs(database.iter().map(|url| ("DATABASE_URL", url)));
        run(&mut command)
    };
    if env::var_os("DATABASE_URL").is_some() {
        return load(None);
    }
    let sqlite = load(None);
    let Some(programs) = Postgres::programs() else {
        println!("left out: the load on PostgreSQL, because there is none on this machine and DATABASE_URL names none");
        return sqlite;
    };
    let postgres = Postgres::start(&programs)?;
    let on_postgres = load(Some(postgres.url()));
    sqlite.and(on_postgres)
}

/// A private PostgreSQL, which is stopped and removed when this is dropped.
struct Postgres {
    programs: PathBuf,
    folder: PathBuf,
    port: u16,
}

impl Postgres {
    /// The folder with `initdb` and `pg_ctl`, which Debian does not put on the `PATH`.
    fn programs() -> Option<PathBuf> {
        let on_path = env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>()).unwrap_or_default();
        let of_debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let of_debian = of_debian.map(|version| version.path().join("bin"));
        on_path
            .into_iter()
            .chain(of_debian)
            .find(|folder| folder.join("initdb").exists() && folder.join("pg_ctl").exists())
    }

    fn start(programs: &Path) -> Result<Self, String> {
        let told = |error: std::io::Error| format!("PostgreSQL cannot be started: {error}");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).map_err(told)?.port();
        let folder = env::temp_dir().join(format!("leasehold-postgres-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(told)?;
        let postgres = Self { programs: programs.to_owned(), folder, port };
        if is_root() {
            done(Command::new("chown").arg("postgres").arg(&postgres.folder))?;
        }
        done(postgres.command("initdb").args(["--username=shop", "--auth=trust", "--no-sync"]))?;
        let options = format!("-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=''");
        done(
            postgres
                .command("pg_ctl")
                .args(["start", "--wait", "--silent", "--log"])
                .arg(postgres.folder.join("log"))
                .args(["--options", &options]),
        )?;
        Ok(postgres)
    }

    /// A program of PostgreSQL for this folder. None of them runs as root.
    fn command(&self, program: &str) -> Command {
        let program = self.programs.join(program);
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.arg("--pgdata").arg(&self.folder).current_dir("/").stdout(Stdio::null());
        command
    }

    fn url(&self) -> String {
        format!("postgres://shop@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = done(self.command("pg_ctl").args(["stop", "--mode=immediate", "--silent"]));
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

/// Runs a program whose success is not told.
fn done(command: &mut Command) -> Outcome {
    let status = command.status().map_err(|error| format!("{command:?} cannot be run: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed ({status})")) }
}
