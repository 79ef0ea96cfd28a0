//! The store that is the witness: accounts and articles in an SQL database of the run's own process, which no fault touches.
//!
//! Data that is read and written there under a fenced lock is guarded as [`leasehold::fence::sql`] says. A group of accounts can also be
//! left unguarded, or be guarded at writes alone: that is what the workloads do that must fail. Every change names the version that its
//! writer has read, which the store does not look at before it accepts the change, but counts: who writes over what he has not read has
//! lost an update.

use leasehold::fence::sql;
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};
use std::fmt;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

/// How a group of accounts is guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fence {
    /// The token is shown at the first read and at every write.
    Full,
    /// The token is shown at writes alone.
    WritesAlone,
    /// No token is shown.
    Absent,
}

impl Fence {
    pub(crate) const ALL: [(Self, &str); 3] =
        [(Self::Full, "fenced"), (Self::WritesAlone, "writes-alone"), (Self::Absent, "unfenced")];

    pub(crate) fn word(self) -> &'static str {
        Self::ALL.iter().find(|(fence, _)| *fence == self).map_or("", |(_, word)| word)
    }

    pub(crate) fn named(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == word).map(|(fence, _)| *fence)
    }
}

/// The store's knowledge of one group.
#[derive(Clone, Debug)]
pub(crate) struct Totals {
    pub(crate) group: String,
    /// The sum of its accounts.
    pub(crate) sum: i64,
    /// The least of its accounts.
    pub(crate) least: i64,
    /// How many changes were accepted.
    pub(crate) commits: u64,
    /// The number of those that were made without having read the version before.
    pub(crate) stale: u64,
    /// How many requests were refused because of their token.
    pub(crate) refused: u64,
    /// How many units came in.
    pub(crate) stocked: i64,
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, sum, least, commits, stale, stocked, .. } = self;
        write!(f, "{group}: {sum} of {stocked}, least {least}, {commits} changes, {stale} of them stale")
    }
}

/// The database, and its listener on loopback.
pub(crate) struct Store {
    database: Arc<Mutex<Connection>>,
    addr: SocketAddr,
}

const TABLES: &str = "
    CREATE TABLE account (grp TEXT NOT NULL, slot INTEGER NOT NULL, value INTEGER NOT NULL, PRIMARY KEY (grp, slot));
    CREATE TABLE state (grp TEXT NOT NULL PRIMARY KEY, version INTEGER NOT NULL DEFAULT 0, commits INTEGER NOT NULL DEFAULT 0,
        stale INTEGER NOT NULL DEFAULT 0, refused INTEGER NOT NULL DEFAULT 0, stocked INTEGER NOT NULL DEFAULT 0);";

impl Store {
    pub(crate) fn open() -> Self {
        let database = Connection::open_in_memory().expect("a database in memory");
        database.execute_batch(TABLES).expect("the tables of the store");
        database.execute_batch(sql::CREATE_TABLE).expect("the table of the register");
        let database = Arc::new(Mutex::new(database));
        let addr = listen(Ipv4Addr::LOCALHOST, &database);
        Self { database, addr }
    }

