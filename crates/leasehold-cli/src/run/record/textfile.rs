//! The metrics of a name's last run, in a file for the textfile collector of node_exporter.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The metrics and their help, in the order of the file.
const METRICS: [(&str, &str); 9] = [
    ("last_start_timestamp_seconds", "When the last command under the lock started."),
    ("last_success_timestamp_seconds", "When a command under the lock last ended with 0 while the lock was held."),
    ("last_end_timestamp_seconds", "When the last run ended, except runs that found the lock busy."),
    ("last_busy_timestamp_seconds", "When a run last found the lock busy."),
    ("wait_seconds", "How long the last command waited for server and lock."),
    ("hold_seconds", "How long the last command held the lock."),
    ("exit_code", "Exit code of the last run, except runs that found the lock busy; 128 + n for a signal."),
    ("lost", "Whether the last command lost its lock."),
    ("running", "Whether a command runs under the lock, unless leasehold was killed."),
];

/// Maximum length of an escaped name in a file name. File names have at most 255 bytes.
const LONGEST: usize = 160;

/// The file of one name, with the values of its last run.
pub(super) struct TextFile {
    folder: PathBuf,
    name: String,
    values: BTreeMap<&'static str, f64>,
}

impl TextFile {
    pub(super) fn of(folder: &Path, name: &str) -> Self {
        let mut file = Self { folder: folder.to_owned(), name: name.to_owned(), values: BTreeMap::new() };
        let text = fs::read_to_string(file.path()).unwrap_or_default();
        for (metric, value) in text.lines().filter_map(read) {
            file.values.insert(metric, value);
        }
        file
    }

    /// Checks that files can be created in the folder.
    ///
    /// # Errors
    ///
    /// The folder is missing, or this user may not write there.
    pub(super) fn check(&self) -> io::Result<()> {
        let path = self.temporary();
        fs::write(&path, "")?;
        fs::remove_file(path)
    }

    pub(super) fn started(&mut self, waited: Duration) {
        self.set("last_start_timestamp_seconds", now());
        self.set("wait_seconds", waited.as_secs_f64());
        self.set("running", 1.0);
    }

    pub(super) fn ended(&mut self, code: u8, held: Duration, lost: bool, success: bool) {
        self.set("hold_seconds", held.as_secs_f64());
        self.set("lost", f64::from(u8::from(lost)));
        self.set("running", 0.0);
        if success {
            self.set("last_success_timestamp_seconds", now());
        }
        self.failed(code);
    }

    /// Records a run without a command. Another run of this name may execute a command.
    pub(super) fn failed(&mut self, code: u8) {
        self.set("last_end_timestamp_seconds", now());
        self.set("exit_code", f64::from(code));
    }

    pub(super) fn was_busy(&mut self) {
        self.set("last_busy_timestamp_seconds", now());
    }

    /// Replaces the file atomically, because a collector may read it at any time.
    ///
    /// # Errors
    ///
    /// The file system returns an error.
    pub(super) fn write(&self) -> io::Result<()> {
        let path = self.temporary();
        fs::write(&path, self.text())?;
        fs::rename(&path, self.path()).inspect_err(|_| drop(fs::remove_file(&path)))
    }

    fn set(&mut self, metric: &'static str, value: f64) {
        self.values.insert(metric, value);
    }

    fn path(&self) -> PathBuf {
        self.folder.join(format!("leasehold_{}.prom", escaped(&self.name)))
    }

    /// Returns the path of a temporary file, which the collector does not read.
    fn temporary(&self) -> PathBuf {
        self.folder.join(format!(".leasehold_{}.{}.tmp", escaped(&self.name), std::process::id()))
    }

    fn text(&self) -> String {
        let label = escaped_label(&self.name);
        METRICS.iter().fold(String::new(), |mut text, (metric, help)| {
            if let Some(value) = self.values.get(metric) {
                // Writing to a string cannot fail.
                let _ = writeln!(
                    text,
                    "# HELP leasehold_run_{metric} {help}\n# TYPE leasehold_run_{metric} gauge\nleasehold_run_{metric}{{lock=\"{label}\"}} {value}"
                );
            }
            text
        })
    }
}

/// Escapes a name for a label value.
pub(in crate::run) fn escaped_label(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Parses a line of the file.
fn read(line: &str) -> Option<(&'static str, f64)> {
    let (found, rest) = line.strip_prefix("leasehold_run_")?.split_once('{')?;
    let (metric, _) = METRICS.iter().find(|(metric, _)| *metric == found)?;
    Some((metric, rest.rsplit_once("} ")?.1.parse().ok()?))
}

fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_secs_f64() * 1e3).round() / 1e3
}

/// Escapes a name for a file name. Different names stay different.
fn escaped(name: &str) -> String {
    let mut text = name.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    });
    if text.len() > LONGEST {
        // FNV-1a, because a name's file must not change with the toolchain.
        let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, fold);
        text.truncate(LONGEST);
        let _ = write!(text, "%{hash:016x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_names_have_different_short_files() {
        assert_eq!(escaped("till:3/a b"), "till%3A3%2Fa%20b");
        assert_eq!(escaped("../x%"), "..%2Fx%25");
        let long = "é".repeat(300);
        let files = [escaped(&long), escaped(&format!("{long}x"))];
        assert!(files[0] != files[1] && files.iter().all(|file| file.len() < 200), "{files:?}");
    }

    #[test]
    fn page_of_the_command_has_every_metric() {
        let page = include_str!("../../../README.md");
        for (metric, _) in METRICS {
            assert!(page.contains(&format!("| `leasehold_run_{metric}` |")), "{metric}");
        }
    }

    #[test]
    fn values_are_read_from_their_own_text() {
        let mut file = TextFile::of(Path::new("/nowhere"), "a} 7\"\n");
        file.started(Duration::from_millis(1500));
        file.ended(3, Duration::from_secs(2), true, false);
        let text = file.text();
        assert!(text.lines().all(|line| line.starts_with('#') || line.contains("{lock=\"a} 7\\\"\\n\"} ")), "{text}");
        let values: BTreeMap<_, _> = text.lines().filter_map(read).collect();
        assert_eq!(values, file.values);
        assert_eq!((values["wait_seconds"], values["exit_code"], values["lost"]), (1.5, 3.0, 1.0));
        assert!(!values.contains_key("last_success_timestamp_seconds"));
    }
}
