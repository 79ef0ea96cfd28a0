//! `leasehold ls`: the locks whose names match a pattern.

use crate::args::{KindWord, LsOptions, ServerOptions};
use crate::connection::{self, FAREWELL};
use crate::duration::show;
use crate::failure::Failure;
use crate::output;
use crate::people::People;
use crate::seen::{Seen, millis};
use crate::shown::{counted, shown};
use crate::table::Table;
use leasehold::Client;
use leasehold::inspect::FoundKind;
use std::collections::BTreeMap;

const HEADER: [&str; 7] = ["NAME", "KIND", "HOLDER", "HELD FOR", "LEASE LEFT", "WAITERS", "PROBLEMS"];

const TSV_HEADER: [&str; 8] = ["name", "kind", "holder", "process", "held_ms", "lease_left_ms", "waiters", "problems"];

/// Prints each lock as soon as the search finds it, or all locks in order at the end.
///
/// # Errors
///
/// The server does not reply, or refuses the search.
pub(crate) async fn ls(options: &LsOptions, server: &ServerOptions) -> Result<u8, Failure> {
    let client = connection::connect(server, "leasehold ls").await?;
    let result = with_client(&client, options, server.json).await;
    // This command holds no lock.
    let _ = client.shutdown(FAREWELL).await;
    result
}

async fn with_client(client: &Client, options: &LsOptions, json: bool) -> Result<u8, Failure> {
    let (kinds, mut search) = (options.kinds(), client.locks(&options.pattern));
    if options.foreign || kinds.contains(&FoundKind::Foreign) {
        search = search.with_foreign();
    }
    let mut people = People::new(client);
    let mut printer = Printer::new(options, json);
    let mut ageless = 0_u64;
    let failed = loop {
        let state = match search.next().await {
            Some(Ok(state)) => state,
            Some(Err(error)) => break Some(Failure::of_a_look(error)),
            None => break None,
        };
        if !kinds.is_empty() && !kinds.contains(&state.kind) {
            continue;
        }
        let seen = Seen::new(state, &mut people).await;
        match (options.held_longer_than, seen.age()) {
            (Some(_), None) => {
                ageless += u64::from(!seen.holds.is_empty());
                continue;
            }
            (Some(least), Some(age)) if age < least => continue,
            _ if options.problems && seen.problems().is_empty() => continue,
            _ => printer.take(seen)?,
        }
    };
    let printed = printer.end()?;
    if let Some(failure) = failed {
        return Err(failure);
    }
    if printed == 0 {
        output::note(&format!("no lock matches {:?}", options.pattern), json);
    }
    if let Some(refusal) = search.refusal() {
        output::note(&connection::unseen(search.unseen(), refusal), json);
    }
    if ageless > 0 {
        let locks = counted(ageless, "held lock");
        output::note(&format!("omitted {locks} whose holders publish no age"), json);
    }
    Ok(0)
}

/// Prints locks immediately, or sorted at the end.
struct Printer {
    form: Form,
    table: Table<7>,
    /// The locks to sort. `None` without sorting.
    waiting: Option<BTreeMap<String, Seen>>,
    printed: u64,
}

#[derive(Clone, Copy)]
enum Form {
    Table,
    Tsv,
    Json,
}

impl Printer {
    fn new(options: &LsOptions, json: bool) -> Self {
        let form = match (json, options.tsv) {
            (true, _) => Form::Json,
            (_, true) => Form::Tsv,
            _ => Form::Table,
        };
        let waiting = options.sort.then(BTreeMap::new);
        Self { form, table: Table::new([24, 16, 36, 10, 10, 7, 0]), waiting, printed: 0 }
    }

    fn take(&mut self, seen: Seen) -> Result<(), Failure> {
        match &mut self.waiting {
            Some(waiting) => drop(waiting.insert(seen.state.name.clone(), seen)),
            None => self.print(&seen)?,
        }
        Ok(())
    }

    /// Prints the sorted locks. Returns the total number of printed locks.
    fn end(mut self) -> Result<u64, Failure> {
        let waiting = self.waiting.take().unwrap_or_default();
        for cells in waiting.values().map(cells) {
            // All rows are known, so set the final column widths first.
            self.table.fit(&cells);
        }
        for seen in waiting.values() {
            self.print(seen)?;
        }
        Ok(self.printed)
    }

    fn print(&mut self, seen: &Seen) -> Result<(), Failure> {
        let is_first = self.printed == 0;
        self.printed += 1;
        match self.form {
            Form::Json => output::print(&format!("{}\n", seen.as_json())),
            Form::Tsv => {
                let header = if is_first { format!("{}\n", TSV_HEADER.join("\t")) } else { String::new() };
                output::print(&format!("{header}{}\n", tsv(seen).join("\t")))
            }
            Form::Table => {
                // The first row sets the column widths, so format the header after it.
                let row = self.table.row(cells(seen));
                let header = if is_first { self.table.row(HEADER) } else { String::new() };
                output::print(&format!("{header}{row}"))
            }
        }
    }
}

fn cells(seen: &Seen) -> [String; 7] {
    let state = &seen.state;
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        shown(&state.name),
        state.kind.word().to_owned(),
        seen.holder_as_text(),
        or_dash(seen.age().map(show)),
        or_dash(state.remaining.map(show)),
        or_dash(state.waiters.map(|waiters| waiters.to_string())),
        shown(&seen.problems().join("; ")),
    ]
}

/// Returns the cells of a TSV line, with escaped tabs and line breaks.
fn tsv(seen: &Seen) -> [String; 8] {
    let state = &seen.state;
    let or_dash = |text: Option<String>| text.filter(|text| !text.is_empty()).unwrap_or_else(|| "-".to_owned());
    let first = seen.holds.first();
    let process = first.and_then(|hold| hold.who.as_ref()).map(|who| format!("{}@{}", who.record.pid, who.record.host));
    [
        shown(&state.name),
        KindWord::of(state.kind),
        or_dash(first.map(|hold| shown(hold.holder.id.as_str()))),
        or_dash(process.map(|process| shown(&process))),
        or_dash(seen.age().map(|age| millis(age).to_string())),
        or_dash(state.remaining.map(|left| millis(left).to_string())),
        or_dash(state.waiters.map(|waiters| waiters.to_string())),
        or_dash(Some(shown(&seen.problems().join("; ")))),
    ]
}
