//! `leasehold doctor`: checks whether the server is safe for locks.
//!
//! `doctor/server.rs` evaluates `INFO`, `settings.rs` `CONFIG GET`, `pace.rs` `SLOWLOG`, `cluster.rs` `CLUSTER INFO`,
//! and `sentinel.rs` the Sentinels. `service.rs` recognises managed services. `trial.rs` acquires and times test locks.
//! This file queries every primary, and merges equal findings.

mod cluster;
mod pace;
mod sentinel;
mod server;
mod service;
mod settings;
mod trial;

use crate::args::{CHECKS, DoctorOptions, ServerOptions};
use crate::connection::{self, FAREWELL};
use crate::ending::Ending;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::raw::{Node, Raw};
use crate::shown::shown;
use crate::signals::Signals;
use leasehold::{Client, Error};
use serde_json::json;

/// The exit code for a fault.
const FAULTY: u8 = 1;

/// The verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Good,
    /// A limit that may be intended, or a check that this user may not run.
    Note,
    /// Locks can be lost, or acquires can fail.
    Fault,
}

impl Verdict {
    const fn word(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Note => "note",
            Self::Fault => "FAULT",
        }
    }
}

/// The result of one check.
#[derive(Clone, Debug)]
struct Finding {
    check: &'static str,
    /// The address of the primary. `None` for all primaries.
    server: Option<String>,
    verdict: Verdict,
    text: String,
    advice: &'static str,
}

impl Finding {
    fn good(check: &'static str, text: impl Into<String>) -> Self {
        Self { check, server: None, verdict: Verdict::Good, text: text.into(), advice: "" }
    }

    fn note(check: &'static str, text: impl Into<String>, advice: &'static str) -> Self {
        Self { check, server: None, verdict: Verdict::Note, text: text.into(), advice }
    }

    fn fault(check: &'static str, text: impl Into<String>, advice: &'static str) -> Self {
        debug_assert!(CHECKS.contains(&check), "{check} can be accepted");
        Self { check, server: None, verdict: Verdict::Fault, text: text.into(), advice }
    }

    /// Downgrades an accepted fault to a note.
    fn accepted(mut self, accepted: &[String]) -> Self {
        if self.verdict == Verdict::Fault && accepted.iter().any(|check| check == self.check) {
            self.verdict = Verdict::Note;
            self.text.push_str(" (accepted)");
        }
        self
    }

    fn tell(&self, as_json: bool) -> Result<(), Failure> {
        if as_json {
            let told = json!({
                "check": self.check,
                "server": self.server,
                "verdict": self.verdict.word().to_lowercase(),
                "text": self.text,
                "advice": (!self.advice.is_empty()).then_some(self.advice),
            });
            return output::print(&format!("{told}\n"));
        }
        let server = self.server.as_ref().map(|server| format!("{server}: ")).unwrap_or_default();
        let mut line = format!("{:<5}  {:<12} {server}{}", self.verdict.word(), self.check, shown(&self.text));
        if !self.advice.is_empty() {
            line.push_str("; ");
            line.push_str(self.advice);
        }
        output::print(&format!("{line}\n"))
    }
}

/// Runs all checks. The exit code is 1 for a fault.
///
/// # Errors
///
/// The server is unreachable or refuses the connection.
pub(crate) async fn doctor(options: &DoctorOptions, server: &ServerOptions) -> Result<Ending, Failure> {
    let client = connection::connect(server, "leasehold doctor").await?;
    // The trial deletes its keys at the end, so their name must be unique.
    let begin = options.name.as_deref().unwrap_or("leasehold:doctor");
    let name = format!("{begin}:{}", client.id());
    // An invalid name is a usage error.
    if begin.is_empty() {
        let text = "--name is empty; set a prefix that this user may access";
        return Err(Failure::new(Exit::Usage, text));
    }
    if let Err(error @ Error::Invalid(_)) = client.inspect(&name).await {
        return Err(error.into());
    }
    let waiter = connection::connect(server, "leasehold doctor").await?;
    let raw = Raw::connect(server).await;
    // The register of fencing tokens never expires, so the cleanup must also run after a signal.
    let mut signals = Signals::listen()?;
    let examined = signals.unless_ended(examine([&client, &waiter], raw.as_ref(), &name, options, server)).await;
    // Pending releases finish before the keys are removed.
    let tidying = async {
        let _ = tokio::join!(client.shutdown(FAREWELL), waiter.shutdown(FAREWELL));
        if let Ok(raw) = raw {
            raw.remove(server, &name).await;
        }
    };
    // A second signal ends the wait for a silent server.
    match (examined, signals.unless_ended(tidying).await) {
        (Ok(examined), Ok(())) => examined,
        (Err(signal), _) | (_, Err(signal)) => Ok(Ending::by(signal)),
    }
}

