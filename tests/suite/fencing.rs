//! Stores that refuse stale fencing tokens.

use crate::support::world::idle;
use crate::support::{World, ms, secs};
use leasehold::fence::sql;
use leasehold::kind::Fenced;
use leasehold::{Error, FencedLock, Guard};
use leasehold_core::script;
use rusqlite::{Connection, TransactionBehavior};
use std::sync::{Arc, Barrier};

/// A guard that was lost without knowing it, and one of its successor.
async fn stale_and_new(lock: &FencedLock) -> (Guard<Fenced>, Guard<Fenced>) {
    let stale = lock.acquire().lease(ms(60)).await.expect("the lock");
    let new = lock.acquire().wait(secs(20)).await.expect("the lock, when the lease has run out");
    assert!(new.fencing_token() > stale.fencing_token());
    (stale, new)
}

pub(crate) async fn a_stale_token_neither_reads_nor_writes(world: World) {
    let client = world.client().await;
    let lock = client.fenced_lock(world.name("account"));
    let balance = client.fenced_value(world.name("balance"));
    let (stale, new) = stale_and_new(&lock).await;
    // The new holder has only read, and the old one is refused from then on.
    assert_eq!(balance.read(&stale).await.expect("nobody else has shown a token"), None);
    balance.write(&stale, "100").await.expect("nobody else has shown a token");
    assert_eq!(balance.read(&new).await.expect("the newest token").as_deref(), Some(b"100".as_slice()));
    let refused = Error::StaleToken {
        name: balance.key().to_owned(),
        token: stale.fencing_token(),
        registered: new.fencing_token(),
    };
    assert_eq!(balance.write(&stale, "90").await.expect_err("a stale token"), refused);
    assert_eq!(balance.read(&stale).await.expect_err("a stale token"), refused);
    assert_eq!(balance.check(&stale).await.expect_err("a stale token"), refused);
    balance.write(&new, "80").await.expect("the newest token");
    balance.write(&new, "70").await.expect("the newest token, once more");
    balance.check(&new).await.expect("the newest token");
    assert_eq!(balance.read(&new).await.expect("the newest token").as_deref(), Some(b"70".as_slice()));
    new.release().await.expect("a release");
    drop(stale);
    // A register that was only checked knows the token, too, and has no value.
    let elsewhere = client.fenced_value(world.name("elsewhere"));
    let (stale, new) = stale_and_new(&lock).await;
    elsewhere.check(&new).await.expect("the newest token");
    assert!(matches!(elsewhere.check(&stale).await, Err(Error::StaleToken { .. })));
    assert!(!world.exists(elsewhere.key()));
    drop((stale, new));
    idle(&client).await;
}

pub(crate) async fn the_same_token_of_another_holder_is_refused(world: World) {
    let client = world.client().await;
    let lock = client.fair_lock(world.name("account")).fenced();
    let balance = client.fenced_value(world.name("balance"));
    let guard = lock.acquire().await.expect("the lock");
    let (token, register) = (guard.fencing_token(), format!("leasehold:1:fence:{{{}}}", balance.key()));
    let words = ["HSET", &register, "token", &token.to_string(), "owner", "somebody:1", "write", "1"];
    assert!(!world.command(balance.key(), &words).is_error());
    let twice = Error::DuplicateToken { name: balance.key().to_owned(), token };
    assert_eq!(balance.read(&guard).await.expect_err("a token that was issued twice"), twice);
    assert_eq!(balance.write(&guard, "1").await.expect_err("a token that was issued twice"), twice);
    assert!(!world.exists(balance.key()));
    let _ = world.command(balance.key(), &["RPUSH", balance.key(), "value"]);
    assert!(matches!(balance.read(&guard).await, Err(Error::KeyConflict { .. })));
    world.delete(balance.key());
    let again = guard.reenter().await.expect("a re-entry");
    let other = client.fenced_value(world.name("other"));
    other.write(&guard, "1").await.expect("a new register");
    other.write(&again, "2").await.expect("a re-entry has the token of its hold");
    again.release().await.expect("a release");
    guard.release().await.expect("a release");
    idle(&client).await;
}

