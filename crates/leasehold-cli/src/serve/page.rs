//! The pages as HTML, usable without JavaScript. Relative links work below a path of a proxy.

use super::cell::{Cell, Content, FACTS, HISTORY, HOLDERS, Head, LOCKS, NOTHING, PAST, QUEUE, WAITS};
use super::details::Detail;
use super::html::Html;
use super::query::{Query, Show, address_of, word};
use super::view::{Line, Lines, View};
use crate::args::KindWord;
use clap::ValueEnum as _;

/// The pages in the navigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Locks,
    Waits,
    History,
    /// A page for one lock or one sentence.
    Other,
}

/// The tiles: id, label, explanation.
const TILES: [(&str, &str, &str, Option<Show>); 6] = [
    ("problems", "problems", "locks that an operator should check", Some(Show::Problems)),
    ("waiting", "waiting", "clients that wait for a lock", Some(Show::Waiting)),
    ("held", "held", "held locks", Some(Show::Held)),
    ("lost", "lost in 1 h", "holds whose lease ended without a renewal", None),
    ("grants", "grants / s", "new holders per second, over ten seconds", None),
    ("locks", "locks", "locks of all kinds", Some(Show::All)),
];

/// The table of all locks.
pub(super) fn of_table(view: &View, query: &Query, place: &str) -> String {
    let mut html = Html::default();
    head(&mut html, "locks", place, &query.address("events"), Place::Locks);
    status(&mut html, view, "locks", place);
    html.raw("<section class=\"tiles\" aria-label=\"numbers\">");
    for (id, label, title, show) in TILES {
        let to = show.map_or_else(|| "history?show=lost".to_owned(), |show| query.showing(show).address("./"));
        let is_link = id != "grants";
        let is_current = show.is_some_and(|show| show == query.show && show != Show::All);
        html.raw(if is_link { "<a" } else { "<div" });
        html.raw(" class=\"tile ").text(id).raw(if number(view, id) == "0" {
            " zero\" title=\""
        } else {
            "\" title=\""
        });
        html.text(title).raw("\"");
        if is_link {
            html.raw(" href=\"").text(&to).raw("\"").raw(if is_current { " aria-current=\"true\"" } else { "" });
        }
        html.raw("><strong data-tile=\"")
            .text(id)
            .raw("\">")
            .text(number(view, id))
            .raw("</strong> <span>")
            .text(label);
        html.raw("</span>").raw(if is_link { "</a>" } else { "</div>" });
    }
    html.raw("</section>");
    filter(&mut html, view, query);
    table(&mut html, view, "locks", &LOCKS, Some(query));
    html.raw("<nav class=\"pages\" aria-label=\"more pages\">");
    pages(&mut html, view, query);
    html.raw("</nav>");
    html.raw(
        "<footer><p>The holder publishes “held for”; a &gt; marks the time since this page first saw the hold. \
         “Grants/s” is the rate of new holders between scans, over ten seconds. A free lock stays in the table for ten seconds.</p>",
    );
    links(&mut html, &query.address("locks.json"));
    foot(html)
}

fn number<'a>(view: &'a View, id: &str) -> &'a str {
    view.tiles.iter().find(|(tile, _)| tile == id).map_or("–", |(_, number)| number)
}

/// The page of one lock.
pub(super) fn of_lock(view: &View, detail: &Detail, place: &str, can_unlock: bool) -> String {
    let (mut html, name) = (Html::default(), &detail.name);
    head(&mut html, name, place, &address_of("events", &[("name", name)]), Place::Other);
    status(&mut html, view, "lock", place);
    for (id, title, heads, empty) in [
        ("facts", "Facts", &FACTS[..], ""),
        ("holders", "Holders", &HOLDERS[..], "Nobody holds this lock."),
        ("queue", "Queue", &QUEUE[..], "No queue."),
        ("past", "Last holds", &PAST[..], "leasehold serve has seen no hold end."),
    ] {
        html.raw("<section class=\"part ").text(id).raw("\">");
        html.element("<h2>", title, "</h2>");
        table(&mut html, view, id, heads, None);
        html.element("<p class=\"empty\">", empty, "</p>");
        if id == "holders" && can_unlock {
            detail.holders().for_each(|(id, text)| unlock(&mut html, name, &id, &text));
        }
        html.raw("</section>");
    }
    html.raw("<footer>");
    outcomes(&mut html);
    links(&mut html, &address_of("lock.json", &[("name", name)]));
    foot(html)
}

