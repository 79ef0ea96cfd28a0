//! Chromium without a window, and its driver. Each case has a browser of its own, with a profile of its own.

use crate::page::Page;
use crate::programs;
use fantoccini::ClientBuilder;
use hyper_util::client::legacy::connect::HttpConnector;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::{Map, Value, json};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// The driver, until it is dropped.
pub(crate) struct Driver {
    child: Child,
    url: String,
}

/// The way in which a browser differs from the usual one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Browser {
    /// A desktop with JavaScript.
    Usual,
    /// The same without JavaScript.
    WithoutScript,
    /// The narrow screen of a phone.
    Phone,
    /// The name `evil.example` leads to this machine, as after DNS rebinding.
    Rebound,
}

impl Driver {
    pub(crate) fn start() -> Self {
        let mut command = Command::new(programs::driver());
        command.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the driver of Chromium starts");
        let lines = BufReader::new(child.stdout.take().expect("its stdout")).lines();
        let said = "was started successfully on port ";
        let port = lines
            .map_while(Result::ok)
            .find_map(|line| line.split_once(said).map(|(_, port)| port.trim_end_matches('.').to_owned()));
        let port = port.expect("the port of the driver");
        Self { child, url: format!("http://127.0.0.1:{port}") }
    }

    pub(crate) fn version(&self) -> String {
        let output = Command::new(programs::browser()).arg("--version").output().expect("Chromium says its version");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    pub(crate) async fn open(&self, browser: Browser) -> Page {
        let mut builder = ClientBuilder::new(HttpConnector::new());
        builder.capabilities(capabilities(browser));
        Page::new(builder.connect(&self.url).await.expect("a browser"))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // It ends its browsers on this signal.
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

fn capabilities(browser: Browser) -> Map<String, Value> {
    let mut arguments = vec!["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,900"];
    // The sandbox of Chromium refuses to run as root.
    if geteuid().is_root() {
        arguments.push("--no-sandbox");
    }
    if browser == Browser::Rebound {
        arguments.push("--host-resolver-rules=MAP evil.example 127.0.0.1");
    }
    let mut options = json!({ "binary": programs::browser(), "args": arguments });
    match browser {
        Browser::WithoutScript => {
            options["prefs"] = json!({ "profile.managed_default_content_settings.javascript": 2 });
        }
        Browser::Phone => {
            let metrics = json!({ "width": 390, "height": 844, "pixelRatio": 2.0 });
            options["mobileEmulation"] = json!({ "deviceMetrics": metrics });
        }
        Browser::Usual | Browser::Rebound => {}
    }
    let mut all = Map::new();
    all.insert("goog:chromeOptions".to_owned(), options);
    // An alert stays open, so that the check sees it.
    all.insert("unhandledPromptBehavior".to_owned(), json!("ignore"));
    all
}
