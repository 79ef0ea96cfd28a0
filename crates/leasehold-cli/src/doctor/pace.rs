//! Slow commands, from `SLOWLOG`.

use super::Finding;
use crate::duration::show;
use crate::raw::Node;
use leasehold::raw::Reply;
use std::time::Duration;

/// Maximum age of an entry. The cause of an older entry may be fixed.
const RECENT: Duration = Duration::from_secs(60 * 60);

/// A pause that users notice.
const SLOW: Duration = Duration::from_millis(100);

/// The default command timeout, after which clients treat the server as dead.
const TOO_SLOW: Duration = Duration::from_secs(1);

/// An entry of `SLOWLOG`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Slow {
    /// The command name. The arguments may be secret.
    command: String,
    took: Duration,
    ago: Duration,
}

/// Judges the slowest command of the last hour.
pub(super) async fn judge(node: &Node) -> Finding {
    let asked = async {
        let time: Vec<String> = node.ask("TIME", &[]).await?;
        let now = time.first().and_then(|seconds| seconds.parse().ok()).unwrap_or_default();
        Ok::<_, String>(slowest(&node.ask("SLOWLOG", &["GET", "128"]).await?, now))
    };
    match asked.await {
        Ok(slowest) => of_slowest(slowest),
        Err(why) => Finding::note("pace", format!("SLOWLOG failed: {why}"), "grant SLOWLOG and TIME to this user"),
    }
}

fn of_slowest(slowest: Option<Slow>) -> Finding {
    let Some(slow) = slowest.filter(|slow| slow.took >= SLOW) else {
        return Finding::good("pace", format!("no command of the last hour in SLOWLOG took {} or longer", show(SLOW)));
    };
    let text = format!("{} took {} and blocked the server, {} ago", slow.command, show(slow.took), show(slow.ago));
    let advice = "clients treat a server as dead after a second without a reply; see SLOWLOG, or use a dedicated server for locks";
    if slow.took >= TOO_SLOW { Finding::fault("pace", text, advice) } else { Finding::note("pace", text, advice) }
}

/// Returns the slowest command of the last hour in a reply to `SLOWLOG GET`.
fn slowest(log: &Reply, now: u64) -> Option<Slow> {
    let entries = log.array().unwrap_or_default().iter().filter_map(|entry| {
        let entry = entry.array().ok()?;
        let number = |at: usize| entry.get(at)?.int().ok().and_then(|number| u64::try_from(number).ok());
        let command = entry.get(3)?.array().ok()?.first()?.text().ok()?.to_uppercase();
        let ago = Duration::from_secs(now.saturating_sub(number(1)?));
        Some(Slow { command, took: Duration::from_micros(number(2)?), ago })
    });
    entries.filter(|slow| slow.ago <= RECENT).max_by_key(|slow| slow.took)
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    fn entry(at: i64, micros: i64, command: &'static str) -> Reply {
        let word = |text: &'static str| Reply::Bulk(text.into());
        let words = Reply::Array(vec![word(command), word("secret")]);
        Reply::Array(vec![Reply::Int(1), Reply::Int(at), Reply::Int(micros), words])
    }

    #[test]
    fn slowest_command_of_the_last_hour_counts() {
        let log = Reply::Array(vec![
            entry(9_000, 30_000, "get"),
            entry(9_990, 1_200_000, "keys"),
            entry(1_000, 9_000_000, "sort"),
        ]);
        let (took, ago) = (Duration::from_millis(1_200), Duration::from_secs(10));
        let keys = Slow { command: "KEYS".to_owned(), took, ago };
        assert_eq!(slowest(&log, 10_000), Some(keys.clone()));
        let told = of_slowest(Some(keys.clone()));
        assert!(
            told.verdict == Verdict::Fault && told.text.contains("KEYS") && !told.text.contains("secret"),
            "{told:?}"
        );
        let shorter = |took| of_slowest(Some(Slow { took: Duration::from_millis(took), ..keys.clone() })).verdict;
        assert_eq!((shorter(999), shorter(99)), (Verdict::Note, Verdict::Good));
        assert_eq!(of_slowest(slowest(&Reply::Array(Vec::new()), 10_000)).verdict, Verdict::Good);
    }
}
