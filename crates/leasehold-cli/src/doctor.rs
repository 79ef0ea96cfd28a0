//! `leasehold doctor`: can this server be trusted with locks?
//!
//! `doctor/server.rs` judges what the server says of itself, `doctor/trial.rs` takes locks and measures.

mod server;
mod trial;

use crate::args::{DoctorOptions, ServerOptions};
use crate::connection::{self, FAREWELL};
use crate::failure::Failure;
use crate::output;
use crate::raw;
use serde_json::json;

/// The exit code when something is wrong with the server.
const FAULTY: u8 = 1;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Good,
    /// It limits what locks promise, or could not be found out, and may be as it is wanted.
    Note,
    /// Locks can be lost, or cannot be had.
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

/// The answer to one question.
#[derive(Clone, Debug)]
struct Finding {
    check: &'static str,
    verdict: Verdict,
    text: String,
    advice: &'static str,
}

impl Finding {
    fn good(check: &'static str, text: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Good, text: text.into(), advice: "" }
    }

    fn note(check: &'static str, text: impl Into<String>, advice: &'static str) -> Self {
        Self { check, verdict: Verdict::Note, text: text.into(), advice }
    }

    fn fault(check: &'static str, text: impl Into<String>, advice: &'static str) -> Self {
        Self { check, verdict: Verdict::Fault, text: text.into(), advice }
    }

    fn tell(&self, as_json: bool) -> Result<(), Failure> {
        if as_json {
            let told = json!({
                "check": self.check,
                "verdict": self.verdict.word().to_lowercase(),
                "text": self.text,
                "advice": (!self.advice.is_empty()).then_some(self.advice),
            });
            return output::print(&format!("{told}\n"));
        }
        let mut line = format!("{:<5}  {:<12} {}", self.verdict.word(), self.check, self.text);
        if !self.advice.is_empty() {
            line.push_str("; ");
            line.push_str(self.advice);
        }
        output::print(&format!("{line}\n"))
    }
}

/// Asks, tries and measures. The exit code is 1 if there is a fault.
///
/// # Errors
///
/// The server cannot be reached or used at all.
pub(crate) async fn doctor(options: &DoctorOptions, server: &ServerOptions) -> Result<u8, Failure> {
    let client = connection::connect(server, None, "leasehold doctor").await?;
    let waiter = connection::connect(server, None, "leasehold doctor").await?;
    let mut faults = 0;
    let mut tell = |finding: Finding| {
        faults += usize::from(finding.verdict == Verdict::Fault);
        finding.tell(server.json)
    };
    let raw = match raw::Raw::connect(server).await {
        Ok(raw) => {
            for finding in server::judge(&raw).await {
                tell(finding)?;
            }
            Some(raw)
        }
        Err(why) => {
            tell(Finding::note("server", format!("the server cannot be asked about itself: {why}"), ""))?;
            None
        }
    };
    let name = options.name.clone().unwrap_or_else(|| format!("leasehold:doctor:{}", client.id()));
    let rights = trial::of_kinds(&client, &name).await;
    let has_locks = rights.iter().all(|finding| finding.verdict != Verdict::Fault);
    for finding in rights {
        tell(finding)?;
    }
    if has_locks {
        tell(trial::of_notices(&client, &waiter, &name).await)?;
        tell(trial::of_latency(&client, &name).await)?;
    }
    if let Some(raw) = raw {
        tell(trial::of_clock(&raw).await)?;
        raw.remove(server, &name).await;
    }
    // Nothing is held any more.
    let _ = tokio::join!(client.shutdown(FAREWELL), waiter.shutdown(FAREWELL));
    Ok(if faults > 0 { FAULTY } else { 0 })
}
