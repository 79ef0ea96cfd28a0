//! `cargo xtask docs`: the pages that repeat what stands in the headers of the scripts.

use crate::{Outcome, cargo};

/// Writes the pages anew, or says whether they are up to date. The contract tests have the writer, because they read the headers anyway.
pub(crate) fn run(check: bool) -> Outcome {
    let mut command = cargo(&["test", "--workspace", "--all-features", "--test", "contract", "--", "pages::"]);
    command.env("LEASEHOLD_DOCS", if check { "check" } else { "write" });
    crate::run(&mut command)
}