pub(crate) async fn a_lost_reply_to_a_write_writes_once(world: World) {
    let world = world.proxied();
    world.warm();
    let client = world.client().await;
    let guard = client.fenced_lock(world.name("account")).acquire().await.expect("the lock");
    let balance = client.fenced_value(world.name("balance"));
    world.lose_reply(&script::STORE_READ);
    assert_eq!(balance.read(&guard).await.expect("an answer to the second copy"), None);
    let log = world.record();
    world.lose_reply(&script::STORE_WRITE);
    balance.write(&guard, "1").await.expect("an answer to the second copy");
    balance.write(&guard, "2").await.expect("an answer");
    let first = world.sent(&log).into_iter().find(|sent| sent.script == script::STORE_WRITE.name()).expect("a write");
    let _ = world.replay(&log, &first);
    assert_eq!(balance.read(&guard).await.expect("an answer").as_deref(), Some(b"2".as_slice()), "not undone");
    guard.release().await.expect("a release");
}

/// The steps of a holder: it shows its token, and reads, or writes. `None` where it was refused.
fn transaction(database: &mut Connection, token: i64, owner: &str, write: Option<i64>) -> Option<i64> {
    let change = database.transaction_with_behavior(TransactionBehavior::Immediate).expect("a transaction");
    let admitted = change.execute(sql::SQLITE_ADMIT, ("account:7", token, owner)).expect("the statement");
    if admitted == 0 {
        return None;
    }
    assert_eq!(admitted, 1);
    if let Some(balance) = write {
        change.execute("UPDATE account SET balance = ?1", (balance,)).expect("an update");
    }
    let balance = change.query_row("SELECT balance FROM account", (), |row| row.get(0)).expect("a row");
    change.commit().expect("a commit");
    Some(balance)
}

fn tables(database: &Connection) {
    for statement in [
        "CREATE TABLE account (balance INTEGER NOT NULL)",
        "INSERT INTO account VALUES (0)",
        sql::CREATE_TABLE,
        sql::CREATE_TABLE,
    ] {
        database.execute(statement, ()).expect("a table");
    }
}

pub(crate) async fn sql_refuses_stale_tokens_on_read_and_write(world: World) {
    let client = world.client().await;
    let lock = client.fenced_lock(world.name("account"));
    let mut database = Connection::open_in_memory().expect("a database");
    tables(&database);
    let (stale, new) = stale_and_new(&lock).await;
    let mut run = |guard: &Guard<Fenced>, write| {
        transaction(&mut database, guard.fencing_token().as_i64(), guard.holder_id().as_str(), write)
    };
    assert_eq!(run(&stale, Some(100)), Some(100), "nobody else has shown a token");
    assert_eq!(run(&new, None), Some(100), "the first read registers");
    assert_eq!(run(&stale, Some(90)), None, "stale on write");
    assert_eq!(run(&stale, None), None, "stale on read");
    assert_eq!(run(&new, Some(80)), Some(80));
    let token = new.fencing_token().as_i64();
    assert_eq!(transaction(&mut database, token, "somebody:1", Some(0)), None, "the same token of another owner");
    assert_eq!(transaction(&mut database, token, new.holder_id().as_str(), None), Some(80));
    assert_eq!(transaction(&mut database, token + 1, "somebody:1", None), Some(80));
    assert_eq!(transaction(&mut database, token, new.holder_id().as_str(), None), None);
    drop((stale, new));
    idle(&client).await;
}

pub(crate) async fn sql_loses_no_update_to_holders_at_once(world: World) {
    drop(world);
    let path = std::env::temp_dir().join(format!("leasehold-fence-{}.sqlite", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let open = |path: &std::path::Path| {
        let database = Connection::open(path).expect("a database");
        database.busy_timeout(secs(20)).expect("a patience");
        database
    };
    tables(&open(&path));
    let (holders, start) = (8_i64, Arc::new(Barrier::new(8)));
    // Each believes that it holds, as after pauses beyond the lease. A holder that may write has overwritten nothing.
    let threads: Vec<_> = (1..=holders)
        .map(|token| {
            let (path, start) = (path.clone(), start.clone());
            std::thread::spawn(move || {
                let mut database = open(&path);
                start.wait();
                let owner = format!("holder:{token}");
                let Some(read) = transaction(&mut database, token, &owner, None) else { return 0 };
                std::thread::yield_now();
                transaction(&mut database, token, &owner, Some(read + 1)).map_or(0, |_| 1)
            })
        })
        .collect();
    let written: i64 = threads.into_iter().map(|thread| thread.join().expect("a thread")).sum();
    let balance = transaction(&mut open(&path), holders, "holder:8", None).expect("the greatest token");
    assert!(written >= 1, "the greatest token is never refused");
    assert_eq!(balance, written, "each write that was admitted counts");
    std::fs::remove_file(&path).expect("the database's file");
}
