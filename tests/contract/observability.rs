//! The dashboard and the alert rules name metrics, labels and words that there are, and leave none out.

use crate::documents::section;
use crate::files;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const DASHBOARD: &str = "observability/grafana/leasehold.json";
const RULES: &str = "observability/prometheus/rules.yml";
const RULE_TESTS: &str = "observability/prometheus/rules_test.yml";

/// Labels that Prometheus and its histograms add.
const LABELS_OF_PROMETHEUS: [&str; 3] = ["job", "instance", "le"];

/// Labels whose values are not leasehold's.
const FREE_LABELS: [&str; 6] = ["job", "instance", "le", "class", "server", "lock"];

/// A row of the tables of metrics: that of the library in docs/operations.md, and those in the page of the command.
#[derive(Debug)]
struct Metric {
    is_histogram: bool,
    labels: BTreeSet<String>,
    /// Whether the table asks for an alert.
    wants_alert: bool,
}

/// The metrics by name. `operations_has_a_row_for_every_metric` holds the table and the code together.
fn metrics() -> BTreeMap<String, Metric> {
    let page = files::read("docs/operations.md");
    let rows = section(&page, "## Metrics").lines().filter(|line| line.starts_with("| `leasehold_"));
    let metric = |row: &str| {
        let cells: Vec<_> = row.split('|').map(str::trim).skip(1).collect();
        let labels = cells[2].split('`').skip(1).step_by(2).map(str::to_owned).collect();
        let wants_alert = ["**page**", "**warn**"].iter().any(|word| row.contains(word));
        let name = cells[0].trim_matches('`').to_owned();
        (name, Metric { is_histogram: cells[1] == "histogram", labels, wants_alert })
    };
    rows.map(metric).chain(metrics_of_the_command()).collect()
}

/// The metrics of the command by name. Tests of the command hold the tables and the code together.
fn metrics_of_the_command() -> Vec<(String, Metric)> {
    let page = files::read("crates/leasehold-cli/README.md");
    let rows = page.lines().filter(|line| line.starts_with("| `leasehold_"));
    let metric = |row: &str| {
        let name = row.split('`').nth(1).expect("a row has a name").to_owned();
        let labels = row.split(" by `").skip(1).filter_map(|rest| rest.split('`').next());
        // Those of `serve` are of the whole server, all others of one lock.
        let lock = (!name.starts_with("leasehold_serve_")).then_some("lock");
        let labels = labels.chain(lock).map(str::to_owned).collect();
        let wants_alert = ["**page**", "**warn**"].iter().any(|word| row.contains(word));
        (name, Metric { is_histogram: false, labels, wants_alert })
    };
    rows.map(metric).collect()
}

/// The words in the code of the telemetry and in the reasons of losses: values that a label may have.
fn label_values() -> BTreeSet<String> {
    let code = files::sources("crates/leasehold/src/telemetry").into_iter().map(|file| file.text);
    let code: Vec<_> = code.chain([files::read("crates/leasehold/src/runtime/user_code.rs")]).collect();
    let words = code.iter().flat_map(|text| text.split('"').skip(1).step_by(2).map(str::to_owned));
    words.chain(leasehold::LossReason::ALL.iter().map(|reason| reason.as_str().to_owned())).collect()
}

/// A metric in an expression, with the labels that its selector matches: each with its value.
#[derive(Debug, PartialEq, Eq)]
struct Selector {
    metric: String,
    matchers: Vec<(String, String)>,
}