/// The tree of waits.
pub(super) fn of_waits(view: &View, place: &str) -> String {
    let mut html = Html::default();
    head(&mut html, "waits", place, "events?of=waits", Place::Waits);
    status(&mut html, view, "waits", place);
    table(&mut html, view, "waits", &WAITS, None);
    html.raw("<p class=\"empty\">Nobody waits for a lock.</p>");
    html.raw(
        "<footer><p>Below each lock are its waiters, and below each waiter the contended locks that its process holds. Processes without a record are only counted. A process may wait and hold in different tasks.</p>",
    );
    links(&mut html, "waits.json");
    foot(html)
}

/// The last holds of all locks.
pub(super) fn of_history(view: &View, is_lost: bool, place: &str) -> String {
    let mut html = Html::default();
    let events = if is_lost { "events?of=history&show=lost" } else { "events?of=history" };
    head(&mut html, "history", place, events, Place::History);
    status(&mut html, view, "history", place);
    html.raw("<nav class=\"chips\" aria-label=\"outcome\">");
    for (to, name, is_current) in [("history", "all", !is_lost), ("history?show=lost", "lost", is_lost)] {
        chip(&mut html, to, is_current, false);
        html.text(name).raw("</a>");
    }
    html.raw("</nav>");
    table(&mut html, view, "past", &HISTORY, None);
    html.raw("<p class=\"empty\">leasehold serve has seen no hold end.</p><footer>");
    outcomes(&mut html);
    links(&mut html, if is_lost { "history.json?show=lost" } else { "history.json" });
    foot(html)
}

/// Returns a page with one sentence, such as the result of an unlock.
pub(super) fn of_sentence(title: &str, sentence: &str, name: Option<&str>) -> String {
    let mut html = Html::default();
    head(&mut html, title, "", "", Place::Other);
    html.element("<h1 id=\"summary\">", sentence, "</h1>");
    if let Some(name) = name {
        html.raw("<p><a href=\"").text(&address_of("lock", &[("name", name)])).raw("\">back to the lock</a></p>");
    }
    html.raw("<footer>");
    foot(html)
}

/// Writes the head of a page. Without JavaScript, a page with live updates reloads itself.
fn head(html: &mut Html, title: &str, place: &str, events: &str, current: Place) {
    html.raw("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    html.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    html.raw("<meta name=\"color-scheme\" content=\"light dark\">");
    html.raw("<title>").text(title).raw(" · leasehold").text(if place.is_empty() { "" } else { ": " }).text(place);
    html.raw("</title><link rel=\"icon\" href=\"data:,\"><link rel=\"stylesheet\" href=\"page.css\">");
    if !events.is_empty() {
        html.raw(
            "<script src=\"page.js\" defer></script><noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>",
        );
    }
    html.raw("</head><body data-events=\"").text(events).raw("\"><header><a class=\"brand\" href=\"./\">leasehold</a>");
    html.raw("<nav aria-label=\"views\">");
    for (to, name, of) in
        [("./", "Locks", Place::Locks), ("waits", "Waits", Place::Waits), ("history", "History", Place::History)]
    {
        html.raw("<a href=\"")
            .text(to)
            .raw(if of == current { "\" aria-current=\"page\">" } else { "\">" })
            .text(name)
            .raw("</a>");
    }
    html.raw("</nav><span id=\"age\"></span></header><main>");
}

/// Writes the links and the end of a page.
fn links(html: &mut Html, json: &str) {
    html.raw("<p><a href=\"").text(json).raw("\">JSON</a> · <a href=\"metrics\">Prometheus metrics</a>");
    html.raw(
        "<span class=\"script\"> · press <kbd>?</kbd> for the keys</span><noscript> · times are UTC</noscript></p>",
    );
}

fn outcomes(html: &mut Html) {
    html.raw(
        "<p>“Released”: the holder or an operator ended the hold. “Lost”: the lease ended without a renewal. “Unclear”: \
         the lease could have ended between two scans. While no page is open, `serve` does not scan, unless \
         <code>--record</code> is set. Holds between two scans are missing.</p>",
    );
}

fn foot(mut html: Html) -> String {
    html.raw("</footer></main></body></html>\n");
    html.into_string()
}

