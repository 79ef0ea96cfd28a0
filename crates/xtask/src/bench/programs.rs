//! The programs that do the work, one for each language.

use super::peer::{Language, Peer};
use crate::{cargo, interop, root};
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fs,
    path::PathBuf,
    process::Command,
};

/// The words that start a program, or the reason why there is none.
type Program = Result<Vec<OsString>, String>;

/// The programs of the languages that a run needs.
pub(crate) struct Programs {
    built: BTreeMap<Language, Program>,
}

impl Programs {
    /// Builds them. A machine without Go or without a JDK measures the others; without the one in Rust nothing can be measured.
    pub(crate) fn build(languages: impl Iterator<Item = Language>) -> Result<Self, String> {
        let mut built = BTreeMap::new();
        for language in languages.collect::<BTreeSet<_>>() {
            let program = match language {
                Language::Rust => Ok(vec![rust()?.into()]),
                Language::Go => go(),
                Language::Java => java(),
            };
            built.insert(language, program);
        }
        Ok(Self { built })
    }

    /// The command that starts a peer; the reason why there is none otherwise.
    pub(crate) fn command(&self, peer: &Peer, url: &str) -> Result<Command, String> {
        match self.built.get(&peer.language) {
            Some(Ok(words)) => {
                let mut command = Command::new(&words[0]);
                command.args(&words[1..]).args([peer.library, url]);
                Ok(command)
            }
            Some(Err(why)) => Err(why.clone()),
            None => Err("its program is not built".to_owned()),
        }
    }

    /// The versions of the libraries that there are, as their manifests pin them.
    pub(crate) fn versions(&self) -> Vec<String> {
        let read = |path: &str| fs::read_to_string(root().join(path)).unwrap_or_default();
        let mut versions = of_lock_file(&read("Cargo.lock"), &["fred", "rslock", "rlock"]);
        if matches!(self.built.get(&Language::Go), Some(Ok(_))) {
            versions.extend(of_module(&read("benches/peers/go/go.mod")));
        }
        if matches!(self.built.get(&Language::Java), Some(Ok(_))) {
            versions.extend(of_project(&read("tests/interop/pom.xml")));
        }
        versions
    }
}

fn rust() -> Result<PathBuf, String> {
    let bench = ["bench", "--package", "leasehold-benches", "--bench", "peer", "--no-run"];
    println!("$ cargo {}", bench.join(" "));
    let mut command = cargo(&bench);
    // Cargo tells a person on stderr how it gets on.
    let output =
        command.arg("--message-format=json-render-diagnostics").stderr(std::process::Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cargo cannot be run: {error}"))?;
    let program = executable(&String::from_utf8_lossy(&output.stdout), "peer");
    program.ok_or_else(|| format!("the peers in Rust cannot be built ({})", output.status))
}

/// The program of a target, among what cargo says of everything that it has built.
fn executable(messages: &str, target: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let of_target = |message: serde_json::Value| {
        let is_it = message["target"]["name"] == target;
        message["executable"].as_str().filter(|_| is_it).map(PathBuf::from)
    };
    messages.filter_map(of_target).next_back()
}

fn go() -> Program {
    let program = interop::target().join("bench/go-peers");
    let mut command = Command::new("go");
    command.arg("build").arg("-o").arg(&program).arg(".").current_dir(root().join("benches/peers/go"));
    let built = command.output().map_err(|error| format!("there is no Go here ({error})"))?;
    if !built.status.success() {
        return Err(format!("it cannot be built: {}", first_line(&built.stderr)));
    }
    Ok(vec![program.into()])
}

fn java() -> Program {
    interop::tools()?;
    let classes = interop::target().join("bench/java");
    interop::build(&classes, &root().join("benches/peers/java"))?;
    let mut path = classes.join("classes").into_os_string();
    path.push(":");
    path.push(classes.join("lib/*"));
    Ok(vec!["java".into(), "-cp".into(), path, "leasehold.bench.Peer".into()])
}

fn first_line(text: &[u8]) -> String {
    String::from_utf8_lossy(text).trim().lines().next().unwrap_or("it says nothing").to_owned()
}

/// `name = "rslock"` and the version in the line below.
fn of_lock_file(text: &str, names: &[&str]) -> Vec<String> {
    let lines: Vec<_> = text.lines().collect();
    let version = |name: &&str| {
        let at = lines.iter().position(|line| *line == format!("name = \"{name}\""))?;
        let version = lines.get(at + 1)?.strip_prefix("version = \"")?.strip_suffix('"')?;
        Some(format!("{name} {version}"))
    };
    names.iter().filter_map(version).collect()
}

/// The modules that are required directly, by the last two parts of their paths.
fn of_module(text: &str) -> Vec<String> {
    let required = text.lines().filter(|line| line.starts_with('\t') && !line.ends_with("// indirect"));
    let named = |line: &str| {
        let (path, version) = line.trim().split_once(' ')?;
        let path = path.trim_end_matches(|last: char| last == '/' || last == 'v' || last.is_ascii_digit());
        Some(format!("{} {version}", path.trim_start_matches("github.com/")))
    };
    required.filter_map(named).collect()
}

fn of_project(text: &str) -> Vec<String> {
    let version = text.split("<redisson.version>").nth(1).and_then(|rest| rest.split('<').next());
    version.map(|version| format!("Redisson {version}")).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::peer::PEERS;

    #[test]
    fn language_that_is_missing_is_told_by_each_of_its_peers() {
        let built = BTreeMap::from([
            (Language::Rust, Ok(vec!["peer".into()])),
            (Language::Go, Err("there is no Go here".to_owned())),
        ]);
        let programs = Programs { built };
        for peer in &PEERS {
            let command = programs.command(peer, "redis://localhost");
            match peer.language {
                Language::Rust => {
                    let args: Vec<_> = command.as_ref().expect("a command").get_args().collect();
                    assert_eq!(args, [peer.library, "redis://localhost"]);
                }
                Language::Go => assert_eq!(command.expect_err("none"), "there is no Go here"),
                Language::Java => assert_eq!(command.expect_err("none"), "its program is not built"),
            }
        }
        let versions = programs.versions();
        assert!(versions.iter().any(|version| version.starts_with("rslock ")), "{versions:?}");
        assert!(!versions.iter().any(|version| version.contains("redsync")), "{versions:?}");
    }

    #[test]
    fn program_is_found_among_what_cargo_says() {
        let said = "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"peer\"},\"executable\":null}\nnot json\n\
                    {\"target\":{\"name\":\"other\"},\"executable\":\"a\"}\n{\"target\":{\"name\":\"peer\"},\"executable\":\"b\"}\n";
        assert_eq!(executable(said, "peer"), Some("b".into()));
        assert_eq!(executable("{\"target\":{\"name\":\"other\"},\"executable\":\"a\"}", "peer"), None);
    }

    #[test]
    fn versions_are_read_from_the_manifests() {
        let lock = "[[package]]\nname = \"rlock\"\nversion = \"0.2.0\"\n\n[[package]]\nname = \"rlock-more\"\nversion = \"1\"\n";
        assert_eq!(of_lock_file(lock, &["rlock", "rslock"]), ["rlock 0.2.0"]);
        let module =
            "require (\n\tgithub.com/go-redsync/redsync/v4 v4.18.1\n\tgo.uber.org/atomic v1.12.0 // indirect\n)\n";
        assert_eq!(of_module(module), ["go-redsync/redsync v4.18.1"]);
        assert_eq!(of_project("<redisson.version>4.7.0</redisson.version>"), ["Redisson 4.7.0"]);
    }
}
