//! Warns about a nested `run` that waits for the lock of an enclosing `run`.
//!
//! An environment variable of the command lists the holders of all enclosing `run`s. Holder ids are unique across
//! servers and prefixes, so the variable needs no lock names.

use super::target::Target;
use crate::look::{is_of_a_client, look};
use crate::output;
use leasehold::{Client, HolderId};
use std::convert::Infallible;
use std::time::Duration;

/// The variable with the holder ids, outermost first, separated by spaces.
const VARIABLE: &str = "LEASEHOLD_HOLDERS";

/// Maximum number of holders in the variable, which keeps the innermost.
const MOST: usize = 64;

/// Delay of the warning. The server grants a free lock sooner.
const GRANTED: Duration = Duration::from_millis(100);

/// Returns the command's variable: the enclosing holders and the new holders.
pub(super) fn variable(holders: &[HolderId]) -> (&'static str, String) {
    (VARIABLE, handed_down(around(), holders))
}

fn handed_down(mut around: Vec<HolderId>, holders: &[HolderId]) -> String {
    around.extend_from_slice(holders);
    let outermost = around.len().saturating_sub(MOST);
    around[outermost..].iter().map(HolderId::as_str).collect::<Vec<_>>().join(" ")
}

/// Returns the holders of the enclosing runs.
pub(crate) fn around() -> Vec<HolderId> {
    // Other words may have any encoding.
    read(&std::env::var_os(VARIABLE).unwrap_or_default().to_string_lossy())
}

/// Parses the variable. Ignores invalid words, because any program may set the variable.
fn read(text: &str) -> Vec<HolderId> {
    text.split_ascii_whitespace().filter(|word| is_of_a_client(word)).map(HolderId::from).collect()
}

/// Warns once of an endless wait for a hold of an enclosing run. Never completes.
pub(super) async fn warn(client: &Client, target: &Target<'_>, json: bool) -> Infallible {
    let around = around();
    if !around.is_empty() && !target.options.try_once {
        tokio::time::sleep(GRANTED).await;
        for name in &target.names {
            // The acquire reports errors.
            let holder = match target.options.permits {
                Some(_) => holder_of_all_permits(client, name, &around).await,
                None => holder_of_lock(client, name, &around).await,
            };
            if let Some(holder) = holder {
                let is_enclosing = around.last() == Some(&holder);
                let which = if is_enclosing { "the enclosing leasehold run" } else { "an outer leasehold run" };
                let text = format!("deadlock: {which} already holds the lock {name:?} as {holder}");
                output::warn("waits_for_itself", name, &text, json);
                break;
            }
        }
    }
    std::future::pending().await
}

/// Returns the enclosing holder of the lock.
async fn holder_of_lock(client: &Client, name: &str, around: &[HolderId]) -> Option<HolderId> {
    let seen = look(client, name).await.ok().flatten()?;
    seen.holds.into_iter().map(|hold| hold.holder.id).find(|id| around.contains(id))
}

/// Returns the innermost enclosing holder, if enclosing runs hold all permits. Any other holder would release its
/// permit.
async fn holder_of_all_permits(client: &Client, name: &str, around: &[HolderId]) -> Option<HolderId> {
    let counts = client.semaphore(name).inspect().await.ok().flatten()?;
    let holder_of = |permit| around.iter().rposition(|holder| holder.has_permit(permit));
    let holders: Option<Vec<usize>> = counts.permits.iter().map(|held| holder_of(held.id)).collect();
    let are_all = counts.available <= 0 && usize::try_from(counts.held) == Ok(counts.permits.len());
    let innermost = holders.filter(|_| are_all)?.into_iter().max()?;
    around.get(innermost).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLDER: &str = "6f0c1de2-4a53-4b0e-9f0a-0c2d7b1f3a55:7";

    #[test]
    fn holders_are_handed_down_the_innermost_last() {
        let inner = HolderId::from("6f0c1de2-4a53-4b0e-9f0a-0c2d7b1f3a56:1");
        let text = handed_down(read(&format!(" {HOLDER}  x 7:7 ")), std::slice::from_ref(&inner));
        assert_eq!(text, format!("{HOLDER} {inner}"));
        assert_eq!(read(&text), [HolderId::from(HOLDER), inner]);
    }

    #[test]
    fn text_of_the_holders_is_bounded_and_has_the_innermost() {
        let inner = HolderId::from("6f0c1de2-4a53-4b0e-9f0a-0c2d7b1f3a56:1");
        let text = handed_down(read(&format!("{HOLDER} ").repeat(1_000)), std::slice::from_ref(&inner));
        assert!(text.len() < 64 * 40 && text.ends_with(inner.as_str()), "{}", text.len());
        assert_eq!(read(&text).len(), MOST);
    }
}
