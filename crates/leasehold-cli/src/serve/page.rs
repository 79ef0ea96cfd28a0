//! The pages as HTML, usable without JavaScript. Relative links work below a path of a proxy.

use super::details::Detail;
use super::html::Html;
use super::query::{Query, address_of, word};
use super::view::{Line, View};
use crate::args::KindWord;
use crate::overview::column::Column;
use clap::ValueEnum as _;

/// The table of all locks.
pub(super) fn of_table(view: &View, query: &Query, place: &str) -> String {
    let mut html = Html::default();
    head(&mut html, &format!("locks: {place}"), &query.address("events"));
    status(&mut html, view);
    filter(&mut html, query);
    pages(&mut html, view, query);
    html.raw("<div class=\"table\"><table class=\"locks\"><thead><tr>");
    for column in Column::all() {
        html.raw(if column.is_number() { "<th scope=\"col\" class=\"number\"" } else { "<th scope=\"col\"" });
        let is_sorted = column == query.sort.column;
        html.raw(match (is_sorted, query.sort.is_reversed) {
            (false, _) => "",
            (true, false) => " aria-sort=\"other\"",
            (true, true) => " aria-sort=\"other\" data-reversed=\"\"",
        });
        html.raw("><a href=\"").text(&query.sorted_by(column).address("./")).raw("\">").text(column.title());
        html.raw("</a></th>");
    }
    html.raw("</tr></thead><tbody data-lock=\"lock?name=\">");
    for line in &view.lines.lines {
        row(&mut html, line, Some(&address_of("lock", &[("name", &line.key)])));
    }
    html.raw("</tbody></table></div>");
    html.raw(
        "<p>HELD FOR is the holder's own statement; with a &gt; it is the time that this page has seen the hold. GRANTS/S counts new \
         holders between two looks, over the last ten seconds. A free lock stays in the table for ten seconds. \
         <a href=\"metrics\">Prometheus metrics</a></p>",
    );
    foot(html)
}

/// The page of one lock.
pub(super) fn of_lock(view: &View, name: &str, detail: &Detail, can_unlock: bool) -> String {
    let mut html = Html::default();
    head(&mut html, name, &address_of("events", &[("name", name)]));
    html.raw("<p><a href=\"./\">all locks</a></p>");
    status(&mut html, view);
    html.raw(
        "<div class=\"table\"><table><thead class=\"hidden\"><tr><th>field</th><th>value</th></tr></thead><tbody>",
    );
    for line in &view.lines.lines {
        row(&mut html, line, None);
    }
    html.raw("</tbody></table></div>");
    if can_unlock {
        for (id, text) in &detail.holders {
            unlock(&mut html, name, id, text);
        }
    }
    foot(html)
}

/// A page of one sentence, such as the result of an unlock.
pub(super) fn of_sentence(title: &str, sentence: &str, name: Option<&str>) -> String {
    let mut html = Html::default();
    head(&mut html, title, "");
    html.element("<p id=\"summary\">", sentence, "</p>");
    if let Some(name) = name {
        html.raw("<p><a href=\"").text(&address_of("lock", &[("name", name)])).raw("\">back to the lock</a></p>");
    }
    html.raw("<p><a href=\"./\">all locks</a></p>");
    foot(html)
}

