//! Searches all locks for the holds of one process.

use super::Hit;
use crate::connection::unseen;
use crate::duration::show;
use crate::failure::{Exit, Failure};
use crate::look::{is_of_a_client, look};
use crate::people::{Person, client_of};
use crate::seen::Hold;
use leasehold::Client;
use leasehold::inspect::{FoundKind, HeldPermit, LockState};

/// The holds of a process.
pub(super) struct Found {
    pub(super) hits: Vec<Hit>,
    /// Messages about holds that could not be found or cannot be freed.
    pub(super) notes: Vec<String>,
}

/// A client of the process: its id and its record.
struct Member {
    id: String,
    person: Option<Person>,
}

/// Searches for all holds of a process.
///
/// # Errors
///
/// The process is unknown, or the server does not reply.
pub(super) async fn find(client: &Client, process: &str, prefix: &str) -> Result<Found, Failure> {
    let members = members(client, process).await?;
    let (mut hits, mut notes) = (Vec::new(), Vec::new());
    let mut search = client.locks("*");
    while let Some(state) = search.next().await {
        let state = state.map_err(Failure::of_a_look)?;
        match state.kind {
            FoundKind::Semaphore => hits.extend(permits(client, &state, &members).await?),
            FoundKind::Counter => notes.extend(counted(&state, &members, prefix)),
            _ => {
                let (done, held) = holds(client, &state, &members).await?;
                hits.extend(held);
                notes.extend(done);
            }
        }
    }
    if let Some(refusal) = search.refusal() {
        notes.push(unseen(search.unseen(), refusal));
    }
    Ok(Found { hits, notes })
}

/// Returns the clients of a named process, or of all processes of a named host.
async fn members(client: &Client, process: &str) -> Result<Vec<Member>, Failure> {
    if let Some((pid, host)) = process.split_once('@') {
        let pid: Option<u32> = match pid {
            // All processes of the host.
            "" => None,
            pid => Some(pid.parse().map_err(|_| usage(process))?),
        };
        let (mut members, mut search) = (Vec::new(), client.announced_clients());
        while let Some(found) = search.next().await {
            let found = found.map_err(Failure::of_a_look)?;
            if found.record.host == host && pid.is_none_or(|pid| pid == found.record.pid) {
                members.push(Member { id: found.id.to_string(), person: Some(found.into()) });
            }
        }
        if members.is_empty() {
            let what = pid.map_or_else(|| "no process".to_owned(), |pid| format!("process {pid}"));
            let has = if pid.is_some() { "has no record" } else { "has a record" };
            let text = format!(
                "{what} on host {host:?} {has}; a record expires a minute after the process ends. --process also takes \
                 the part of a holder id before the colon"
            );
            return Err(Failure::new(Exit::Other, text));
        }
        return Ok(members);
    }
    let id = client_of(process);
    if !is_of_a_client(&format!("{id}:0")) {
        return Err(usage(process));
    }
    let person = crate::people::ask(client, id).await;
    Ok(vec![Member { id: id.to_owned(), person }])
}

fn usage(process: &str) -> Failure {
    let text = format!(
        "invalid --process {process:?}; use PID@HOST, such as 4711@web-3, @HOST for a host, or the id of a client"
    );
    Failure::new(Exit::Usage, text)
}

/// Returns the process's holds of one lock, and a note for each released hold that keeps the lock busy. Such a hold
/// belongs to a completed job.
async fn holds(client: &Client, state: &LockState, members: &[Member]) -> Result<(Vec<String>, Vec<Hit>), Failure> {
    let is_theirs = |id: &str| members.iter().any(|member| member.id == client_of(id));
    let listed = state.holders.iter().chain(&state.readers);
    // The search returns only the first readers of a long list.
    let all = u64::try_from(listed.clone().count()).is_ok_and(|count| count >= state.held);
    if all && !listed.clone().any(|holder| is_theirs(holder.id.as_str())) {
        return Ok(<_>::default());
    }
    let Some(seen) = look(client, &state.name).await? else { return Ok(<_>::default()) };
    let theirs = seen.holds.iter().filter(|hold| is_theirs(hold.holder.id.as_str()));
    let (kept, held): (Vec<_>, Vec<_>) = theirs.partition(|hold| hold.holder.is_kept());
    let notes = kept.iter().map(|hold| still_busy(&state.name, hold)).collect();
    Ok((notes, held.iter().map(|hold| Hit::of_hold(&state.name, &seen, hold)).collect()))
}

fn still_busy(name: &str, hold: &Hold) -> String {
    let left = hold.holder.remaining.map(|left| format!(" for {}", show(left))).unwrap_or_default();
    format!(
        "{name:?} stays busy{left}: the process has ended its job and released the lock (--once, --at-least); \
         `leasehold unlock` with this name allows another run"
    )
}

/// Returns the permits that the process's record lists, because permit ids do not contain a client.
async fn permits(client: &Client, state: &LockState, members: &[Member]) -> Result<Vec<Hit>, Failure> {
    let people = || members.iter().filter_map(|member| member.person.as_ref());
    if people().all(Person::holds_nothing) {
        return Ok(Vec::new());
    }
    let counts = client.semaphore(&state.name).inspect().await.map_err(Failure::of_a_look)?;
    let holder_of = |permit: &HeldPermit| people().find(|person| person.has_permit(permit.id));
    let all = counts.map(|counts| counts.permits).unwrap_or_default();
    let theirs = all.iter().filter_map(|permit| Some(Hit::of_permit(&state.name, permit, Some(holder_of(permit)?))));
    Ok(theirs.collect())
}

/// Returns a note for a bare semaphore whose permits the process's record lists. The server stores only their number.
fn counted(state: &LockState, members: &[Member], prefix: &str) -> Option<String> {
    let key = format!("{prefix}{}", state.name);
    let is_held = members.iter().filter_map(|member| member.person.as_ref()).any(|person| person.holds(&key));
    is_held.then(|| {
        format!(
            "the process holds permits of the bare semaphore {:?}, which cannot be freed: the server only stores their number",
            state.name
        )
    })
}
