//! A page in the browser: what it shows, and when it began to show it.

use fantoccini::elements::Element;
use fantoccini::{Client, Locator};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// How long the page may take for what has no limit of its own.
const PATIENCE: Duration = Duration::from_secs(20);

/// Tells what a row of the table of all locks shows, by the text of its first cell.
const ROW: &str = "const of = (name) => Array.from(document.querySelectorAll('#locks tbody tr')).find((row) => row.cells[0].textContent === name);\
    const [name, is] = arguments;\
    const shows = { \
        held: (row) => row && row.className !== 'gone', \
        free: (row) => row && row.className === 'gone', \
        waiting: (row) => row && row.cells[8].textContent === '1', \
    };\
    const by = (holder) => (row) => row && (row.cells[2].textContent.includes(holder) || row.cells[4].textContent === holder);\
    const fits = () => (shows[is] || by(is))(of(name));";

/// A browser with one page, until it is [closed](Self::close).
pub(crate) struct Page {
    client: Client,
}

/// The state of a row that is waited for.
#[derive(Clone, Debug)]
pub(crate) enum Shows {
    Held,
    Free,
    Waiting,
    /// A part of the text of the holder, or its process id.
    HeldBy(String),
}

impl Shows {
    fn word(&self) -> &str {
        match self {
            Self::Held => "held",
            Self::Free => "free",
            Self::Waiting => "waiting",
            Self::HeldBy(holder) => holder,
        }
    }
}

impl Page {
    pub(crate) const fn new(client: Client) -> Self {
        Self { client }
    }

    pub(crate) async fn go(&self, url: &str) {
        self.client.goto(url).await.unwrap_or_else(|error| panic!("{url} is opened: {error}"));
    }

    pub(crate) async fn close(self) {
        self.client.close().await.expect("the browser is closed");
    }

    /// Runs a script in the page, and returns what it returns.
    pub(crate) async fn run(&self, script: &str, words: &[Value]) -> Value {
        self.client.execute(script, words.to_vec()).await.unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// Runs a script that calls its last argument with its result.
    pub(crate) async fn run_to_end(&self, script: &str, words: &[Value]) -> Value {
        self.client.execute_async(script, words.to_vec()).await.unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// The text of an element, as a person sees it.
    pub(crate) async fn text(&self, css: &str) -> String {
        self.element(css).await.text().await.unwrap_or_else(|error| panic!("the text of {css}: {error}"))
    }

    pub(crate) async fn element(&self, css: &str) -> Element {
        self.client.find(Locator::Css(css)).await.unwrap_or_else(|error| panic!("{css}: {error}"))
    }

    pub(crate) async fn count(&self, css: &str) -> usize {
        self.client.find_all(Locator::Css(css)).await.unwrap_or_else(|error| panic!("{css}: {error}")).len()
    }

    /// Whether a dialogue such as an alert is open.
    pub(crate) async fn has_alert(&self) -> bool {
        self.client.get_alert_text().await.is_ok()
    }

    pub(crate) async fn source(&self) -> String {
        self.client.source().await.expect("the source of the page")
    }

    pub(crate) async fn picture(&self) -> Vec<u8> {
        self.client.screenshot().await.expect("a picture of the page")
    }

    /// Waits until a text of the page has a part, and says how long that took.
    pub(crate) async fn says(&self, css: &str, part: &str) -> Duration {
        let (begun, mut text) = (Instant::now(), String::new());
        while begun.elapsed() < PATIENCE {
            // A page that is read anew has no such element for a moment.
            if let Ok(element) = self.client.find(Locator::Css(css)).await {
                text = element.text().await.unwrap_or_default();
            }
            if text.contains(part) {
                return begun.elapsed();
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!("{css} says {part:?}, but {text:?}");
    }

    /// Waits until an element has no text.
    pub(crate) async fn says_nothing(&self, css: &str) -> Duration {
        let begun = Instant::now();
        while !self.text(css).await.is_empty() {
            assert!(begun.elapsed() < PATIENCE, "{css} says nothing, but {:?}", self.text(css).await);
            sleep(Duration::from_millis(10)).await;
        }
        begun.elapsed()
    }

    /// Waits until a row shows this, whenever it began to.
    pub(crate) async fn shows(&self, name: &str, what: Shows) {
        let begun = Instant::now();
        while self.run(&format!("{ROW} return Boolean(fits());"), &[json!(name), json!(what.word())]).await
            != json!(true)
        {
            assert!(begun.elapsed() < PATIENCE, "{name} is {what:?}: {:?}", self.row(name).await);
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// The cells of a row.
    pub(crate) async fn row(&self, name: &str) -> Value {
        let script = format!(
            "{ROW} const row = of(name); return row ? Array.from(row.cells, (cell) => cell.textContent) : null;"
        );
        self.run(&script, &[json!(name), json!("held")]).await
    }

    /// Has the page note the moment at which it begins to show this. It must not do so already.
    pub(crate) async fn watch(&self, name: &str, what: &Shows) {
        let script = format!(
            "{ROW} if (fits()) return 'so already'; window.shownAt = null; const changes = new MutationObserver(() => {{ \
             if (window.shownAt === null && fits()) {{ window.shownAt = Date.now(); changes.disconnect(); }} }}); \
             changes.observe(document.body, {{ subtree: true, childList: true, characterData: true, attributes: true }}); return '';"
        );
        let told = self.run(&script, &[json!(name), json!(what.word())]).await;
        assert_eq!(told, json!(""), "{name} is {what:?}");
    }

    /// The moment that the page has noted.
    pub(crate) async fn noted(&self, name: &str) -> u64 {
        let begun = Instant::now();
        loop {
            // The driver writes large numbers with a point.
            if let Some(at) = self.run("return window.shownAt;", &[]).await.as_f64() {
                return at as u64;
            }
            if begun.elapsed() > PATIENCE {
                let state = "return [document.getElementById('summary').textContent, document.getElementById('connection').textContent, document.hidden];";
                panic!("{name} is shown as it should: {:?} {:?}", self.row(name).await, self.run(state, &[]).await);
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
}
