//! A process that is forked from one that has a client.

use crate::child::{Child, say};
use crate::support::on_one_of_each;
use fork::{Fork, fork, waitpid};
use leasehold::blocking::wait;
use leasehold::{Client, ClientBuilder, Error, InvalidInput};
use leasehold_test_support::Server;
use std::collections::BTreeSet;
use std::io::stdin;
use std::time::Duration;

#[test]
fn forked_process_is_told_so_and_changes_nothing_for_its_parent() {
    on_one_of_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let mut process = Child::start("fork", &server.url(), Duration::from_secs(30));
        process.hear("holds");
        let before = ids(&server);
        process.order("fork");
        for word in ["refused", "dropped", "renewed", "ended"] {
            process.hear(word);
        }
        let after = ids(&server);
        assert!(before.is_subset(&after), "connections of the parent are lost: {before:?}, now {after:?}");
        process.order("go on");
        process.hear("parent");
        process.wait();
        assert_eq!(server.command(&["EXISTS", "stock"]).as_int(), Some(0));
    });
}

/// The ids of the connections to the server, its own to this program left out.
fn ids(server: &Server) -> BTreeSet<String> {
    let own = server.command(&["CLIENT", "ID"]).as_int().expect("a number").to_string();
    server.client_list().into_iter().filter_map(|mut client| client.remove("id")).filter(|id| *id != own).collect()
}

/// Waits for the next order.
fn next_order() {
    let mut order = String::new();
    assert!(stdin().read_line(&mut order).expect("an order") > 0);
}

/// The other process, which forks.
pub(crate) fn child(builder: ClientBuilder, url: &str) {
    let client = wait(builder.connect(url)).expect("a client");
    let guard = wait(client.lock("stock").acquire()).expect("the lock");
    let token = guard.cancellation_token();
    say(format_args!("holds"));
    next_order();
    match fork().expect("a process") {
        Fork::Child => {
            let forked = |error: Option<Error>| matches!(error, Some(Error::Invalid(InvalidInput::Forked { .. })));
            let lock = client.lock("other");
            assert!(forked(wait(lock.acquire()).err()) && forked(wait(lock.try_acquire()).err()));
            assert!(forked(wait(lock.inspect()).err()) && forked(wait(guard.reenter()).err()));
            assert!(forked(wait(client.count_down_latch("gate").opened()).err()));
            assert!(forked(wait(client.locks("*").next()).and_then(Result::err)));
            assert!(forked(wait(client.multi_lock([client.lock("one")]).acquire()).err()));
            assert!(!guard.is_held() && guard.remaining().is_zero() && token.is_cancelled());
            wait(guard.lost());
            wait(client.shutdown(Duration::from_secs(30))).expect("nothing of this process");
            say(format_args!("refused"));
            assert!(matches!(wait(guard.release()), Err(Error::Lost { .. })));
            drop((client, lock));
            say(format_args!("dropped"));
            let own = wait(Client::connect(url)).expect("a client of its own");
            assert!(wait(own.lock("stock").try_acquire()).expect("an answer").is_none(), "the parent has it");
            wait(wait(own.lock("other").acquire()).expect("the lock").release()).expect("a release");
            say(format_args!("renewed"));
            std::process::exit(0);
        }
        Fork::Parent(pid) => {
            waitpid(pid).expect("the end of the other process");
            say(format_args!("ended"));
            next_order();
            assert!(guard.is_held());
            wait(guard.release()).expect("it was held all the time");
            wait(wait(client.lock("stock").acquire()).expect("the connection is as before").release())
                .expect("a release");
            say(format_args!("parent"));
            std::process::exit(0);
        }
    }
}