fn status(html: &mut Html, view: &View, word: &str, place: &str) {
    html.raw("<p id=\"connection\" role=\"status\"></p><div class=\"title ").text(word).raw("\">");
    html.element("<h1 id=\"summary\">", &view.summary, "</h1>");
    html.element("<p class=\"place\">", place, "</p>");
    html.raw(if view.is_warning {
        "<p id=\"status\" role=\"status\" class=\"warning\">"
    } else {
        "<p id=\"status\" role=\"status\">"
    });
    html.text(&view.status).raw("</p></div>");
}

/// Writes the start of a chip's link.
fn chip(html: &mut Html, to: &str, is_current: bool, is_empty: bool) {
    html.raw(if is_empty { "<a class=\"zero\" href=\"" } else { "<a href=\"" }).text(to);
    html.raw(if is_current { "\" aria-current=\"true\">" } else { "\">" });
}

fn filter(html: &mut Html, view: &View, query: &Query) {
    html.raw("<div class=\"bar\"><form action=\"./\" method=\"get\" role=\"search\">");
    html.raw("<input type=\"search\" name=\"filter\" aria-label=\"Filter\" placeholder=\"Filter by lock, holder or host\" maxlength=\"200\" value=\"");
    html.text(&query.filter).raw("\">");
    let mut hidden = |name: &'static str, value: &str, is_set: bool| {
        if is_set {
            html.raw("<input type=\"hidden\" name=\"").raw(name).raw("\" value=\"").text(value).raw("\">");
        }
    };
    hidden("kind", &query.kind.map(word).unwrap_or_default(), query.kind.is_some());
    hidden("show", &word(query.show), query.show != Show::All);
    hidden("sort", &word(query.sort.column), !query.has_default_order());
    hidden("reversed", "1", query.sort.is_reversed);
    html.raw("<button>Filter</button></form><nav class=\"chips\" aria-label=\"kinds\">");
    chip(html, &query.of_kind(None).address("./"), query.kind.is_none(), false);
    html.raw("all kinds</a>");
    for kind in KindWord::value_variants().iter().filter(|kind| **kind != KindWord::Foreign) {
        let id = format!("kind-{}", word(*kind));
        chip(html, &query.of_kind(Some(*kind)).address("./"), query.kind == Some(*kind), number(view, &id) == "0");
        html.text(kind.found().word())
            .raw(" <b data-tile=\"")
            .text(&id)
            .raw("\">")
            .text(number(view, &id))
            .raw("</b></a>");
    }
    html.raw("</nav>");
    let is_default = Query { page: 1, ..query.clone() } == Query::of(None);
    html.raw("<nav class=\"pages\" aria-label=\"pages\">");
    if !is_default {
        html.raw("<a class=\"reset\" href=\"./\">reset</a>");
    }
    let counts = view.tables.first().map_or("", |(_, lines)| &lines.counts);
    html.element("<span id=\"counts\">", counts, "</span>");
    pages(html, view, query);
    html.raw("</nav></div>");
}

/// Writes the links to the previous and the next page.
fn pages(html: &mut Html, view: &View, query: &Query) {
    let Some((_, lines)) = view.tables.first() else { return };
    let (last, page) = (lines.pages, query.page.min(lines.pages));
    for (is_there, to, name) in [(page > 1, page.saturating_sub(1), "previous"), (page < last, page + 1, "next")] {
        if is_there {
            html.raw(" <a href=\"").text(&query.at_page(to).address("./")).raw("\">").text(name).raw("</a>");
        }
    }
}

/// Writes a table, with column titles that sort it.
fn table(html: &mut Html, view: &View, id: &str, heads: &[Head], query: Option<&Query>) {
    html.raw("<table id=\"").text(id).raw("\"><thead><tr>");
    for head in heads {
        html.raw("<th scope=\"col\" class=\"").text(head.content.word()).raw("\"");
        let sort = query.and_then(|query| head.sort.map(|sort| (query, sort)));
        html.raw(match sort {
            Some((query, column)) if query.sort.column == column => {
                if query.sort.is_reversed {
                    " aria-sort=\"other\" data-reversed=\"\">"
                } else {
                    " aria-sort=\"other\">"
                }
            }
            _ => ">",
        });
        match sort {
            Some((query, column)) => html
                .raw("<a href=\"")
                .text(&query.sorted_by(column).address("./"))
                .raw("\">")
                .text(head.title)
                .raw("</a>"),
            None => html.text(head.title),
        };
        html.raw("</th>");
    }
    html.raw("</tr></thead><tbody>");
    let nothing = Lines::default();
    let lines = view.tables.iter().find(|(table, _)| *table == id).map_or(&nothing, |(_, lines)| lines);
    lines.lines.iter().for_each(|line| row(html, line, heads));
    html.raw("</tbody></table>");
}