    /// Listens on another address of this machine, too.
    pub(crate) fn listen(&self, ip: Ipv4Addr) -> SocketAddr {
        listen(ip, &self.database)
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Makes a group of accounts, each of which has this value.
    pub(crate) fn add(&self, group: &str, accounts: u32, value: i64) {
        let database = self.lock();
        let stocked = i64::from(accounts) * value;
        let made = database.execute("INSERT INTO state (grp, stocked) VALUES (?1, ?2)", params![group, stocked]);
        made.expect("a group that is new");
        for slot in 0..accounts {
            let made = database.execute("INSERT INTO account VALUES (?1, ?2, ?3)", params![group, slot, value]);
            made.expect("an account that is new");
        }
    }

    /// The totals of the groups whose names begin so.
    pub(crate) fn totals(&self, prefix: &str) -> Vec<Totals> {
        let database = self.lock();
        let mut all = database
            .prepare(
                "SELECT grp, SUM(value), MIN(value), commits, stale, refused, stocked FROM state JOIN account USING (grp)
                 WHERE substr(grp, 1, length(?1)) = ?1 GROUP BY grp ORDER BY grp",
            )
            .expect("a statement");
        let rows = all.query_map([prefix], |row| {
            Ok(Totals {
                group: row.get(0)?,
                sum: row.get(1)?,
                least: row.get(2)?,
                commits: row.get::<_, u32>(3)?.into(),
                stale: row.get::<_, u32>(4)?.into(),
                refused: row.get::<_, u32>(5)?.into(),
                stocked: row.get(6)?,
            })
        });
        rows.expect("totals").map(|row| row.expect("totals")).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.database.lock().expect("no request panics")
    }
}

fn listen(ip: Ipv4Addr, database: &Arc<Mutex<Connection>>) -> SocketAddr {
    let listener = TcpListener::bind((ip, 0)).expect("a port for the store");
    let addr = listener.local_addr().expect("its address");
    let database = database.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let database = database.clone();
            std::thread::spawn(move || serve(&stream, &database));
        }
    });
    addr
}

/// Answers one client, line by line, until it goes away.
fn serve(stream: &TcpStream, database: &Mutex<Connection>) {
    let _ = stream.set_nodelay(true);
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let mut database = database.lock().expect("no request panics");
        let answer = answer(&mut database, &line).unwrap_or_else(|| panic!("the store was asked {line:?}"));
        drop(database);
        if (&mut &*stream).write_all((answer + "\n").as_bytes()).is_err() {
            return;
        }
    }
}

/// `read fence group token owner` is answered by `ok version value…`; `write fence group token owner version stocked slot=value…` by `ok`;
/// and either by `stale`. `None` for what is neither.
fn answer(database: &mut Connection, line: &str) -> Option<String> {
    let mut words = line.split(' ');
    let (verb, fence, group) = (words.next()?, Fence::named(words.next()?)?, words.next()?);
    let (token, owner): (i64, &str) = (words.next()?.parse().ok()?, words.next()?);
    let change = database.transaction_with_behavior(TransactionBehavior::Immediate).ok()?;
    let shown = match fence {
        Fence::Full => true,
        Fence::WritesAlone => verb == "write",
        Fence::Absent => false,
    };
    if shown && change.execute(sql::SQLITE_ADMIT, params![group, token, owner]).ok()? == 0 {
        change.execute("UPDATE state SET refused = refused + 1 WHERE grp = ?1", [group]).ok()?;
        change.commit().ok()?;
        return Some("stale".to_owned());
    }
    let version = change.query_row("SELECT version FROM state WHERE grp = ?1", [group], |row| row.get(0));
    let version: i64 = version.optional().ok()??;
    let answer = match verb {
        "read" => {
            let mut values = change.prepare("SELECT value FROM account WHERE grp = ?1 ORDER BY slot").ok()?;
            let values = values.query_map([group], |row| row.get::<_, i64>(0)).ok()?;
            values.map_while(Result::ok).fold(format!("ok {version}"), |line, value| format!("{line} {value}"))
        }
        "write" => {
            let (read, stocked): (i64, i64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            for word in words {
                let (slot, value) = word.split_once('=')?;
                let (slot, value): (i64, i64) = (slot.parse().ok()?, value.parse().ok()?);
                let write = "UPDATE account SET value = ?3 WHERE grp = ?1 AND slot = ?2";
                change.execute(write, params![group, slot, value]).ok()?;
            }
            let count = "UPDATE state SET version = version + 1, commits = commits + 1, stale = stale + ?2, \
                         stocked = stocked + ?3 WHERE grp = ?1";
            change.execute(count, params![group, i64::from(read != version), stocked]).ok()?;
            "ok".to_owned()
        }
        _ => return None,
    };
    change.commit().ok()?;
    Some(answer)
}