async fn examine(
    [client, waiter]: [&Client; 2],
    raw: Result<&Raw, &String>,
    name: &str,
    options: &DoctorOptions,
    server: &ServerOptions,
) -> Result<Ending, Failure> {
    let mut faults = 0;
    let mut tell = |finding: Finding| {
        let finding = finding.accepted(&options.accept);
        faults += usize::from(finding.verdict == Verdict::Fault);
        finding.tell(server.json)
    };
    match raw {
        Ok(raw) => {
            for finding in of_all(raw.primaries()).await.into_iter().chain(sentinel::judge(server).await) {
                tell(finding)?;
            }
        }
        Err(why) => tell(Finding::note("server", format!("raw commands failed: {why}"), ""))?,
    }
    let rights = trial::of_kinds(client, name).await;
    let has_locks = rights.iter().all(|finding| finding.verdict != Verdict::Fault);
    for finding in rights {
        tell(finding)?;
    }
    if has_locks {
        tell(trial::of_notices(client, waiter, name).await)?;
        tell(trial::of_latency(client, name).await)?;
    }
    if let Ok(raw) = raw {
        tell(trial::of_expiry(raw.primaries(), &format!("{}{name}:expiry", connection::prefix(server))).await)?;
        if let [node] = raw.primaries()
            && node.address.is_none()
            && let Some(finding) = trial::of_slots(node, &format!("{}{name}", connection::prefix(server))).await
        {
            tell(finding)?;
        }
        for finding in of_clocks(raw.primaries()).await {
            tell(finding)?;
        }
    }
    Ok(if faults > 0 { FAULTY } else { 0 }.into())
}

/// Runs the checks of every primary.
async fn of_all(primaries: &[Node]) -> Vec<Finding> {
    let mut of_each = Vec::new();
    for node in primaries {
        of_each.extend(server::judge(node).await.into_iter().map(|finding| (node.address.clone(), finding)));
    }
    joined(of_each, primaries.len())
}

/// Compares the clock of every primary with this machine's clock.
async fn of_clocks(primaries: &[Node]) -> Vec<Finding> {
    let findings = trial::of_clocks(primaries).await;
    joined(primaries.iter().map(|node| node.address.clone()).zip(findings).collect(), primaries.len())
}

/// Merges findings by check. If all primaries have equal findings, or only good findings, one finding remains.
fn joined(of_each: Vec<(Option<String>, Finding)>, primaries: usize) -> Vec<Finding> {
    let mut checks: Vec<Vec<(Option<String>, Finding)>> = Vec::new();
    for (server, finding) in of_each {
        match checks.iter_mut().find(|all| all[0].1.check == finding.check) {
            Some(all) => all.push((server, finding)),
            None => checks.push(vec![(server, finding)]),
        }
    }
    let mut findings = Vec::new();
    for all in checks {
        let first = all[0].1.clone();
        let of_all = |is_so: fn(&Finding, &Finding) -> bool| {
            all.len() >= primaries && all.iter().all(|(_, one)| is_so(one, &first))
        };
        if of_all(|one, first| one.verdict == first.verdict && one.text == first.text) {
            findings.push(first);
        } else if of_all(|one, _| one.verdict == Verdict::Good) {
            let text = format!("all {primaries} primaries are ok; the first: {}", first.text);
            findings.push(Finding { text, ..first });
        } else {
            findings.extend(all.into_iter().map(|(server, one)| Finding { server, ..one }));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_of_one_primary_is_told_with_its_address() {
        let of = |server: &str, finding| (Some(server.to_owned()), finding);
        let told = joined(
            vec![
                of("a:1", Finding::good("version", "7.0")),
                of("a:1", Finding::good("memory", "1 MB")),
                of("a:1", Finding::good("eviction", "noeviction")),
                of("b:1", Finding::good("version", "7.0")),
                of("b:1", Finding::good("memory", "2 MB")),
                of("b:1", Finding::fault("eviction", "allkeys-lru", "")),
            ],
            2,
        );
        let told: Vec<_> = told.iter().map(|one| (one.check, one.server.as_deref(), one.text.as_str())).collect();
        let memory = ("memory", None, "all 2 primaries are ok; the first: 1 MB");
        let (first, second) = (("eviction", Some("a:1"), "noeviction"), ("eviction", Some("b:1"), "allkeys-lru"));
        assert_eq!(told, [("version", None, "7.0"), memory, first, second]);
        let of_one = joined(vec![of("b:1", Finding::note("forks", "slow", ""))], 2);
        assert_eq!(of_one[0].server.as_deref(), Some("b:1"), "only one primary has this finding");
    }
}