fn row(html: &mut Html, line: &Line, heads: &[Head]) {
    html.raw("<tr class=\"").text(line.class).raw("\">");
    for (head, cell) in heads.iter().zip(&line.cells) {
        html.raw("<td class=\"").text(head.content.word()).raw(if cell.text == NOTHING { " none" } else { "" });
        // A narrow screen shows the column title above the text.
        html.raw("\" data-title=\"").text(head.title).raw("\"");
        if head.content == Content::Long {
            html.raw(" title=\"").text(&cell.text).raw("\"");
        }
        html.raw(">");
        content(html, head.content, cell);
        html.raw("</td>");
    }
    html.raw("</tr>");
}

fn content(html: &mut Html, content: Content, cell: &Cell) {
    match (content, &cell.more) {
        (Content::Link, Some(to)) => html.raw("<a href=\"").text(to).raw("\">").text(&cell.text).raw("</a>"),
        (Content::Command, Some(_)) => html.element("<code>", &cell.text, "</code>"),
        (Content::Time, Some(_)) => html.element("<time>", &cell.text, "</time>"),
        _ => html.text(&cell.text),
    };
}

/// Writes the form that ends one hold.
fn unlock(html: &mut Html, name: &str, id: &str, text: &str) {
    html.raw("<form class=\"unlock\" method=\"post\" autocomplete=\"off\" action=\"");
    html.text(&address_of("unlock", &[("name", name), ("holder", id)])).raw("\" data-holder=\"").text(id);
    html.element("\"><fieldset><legend>End the hold of ", text, "</legend>");
    html.raw(
        "<p>The holder receives no notice, and may keep working at the same time as the next holder.</p>\
         <label>Token <input type=\"password\" name=\"token\" required autocomplete=\"off\"></label> <button>Free the lock</button></fieldset></form>",
    );
}

#[cfg(test)]
mod tests {
    use super::super::sample::Sample;
    use super::super::view::Views;
    use super::super::{lock as one_lock, past};
    use super::*;
    use crate::overview::Overview;
    use crate::overview::journal::{Outcome, Past};
    use crate::overview::sample::lock;
    use crate::overview::scans::{Scan, Told};
    use std::sync::{Arc, Mutex};
    use std::time::{Duration, Instant};

    #[test]
    fn name_of_a_lock_is_no_markup() {
        let (evil, now) = ("\"><script>alert(1)</script>'&\n", Instant::now());
        let mut overview = Overview::default();
        overview.take(Told::Done(Scan {
            begun: now,
            ended: now,
            found: vec![lock(evil)],
            is_cut: false,
            unseen: None,
        }));
        let sample = Sample { picture: overview.picture().clone(), ..Sample::default() };
        let query = Query { filter: evil.to_owned(), ..Query::of(None) };
        let view = Views::default().of_table(&sample, &query, Duration::from_secs(1), &Mutex::default());
        let past = Past {
            number: 0,
            name: evil.into(),
            kind: leasehold::inspect::FoundKind::Lock,
            id: evil.to_owned(),
            half: None,
            process: None,
            ended: 0,
            lasted: Duration::ZERO,
            is_longer: false,
            outcome: Outcome::Lost,
        };
        let past = [Arc::new(past)];
        let detail = Detail { is_known: true, ..Detail::empty(evil, now) };
        let of_lock = of_lock(&one_lock::view(&detail, &past, ""), &detail, "", true);
        let lines = Arc::new(past::lines(&past, true));
        let of_history = of_history(&View { tables: vec![("past", lines)], ..View::default() }, true, evil);
        for page in [of_table(&view, &query, evil), of_lock, of_history, of_sentence(evil, evil, Some(evil))] {
            assert_eq!(
                page.matches("<script").count(),
                page.matches("<script src=\"page.js\" defer>").count(),
                "{page}"
            );
            assert!(page.contains("&lt;script&gt;") && !page.contains(evil), "{page}");
        }
    }
}