/// The metrics of leasehold in an expression, or in any text.
fn selectors(expression: &str) -> Vec<Selector> {
    let starts = expression.match_indices("leasehold_").map(|(at, _)| at);
    let starts =
        starts.filter(|at| !expression[..*at].ends_with(|before: char| before.is_alphanumeric() || before == '_'));
    let selector = |at: usize| {
        let rest = &expression[at..];
        let end = rest.find(|next: char| !next.is_alphanumeric() && next != '_').unwrap_or(rest.len());
        let within =
            rest[end..].strip_prefix('{').and_then(|rest| rest.split_once('}')).map_or("", |(within, _)| within);
        let matcher = |part: &str| {
            let (label, value) = part.split_once(['=', '!']).expect("a matcher compares");
            (label.trim().to_owned(), value.trim_matches(['=', '~', '"']).to_owned())
        };
        let matchers = within.split(',').filter(|part| !part.trim().is_empty()).map(matcher).collect();
        Selector { metric: rest[..end].to_owned(), matchers }
    };
    starts.map(selector).collect()
}

/// The labels by which an expression groups.
fn grouped_by(expression: &str) -> BTreeSet<String> {
    let lists = expression.split("by (").skip(1).filter_map(|rest| rest.split(')').next());
    lists
        .flat_map(|list| list.split(','))
        .map(|label| label.trim().to_owned())
        .filter(|label| !label.is_empty())
        .collect()
}

/// Checks an expression, and returns the metrics that it names.
#[track_caller]
fn check(expression: &str) -> BTreeSet<String> {
    let (metrics, values) = (metrics(), label_values());
    let mut named = BTreeSet::new();
    let mut labels: BTreeSet<&str> = LABELS_OF_PROMETHEUS.into();
    for Selector { metric, matchers } in selectors(expression) {
        let part = ["_bucket", "_sum", "_count"].iter().find_map(|part| metric.strip_suffix(part));
        let base = part.filter(|base| metrics.contains_key(*base)).unwrap_or(&metric).to_owned();
        let known = metrics.get(&base).unwrap_or_else(|| panic!("{metric} is no metric: {expression}"));
        assert_eq!(known.is_histogram, base != metric, "{metric}: only histograms have buckets: {expression}");
        labels.extend(known.labels.iter().map(String::as_str));
        for (label, value) in matchers {
            let has = known.labels.contains(&label) || LABELS_OF_PROMETHEUS.contains(&label.as_str());
            assert!(has, "{metric} has no label {label}: {expression}");
            let is_free = FREE_LABELS.contains(&label.as_str());
            assert!(is_free || values.contains(&value), "{label} is never {value:?}: {expression}");
        }
        named.insert(base);
    }
    for label in grouped_by(expression) {
        assert!(labels.contains(label.as_str()), "nothing has the label {label}: {expression}");
    }
    named
}

/// All texts under a key, anywhere in a value.
fn texts_under<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get(key).and_then(Value::as_str));
            fields.values().for_each(|value| texts_under(value, key, found));
        }
        Value::Array(values) => values.iter().for_each(|value| texts_under(value, key, found)),
        _ => {}
    }
}

fn dashboard() -> Value {
    serde_json::from_str(&files::read(DASHBOARD)).expect("the dashboard is JSON")
}

/// The alerts, each with its expression.
fn alerts() -> BTreeMap<String, String> {
    let text = files::read(RULES);
    let rules = text.split("- alert: ").skip(1).map(|rule| {
        let (name, rest) = rule.split_once('\n').expect("an alert has more than a name");
        let (_, from) = rest.split_once(" expr: ").expect("an alert has an expression");
        let end = ["\n        labels:", "\n        for:"].iter().filter_map(|mark| from.find(mark)).min();
        (name.to_owned(), from[..end.expect("an expression ends")].trim_start_matches('|').trim().to_owned())
    });
    rules.collect()
}

#[test]
fn dashboard_shows_every_metric_and_no_other() {
    let dashboard = dashboard();
    let mut expressions = Vec::new();
    texts_under(&dashboard, "expr", &mut expressions);
    assert!(expressions.len() > 20, "{expressions:?}");
    let shown: BTreeSet<_> = expressions.into_iter().flat_map(check).collect();
    assert_eq!(shown, metrics().into_keys().collect(), "the dashboard, and the tables of metrics");
    let mut queries = Vec::new();
    texts_under(&dashboard, "query", &mut queries);
    for query in queries {
        let all = metrics();
        selectors(query).iter().for_each(|one| assert!(all.contains_key(&one.metric), "{query} names no metric"));
    }
}

