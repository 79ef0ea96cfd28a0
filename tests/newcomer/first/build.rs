//! Takes the documentation of the front page out of the library's source, so that its code is built as it stands there.

use std::path::Path;
use std::{env, fs};

const FRONT_PAGE: &str = "../../../crates/leasehold/src/lib.rs";

fn main() {
    println!("cargo::rerun-if-changed={FRONT_PAGE}");
    let source = fs::read_to_string(FRONT_PAGE).expect("the library's source");
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    let page: Vec<&str> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    assert!(page.iter().any(|line| line.starts_with("```")), "the front page has code");
    let out = env::var_os("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&out).join("front_page.md"), page.join("\n")).expect("a file of the build");
}