/// The head of a page. A page with live changes reloads itself without JavaScript.
fn head(html: &mut Html, title: &str, events: &str) {
    html.raw("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    html.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    html.element("<title>leasehold: ", title, "</title>");
    html.raw("<link rel=\"icon\" href=\"data:,\"><link rel=\"stylesheet\" href=\"page.css\">");
    if !events.is_empty() {
        html.raw(
            "<script src=\"page.js\" defer></script><noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>",
        );
    }
    html.raw("</head><body data-events=\"").text(events).raw("\">");
    html.element("<h1>", title, "</h1>");
}

fn foot(mut html: Html) -> String {
    html.raw("</body></html>\n");
    html.into_string()
}

fn status(html: &mut Html, view: &View) {
    html.element("<p id=\"summary\">", &view.summary, "</p>");
    html.raw(if view.is_warning {
        "<p id=\"status\" role=\"status\" class=\"warning\">"
    } else {
        "<p id=\"status\" role=\"status\">"
    });
    html.text(&view.status).raw("</p><p id=\"connection\" role=\"status\"></p>");
}

fn filter(html: &mut Html, query: &Query) {
    html.raw("<form action=\"./\" method=\"get\"><label>Filter <input name=\"filter\" maxlength=\"200\" value=\"");
    html.text(&query.filter).raw("\"></label> <label>Kind <select name=\"kind\"><option value=\"\">all</option>");
    for kind in KindWord::value_variants().iter().filter(|kind| **kind != KindWord::Foreign) {
        html.raw("<option value=\"").text(&word(*kind)).raw("\"");
        html.raw(if query.kind == Some(*kind) { " selected>" } else { ">" }).text(kind.found().word()).raw("</option>");
    }
    html.raw("</select></label> <input type=\"hidden\" name=\"sort\" value=\"")
        .text(&word(query.sort.column))
        .raw("\">");
    if query.sort.is_reversed {
        html.raw("<input type=\"hidden\" name=\"reversed\" value=\"1\">");
    }
    html.raw("<button>Show</button></form>");
}

fn pages(html: &mut Html, view: &View, query: &Query) {
    let (last, page) = (view.lines.pages, query.page.min(view.lines.pages));
    html.element("<nav aria-label=\"pages\"><span id=\"counts\">", &view.lines.counts, "</span>");
    for (is_there, to, name) in [(page > 1, page.saturating_sub(1), "previous"), (page < last, page + 1, "next")] {
        if is_there {
            html.raw(" <a href=\"").text(&query.at_page(to).address("./")).raw("\">").text(name).raw("</a>");
        }
    }
    html.raw("</nav>");
}

/// A row of a table, whose first cell may be a link.
fn row(html: &mut Html, line: &Line, link: Option<&str>) {
    html.raw("<tr class=\"").text(line.class).raw("\">");
    for (at, cell) in line.cells.iter().enumerate() {
        match Column::all().nth(at).filter(|_| link.is_some()) {
            // A narrow screen shows the column title beside the text.
            Some(column) => {
                html.raw(if column.is_number() { "<td class=\"number\" data-title=\"" } else { "<td data-title=\"" });
                html.text(column.title()).raw("\">")
            }
            None => html.raw("<td>"),
        };
        match link.filter(|_| at == 0) {
            Some(link) => html.raw("<a href=\"").text(link).raw("\">").text(cell).raw("</a>"),
            None => html.text(cell),
        };
        html.raw("</td>");
    }
    html.raw("</tr>");
}

/// The form that ends the hold of one holder.
fn unlock(html: &mut Html, name: &str, id: &str, text: &str) {
    html.raw("<form class=\"unlock\" method=\"post\" autocomplete=\"off\" action=\"");
    html.text(&address_of("unlock", &[("name", name), ("holder", id)])).raw("\" data-holder=\"").text(id);
    html.element("\"><fieldset><legend>End the hold of ", text, "</legend>");
    html.raw(
        "<p>The holder gets no notice, and may keep working while the next holder works.</p>\
         <label>Token <input type=\"password\" name=\"token\" required autocomplete=\"off\"></label> <button>Free the lock</button></fieldset></form>",
    );
}

#[cfg(test)]
mod tests {
    use super::super::sample::Sample;
    use super::super::view::Views;
    use super::*;
    use crate::overview::Overview;
    use crate::overview::looks::{Look, Told};
    use crate::overview::sample::lock;
    use std::time::{Duration, Instant};

    #[test]
    fn name_of_a_lock_is_no_markup() {
        let (evil, now) = ("\"><script>alert(1)</script>'&\n", Instant::now());
        let mut overview = Overview::default();
        overview.take(Told::Done(Look {
            begun: now,
            ended: now,
            found: vec![lock(evil)],
            is_cut: false,
            unseen: None,
        }));
        let sample = Sample { picture: overview.picture().clone(), ..Sample::default() };
        let query = Query { filter: evil.to_owned(), ..Query::of(None) };
        let view = Views::default().of_table(&sample, &query, Duration::from_secs(1));
        let detail = Detail {
            server: crate::overview::Server::Answers,
            headline: evil.to_owned(),
            lines: vec![("holder", evil.to_owned())],
            holders: vec![(evil.to_owned(), evil.to_owned())],
        };
        let of_lock = of_lock(&super::super::view::of_lock(&detail), evil, &detail, true);
        for page in [of_table(&view, &query, evil), of_lock, of_sentence(evil, evil, Some(evil))] {
            assert_eq!(
                page.matches("<script").count(),
                page.matches("<script src=\"page.js\" defer>").count(),
                "{page}"
            );
            assert!(page.contains("&lt;script&gt;") && !page.contains(evil), "{page}");
        }
    }
}