#[test]
fn panels_have_their_own_ids_and_say_what_they_show() {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().expect("a dashboard has panels");
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().expect("a panel has an id")).collect();
    assert_eq!(ids.len(), panels.len());
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        assert!(panel["description"].as_str().is_some_and(|text| text.ends_with('.')), "{}", panel["title"]);
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
    }
}

#[test]
fn alerts_name_metrics_and_labels_that_there_are() {
    let alerts = alerts();
    let named: BTreeSet<_> = alerts.values().flat_map(|expression| check(expression)).collect();
    for (name, metric) in metrics() {
        assert!(!metric.wants_alert || named.contains(&name), "the table of metrics wants an alert on {name}");
    }
}

#[test]
fn every_alert_links_to_a_heading_of_the_operations_page() {
    let page = files::read("docs/operations.md");
    let anchor = |line: &str| {
        let words = line.strip_prefix('#')?.trim_start_matches('#').strip_prefix(' ')?.to_lowercase();
        Some(words.chars().filter(|c| c.is_alphanumeric() || " -".contains(*c)).collect::<String>().replace(' ', "-"))
    };
    let anchors: BTreeSet<_> = page.lines().filter_map(anchor).collect();
    let rules = files::read(RULES);
    let links: Vec<_> = rules.split("docs/operations.md#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(links.len(), alerts().len(), "an alert has one link");
    for link in links {
        assert!(anchors.contains(link), "the operations page has no heading {link}: {anchors:?}");
    }
}

#[test]
fn every_alert_has_a_test_that_sees_it_quiet_and_loud() {
    let tests = files::read(RULE_TESTS);
    let named = |from: &str| -> BTreeSet<String> {
        let tests = tests
            .split("alertname: ")
            .skip(1)
            .filter(|rest| rest.lines().next().is_some_and(|line| line.contains(from)));
        tests.filter_map(|rest| rest.split([',', '\n']).next()).map(str::to_owned).collect()
    };
    let all: BTreeSet<_> = alerts().into_keys().collect();
    assert!(all.len() > 10, "{all:?}");
    assert_eq!(named("exp_alerts: []"), all, "alerts that a test sees quiet");
    let loud: BTreeSet<_> =
        tests.split("- alertname: ").skip(1).filter_map(|rest| rest.lines().next()).map(str::to_owned).collect();
    assert_eq!(loud, all, "alerts that a test sees loud");
    for line in tests.lines().filter(|line| line.contains("series: '")) {
        check(line);
    }
}

#[test]
fn the_rules_of_the_operations_page_are_those_of_the_file() {
    let page = files::read("docs/operations.md");
    let alerts = alerts();
    let shown: Vec<_> = section(&page, "## Metrics").split("- alert: ").skip(1).collect();
    assert!(!shown.is_empty());
    for rule in shown {
        let (name, rest) = rule.split_once('\n').expect("an alert has more than a name");
        let expression = rest.split("expr: ").nth(1).and_then(|rest| rest.lines().next());
        assert_eq!(expression, alerts.get(name).map(String::as_str), "{name}");
    }
}

#[test]
fn selectors_are_found() {
    let found =
        selectors("sum(rate(leasehold_a_total{class=~\"$class\", reason!=\"x\"}[5m])) > my_leasehold_b + leasehold_c");
    let matchers = [("class", "$class"), ("reason", "x")].map(|(label, value)| (label.to_owned(), value.to_owned()));
    assert_eq!(
        found,
        [
            Selector { metric: "leasehold_a_total".to_owned(), matchers: matchers.into() },
            Selector { metric: "leasehold_c".to_owned(), matchers: Vec::new() }
        ]
    );
    assert_eq!(
        grouped_by("sum by (job, le) (x) / count by (class) (y)"),
        ["class", "job", "le"].map(str::to_owned).into()
    );
}
