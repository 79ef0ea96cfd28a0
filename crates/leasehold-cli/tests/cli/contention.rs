//! Many invocations at once. `LEASEHOLD_INVOCATIONS=n` says how many, where a machine has the processors for more.

use crate::support::{Start as _, lines, name, path, run_script};
use leasehold_test_support::Server;
use std::time::Duration;

#[test]
fn many_invocations_at_once_run_one_by_one() {
    let many = std::env::var("LEASEHOLD_INVOCATIONS").map_or(60, |many| many.parse().expect("a number"));
    let server = Server::start();
    let (name, log) = (name(), path(&server));
    let script = format!("echo enter $$ >> '{0}'; echo leave $$ >> '{0}'", log.display());
    // So many processes at once keep a small machine from answering within a second.
    let url = format!("{}?command_timeout=10s&unreachable_after=60s&connect_deadline=60s", server.url());
    let one = || run_script(&server, &[&name, "--quiet"], &script).env("LEASEHOLD_URL", &url).start();
    let all: Vec<_> = (0..many).map(|_| one()).collect();
    for one in all {
        let done = one.finish_within(Duration::from_secs(120));
        assert_eq!((done.code(), done.stderr.as_str()), (0, ""), "each runs");
    }
    let lines = lines(&log);
    assert_eq!(lines.len(), 2 * many);
    for pair in lines.chunks(2) {
        let (enter, leave) = (pair[0].strip_prefix("enter "), pair[1].strip_prefix("leave "));
        assert!(enter.is_some() && enter == leave, "{pair:?} is of one command");
    }
}
