//! Nothing outlives a test process that was killed.
//!
//! `Drop` does not run for a server that is kept in a `static`, nor when the process is killed or aborts. One shell for each
//! test process therefore waits for the end of a pipe that only the test process holds; whatever ends that process closes
//! the pipe, and the shell then kills the servers that are left and removes their files.

use std::{
    env, fs,
    io::Write,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{self, Child, Command, Stdio},
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// The shell of this process, and the directory that it will remove.
struct Reaper {
    dir: PathBuf,
    /// It is never waited for: it ends after this process.
    shell: Mutex<Child>,
}

/// A directory for the files of one server, removed on drop.
#[derive(Debug)]
pub(crate) struct ScratchDir(PathBuf);

impl ScratchDir {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let dir = reaper().dir.join(NEXT.fetch_add(1, Ordering::Relaxed).to_string());
        fs::create_dir(&dir).expect("a directory for the files of a server");
        Self(dir)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Has `pid` killed should this process end first.
pub(crate) fn adopt(pid: u32) {
    reaper().order("start", pid);
}

/// Takes [`adopt`] back. To be called before the process is waited for: afterwards its number may be another's.
pub(crate) fn disown(pid: u32) {
    reaper().order("end", pid);
}

impl Reaper {
    fn start() -> Self {
        let dir = env::temp_dir().join(format!("leasehold-{}-{:08x}", process::id(), fastrand::u32(..)));
        fs::create_dir(&dir).expect("a directory for the files of the servers");
        let shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "leasehold-reaper"])
            .arg(&dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // An interrupt from the keyboard goes to the whole foreground group, and the shell must outlive it.
            .process_group(0)
            .spawn()
            .expect("a shell that ends the servers of a killed test");
        Self { dir, shell: Mutex::new(shell) }
    }

    fn order(&self, verb: &str, pid: u32) {
        let mut shell = self.shell.lock().unwrap_or_else(PoisonError::into_inner);
        let orders = shell.stdin.as_mut().expect("the pipe that was asked for");
        // A shell that was killed is no reason to fail a test: `Drop` is the usual way.
        let _ = orders.write_all(format!("{verb} {pid}\n").as_bytes());
    }
}

fn reaper() -> &'static Reaper {
    static REAPER: OnceLock<Reaper> = OnceLock::new();
    REAPER.get_or_init(Reaper::start)
}

const SCRIPT: &str = r#"
trap '' INT TERM HUP
pids=
while read -r verb pid; do
    case $verb in
        start) pids="$pids $pid" ;;
        end)
            left=
            for other in $pids; do [ "$other" = "$pid" ] || left="$left $other"; done
            pids=$left
            ;;
    esac
done
for pid in $pids; do kill -9 "$pid"; done
rm -rf "$1"
"#;
