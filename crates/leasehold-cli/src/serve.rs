//! `leasehold serve`: the locks on a web page, and metrics for Prometheus.
//!
//! For all browsers together, `serve/sampler.rs` scans the table, `serve/details.rs` inspects single locks, and
//! `serve/waits.rs` searches for waits. `serve/view.rs`, `serve/lock.rs`, `serve/past.rs` and `serve/waits.rs` create
//! the texts. `serve/page.rs` writes the texts as HTML, `serve/changes.rs` as messages, and `serve/json.rs` as JSON.
//! `serve/routes.rs` defines the routes, `serve/unlock.rs` the only route that writes, and `http.rs` manages the
//! connections.

mod answer;
mod app;
mod cell;
mod changes;
mod command;
mod details;
mod events;
mod host;
mod html;
mod json;
mod lock;
mod metrics;
mod newcomers;
mod on_view;
mod page;
mod past;
mod query;
mod routes;
mod sample;
mod sampler;
mod token;
mod unlock;
mod view;
mod viewers;
mod waits;

use crate::args::{ServeOptions, ServerOptions};
use crate::connection::{self, FAREWELL};
use crate::ending::Ending;
use crate::failure::{Exit, Failure};
use crate::http;
use crate::output;
use crate::overview::scans::Wanted;
use crate::signals::{Signals, asks_to_end, stop_this_process};
use app::{App, MOST_LISTENERS};
use details::Details;
use host::Hosts;
use leasehold::Client;
use metrics::Unlocks;
use routes::router;
use rustix::process::Signal;
use sample::Sample;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use token::Token;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, Semaphore, watch};
use view::Views;
use viewers::Viewers;
use waits::Waits;

/// Serves the page until a signal.
///
/// # Errors
///
/// The address cannot be bound, the token cannot be read, or the server refuses the search.
pub(crate) async fn serve(options: &ServeOptions, server: &ServerOptions) -> Result<Ending, Failure> {
    let mut signals = Signals::listen()?;
    let token = if options.allow_unlock { Some(Token::find(options.token_file.as_deref())?) } else { None };
    let listener = TcpListener::bind(options.listen).await.map_err(|error| {
        Failure::new(
            Exit::Usage,
            format!("cannot listen on {}: {error}; set another address with --listen", options.listen),
        )
    })?;
    let client = match signals.unless_ended(connection::connect_or_wait(server, "leasehold serve")).await {
        Ok(client) => client?,
        Err(signal) => return Ok(ending(signal)),
    };
    let result = with_client(&client, options, server, listener, token, &mut signals).await;
    // This command holds no lock.
    let _ = client.shutdown(FAREWELL).await;
    result
}

async fn with_client(
    client: &Client,
    options: &ServeOptions,
    server: &ServerOptions,
    listener: TcpListener,
    token: Option<(Token, bool)>,
    signals: &mut Signals,
) -> Result<Ending, Failure> {
    let wanted = Wanted { pattern: options.pattern.clone(), kinds: Vec::new(), every: options.every };
    let (samples, ended) = (watch::Sender::new(Sample::default()), watch::Sender::new(false));
    introduce(&listener, options, server, token.as_ref())?;
    let prefix = connection::prefix(server);
    let app = Arc::new(App {
        client: client.clone(),
        place: format!("{} on {}", options.pattern, connection::place(server)?),
        pattern: options.pattern.clone(),
        prefix: prefix.clone(),
        every: options.every,
        samples: samples.subscribe(),
        viewers: Viewers::new(),
        details: Arc::default(),
        on_view: Arc::default(),
        views: Views::with_prefix(prefix.clone()),
        waits: Arc::new(Waits::new()),
        journal: Arc::default(),
        hosts: Hosts::of_this_machine(&options.host),
        token: token.map(|(token, _)| token),
        penalty: Mutex::new(()),
        unlocks: Unlocks::default(),
        listeners: Arc::new(Semaphore::new(MOST_LISTENERS)),
        ended: ended.subscribe(),
        json: server.json,
    });
    let details: Arc<Details> = app.details.clone();
    let _recorder = options.record.then(|| app.viewers.join());
    let answers = http::serve(listener, router(app.clone(), &options.path), ended.subscribe());
    tokio::pin!(answers);
    let result = tokio::select! {
        failure = sampler::run(client, &wanted, &app.viewers, &app.on_view, &samples, app.journal.clone()) => Err(failure),
        () = details.look_at_all(client, &prefix, options.every) => Ok(0.into()),
        () = app.waits.look(client, options.every) => Ok(0.into()),
        () = &mut answers => Ok(0.into()),
        signal = end(signals) => Ok(ending(signal)),
    };
    ended.send_replace(true);
    answers.await;
    result
}

/// Waits for a signal that ends the program.
async fn end(signals: &mut Signals) -> Signal {
    loop {
        match signals.next().await {
            signal if asks_to_end(signal) => return signal,
            Signal::TSTP => _ = stop_this_process(),
            _ => {}
        }
    }
}

/// Returns the end after a signal. SIGINT and SIGTERM end `serve` normally.
fn ending(signal: Signal) -> Ending {
    if matches!(signal, Signal::INT | Signal::TERM) { 0.into() } else { Ending::by(signal) }
}

/// Prints the URL and warnings.
fn introduce(
    listener: &TcpListener,
    options: &ServeOptions,
    server: &ServerOptions,
    token: Option<&(Token, bool)>,
) -> Result<(), Failure> {
    let address = listener.local_addr();
    let address =
        address.map_err(|error| Failure::new(Exit::Other, format!("cannot read the local address: {error}")))?;
    if !is_for_this_machine(address) {
        let text = format!(
            "other machines can reach {}, and the page has no password: everyone can read the names of locks and processes",
            options.listen
        );
        output::note(&text, server.json);
    }
    if let Some((token, true)) = token {
        output::note(&format!("token to free locks: {}", token.as_str()), server.json);
    }
    let url = format!("http://{address}{}", options.path);
    let line = if server.json { json!({ "url": url }).to_string() } else { format!("listening on {url}") };
    output::print(&format!("{line}\n"))
}

fn is_for_this_machine(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}
