//! Help, completions and manual pages.

use crate::support::{Start as _, bare};

#[test]
fn help_tells_examples_and_exit_codes() {
    let done = bare().args(["run", "--help"]).finish();
    assert_eq!((done.code(), done.stderr.as_str()), (0, ""));
    for word in ["Examples:", "leasehold run backup -- pg_dump shop", "--busy-exit", "75   busy", "76   lost", "Ctrl-Z"]
    {
        assert!(done.stdout.contains(word), "the help has {word:?}");
    }
    assert!(bare().arg("--help").finish().stdout.contains("LEASEHOLD_URL=redis://"));
}

#[test]
fn help_of_run_begins_with_the_ten_most_used_options() {
    let help = bare().args(["run", "-h"]).finish().stdout;
    let options = help.split("Options:\n").nth(1).expect("a list of options");
    let words = options.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with("--")));
    let first: Vec<_> = words.take(10).collect();
    let expected =
        ["--once", "--at", "--wait", "--try", "--quiet", "--busy-exit", "--max-hold", "--lock", "--fair", "--permits"];
    assert_eq!(first, expected, "{help}");
    // They fit on the screen of a terminal.
    let screen: Vec<_> = help.lines().take_while(|line| !line.contains("--json")).collect();
    assert!(screen.len() < 24 && screen.iter().all(|line| line.len() <= 80), "{help}");
}

#[test]
fn version_is_that_of_the_package() {
    assert_eq!(bare().arg("--version").finish().stdout, format!("leasehold {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn completions_know_the_options_and_not_the_shim() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let done = bare().args(["completions", shell]).finish();
        assert_eq!(done.code(), 0, "{shell}");
        assert!(done.stdout.contains("busy-exit") && !done.stdout.contains("__become"), "{shell}");
    }
    let script = bare().args(["completions", "bash"]).finish().stdout;
    let checked = std::process::Command::new("bash").args(["-n", "-c", &script]).finish();
    assert_eq!((checked.code(), checked.stderr.as_str()), (0, ""), "bash reads its completions");
}

#[test]
fn manual_pages_have_every_command() {
    let done = bare().arg("man").finish();
    assert_eq!(done.code(), 0);
    for word in [".TH leasehold 1", ".TH leasehold-run 1", "LEASEHOLD_FENCING_TOKEN", "128+n"] {
        assert!(done.stdout.contains(word), "the pages have {word:?}");
    }
}
