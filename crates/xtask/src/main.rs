//! Development commands of the workspace.
#![expect(clippy::print_stdout, reason = "a command line tool speaks on stdout")]
fn main() {
    for one in leasehold_test_support::install() {
        println!("{one:?}");
    }
}
