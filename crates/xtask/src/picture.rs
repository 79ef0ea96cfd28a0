//! `cargo xtask picture`: draws the terminal session of the quickstart for the README.

use std::{
    fmt::Write as _,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use leasehold_test_support::Server;

use crate::{Outcome, cargo, root, servers};

const PICTURE: &str = "docs/figures/quickstart.svg";

/// Replaces the ids of all holders, which are random.
const HOLDER: &str = "5f0c63a4-92be-4d17-8a3e-0c7d41e9b6f2:1";

/// Both colour schemes of a browser.
const STYLE: &str =
    "text { font: 13px ui-monospace, Menlo, Consolas, monospace; fill: rgb(31 35 40); white-space: pre }
.typed { font-weight: bold; fill: rgb(5 80 174) }
rect { fill: rgb(246 248 250); stroke: rgb(209 217 224) }
@media (prefers-color-scheme: dark) {
text { fill: rgb(230 237 243) }
.typed { fill: rgb(121 192 255) }
rect { fill: rgb(22 27 34); stroke: rgb(48 54 61) }
}";

/// Runs the quickstart on a server, inspects its lock from the command line, and writes the picture.
pub(crate) fn run() -> Outcome {
    if servers::found_or_installed().is_empty() {
        return Err(format!("no server: {}", servers::ADVICE));
    }
    crate::run(&mut cargo(&["build", "--workspace", "--example", "quickstart", "--bin", "leasehold"]))?;
    let lines = session(&Server::start().url())?;
    let file = root().join(PICTURE);
    fs::write(&file, svg(&lines)).map_err(|error| format!("cannot write {}: {error}", file.display()))
}

/// Returns the lines of the terminal.
fn session(url: &str) -> Result<Vec<String>, String> {
    // With this prefix the command finds the locks of the quickstart.
    let url = format!("{url}?prefix=shop:");
    let mut lines = vec![
        "$ export LEASEHOLD_URL='redis://127.0.0.1:6379?prefix=shop:'".to_owned(),
        "$ cargo run --quiet --example quickstart &".to_owned(),
    ];
    let mut quickstart = Command::new(built("examples/quickstart")?);
    let mut child = quickstart.env("LEASEHOLD_URL", &url).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let output = child.stdout.take().ok_or("the quickstart has no output")?;
    let mut is_inspected = false;
    for line in BufReader::new(output).lines() {
        let line = line.map_err(failed)?;
        let is_work = line.contains("A works");
        lines.push(steady(&line));
        if is_work && !is_inspected {
            is_inspected = true;
            lines.push("$ leasehold inspect stock:1001".to_owned());
            let mut inspect = Command::new(built("leasehold")?);
            let shown = inspect.args(["inspect", "stock:1001"]).env("LEASEHOLD_URL", &url).output().map_err(failed)?;
            lines.extend(String::from_utf8_lossy(&shown.stdout).lines().map(steady));
        }
    }
    let status = child.wait().map_err(failed)?;
    if status.success() && is_inspected { Ok(lines) } else { Err(format!("the quickstart failed ({status})")) }
}

/// Returns the path of a program of this build.
fn built(name: &str) -> Result<PathBuf, String> {
    let this = std::env::current_exe().map_err(failed)?;
    let folder = this.parent().ok_or("this program has no folder")?;
    Ok(folder.join(Path::new(name)).with_extension(std::env::consts::EXE_EXTENSION))
}

fn failed(error: std::io::Error) -> String {
    format!("cannot run the quickstart: {error}")
}

/// Makes a line equal in every run: rounds the time at its start to tenths of a second, and replaces other times and ids.
fn steady(line: &str) -> String {
    let (time, text) = match line.split_once(" ms  ").map(|(time, text)| (time.trim().parse::<u32>(), text)) {
        Some((Ok(time), text)) => (format!("{:>5}.{} s  ", time / 1000, time % 1000 / 100), text),
        _ => (String::new(), line),
    };
    let mut words = text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for place in 0..words.len() {
        let is_id = words[place].len() > 36 && words[place].matches('-').count() == 4;
        if is_id {
            let end = if words[place].ends_with(',') { "," } else { "" };
            words[place] = format!("{HOLDER}{end}");
        } else if words.get(place + 1).is_some_and(|unit| unit == "ms") {
            words[place] = "…".to_owned();
        }
    }
    time + &words.join(" ")
}

/// Draws the lines.
fn svg(lines: &[String]) -> String {
    let columns = lines.iter().map(|line| line.chars().count()).max().unwrap_or_default();
    let (width, height) = (columns * 8 + 32, lines.len() * 18 + 26);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
         <title>The quickstart in a terminal</title>\n<style>{STYLE}</style>\n\
         <rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"6\"/>\n",
        width - 1,
        height - 1
    );
    for (row, line) in lines.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
        let class = if line.starts_with("$ ") { " class=\"typed\"" } else { "" };
        let text = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let _ = writeln!(svg, "<text x=\"16\" y=\"{}\"{class} xml:space=\"preserve\">{text}</text>", row * 18 + 26);
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::{HOLDER, steady};

    #[test]
    fn a_line_is_equal_in_every_run() {
        assert_eq!(steady("  1014 ms  renewed, 861 ms left"), "    1.0 s  renewed, … ms left");
        let line = "  holder   af06f2f8-ea5f-41c7-a50f-b588be8aee07:1, lease left 914 ms";
        assert_eq!(steady(line), format!("  holder   {HOLDER}, lease left … ms"));
    }
}
