//! A command under a lock that waits for the same lock once more: it waits for itself.

use crate::args::RunOptions;
use crate::look::look;
use crate::output;
use leasehold::Client;
use std::convert::Infallible;
use std::time::Duration;

/// A lock that is free is granted by then.
const GRANTED: Duration = Duration::from_millis(100);

/// Completes with `acquiring`, and warns before if that waits for a hold of the command around this one. Such a wait is silent otherwise, and has
/// no end.
pub(super) async fn with_warning<T>(
    acquiring: impl Future<Output = T>,
    client: &Client,
    options: &RunOptions,
    json: bool,
) -> T {
    tokio::select! {
        biased;
        acquired = acquiring => acquired,
        never = warn(client, options, json) => match never {},
    }
}

/// Says once that the holder is the one that the environment names. A holder has the same name on no other server.
async fn warn(client: &Client, options: &RunOptions, json: bool) -> Infallible {
    let around = |variable: &str| std::env::var(variable).ok();
    let holder = around("LEASEHOLD_HOLDER").filter(|_| around("LEASEHOLD_NAME").as_ref() == Some(&options.name));
    if let Some(holder) = holder.filter(|_| !options.try_once) {
        tokio::time::sleep(GRANTED).await;
        // Without an answer there is nothing to warn of, and the acquire tells what becomes of it.
        let seen = look(client, &options.name).await.ok().flatten();
        if seen.is_some_and(|seen| seen.holds.iter().any(|hold| hold.holder.id.as_str() == holder)) {
            let text = format!(
                "this waits for itself: the command that started it runs under the lock {:?} and holds it as {holder}",
                options.name
            );
            output::warn("waits_for_itself", &options.name, &text, json);
        }
    }
    std::future::pending().await
}
