//! The check of a fencing token in an SQL database: a table, and the statements to use. Nothing here talks to a database; every driver
//! can run them.
//!
//! # The recipe
//!
//! 1. Make the table once: [`CREATE_TABLE`], or [`MYSQL_CREATE_TABLE`].
//! 2. Begin a transaction. Its **first** statement is [`ADMIT`] (PostgreSQL), [`SQLITE_ADMIT`] or [`MYSQL_ADMIT`], with three parameters:
//!    the name of what is guarded, [`Guard::fencing_token`](crate::Guard::fencing_token) as
//!    [`as_i64`](super::FencingToken::as_i64) has it, and
//!    [`Guard::holder_id`](crate::Guard::holder_id). It registers the token, and locks its row until the transaction ends.
//! 3. On PostgreSQL and SQLite the statement has changed **one row** where the token was admitted and **none** where it was not. On MySQL,
//!    which counts otherwise, run [`MYSQL_IS_ADMITTED`] with the same parameters: it answers 1 or 0. A holder that was not admitted is
//!    stale: roll back, and give the work up.
//! 4. Read and write what is guarded, and commit.
//!
//! Every transaction of the hold does this, **the first read as well as every write**; see [`fence`](super) for why. A transaction that
//! only reads must commit, too, because the registration is what keeps older holders from writing.
//!
//! The statement takes the lock of the row, so transactions on one name come one after the other, and a stale holder cannot slip in
//! between check and commit. That holds at `READ COMMITTED` and above on PostgreSQL (at `REPEATABLE READ` the loser of a race gets a
//! serialization failure and repeats its transaction), at every level on MySQL (InnoDB), and on SQLite, where the transaction should be
//! begun with `BEGIN IMMEDIATE`.
//!
//! The statements for SQLite are tested on a real SQLite, with every rule of this page. Those for PostgreSQL differ in the names of their
//! parameters alone. Those for MySQL are written after its manual and are not tested.
//!
//! # Examples
//!
//! With a driver such as `rusqlite`:
//!
//! ```ignore
//! let change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
//! let admitted = change.execute(sql::SQLITE_ADMIT, ("account:7", guard.fencing_token().as_i64(), guard.holder_id().as_str()))?;
//! if admitted == 0 {
//!     return Err(Stale); // dropping the transaction rolls back
//! }
//! let balance: i64 = change.query_row("SELECT balance FROM account WHERE id = 7", (), |row| row.get(0))?;
//! change.execute("UPDATE account SET balance = ?1 WHERE id = 7", (balance - 10,))?;
//! change.commit()?;
//! ```
//!
//! With `sqlx`, on PostgreSQL:
//!
//! ```ignore
//! let mut change = pool.begin().await?;
//! let shown = sqlx::query(sql::ADMIT).bind("account:7").bind(guard.fencing_token().as_i64()).bind(guard.holder_id().into_string());
//! if shown.execute(&mut *change).await?.rows_affected() == 0 {
//!     return Err(Stale); // dropping the transaction rolls back
//! }
//! ```

/// The register of fencing tokens, for PostgreSQL and SQLite. One row is one thing that is guarded: the greatest token that was shown, and
/// who showed it. Rows are never deleted: a register that has forgotten its token admits stale ones.
pub const CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS leasehold_fence (
    name TEXT NOT NULL PRIMARY KEY,
    token BIGINT NOT NULL,
    owner TEXT NOT NULL
)";

/// Admits a token, or changes no row, on PostgreSQL. Parameters: name, token, owner.
pub const ADMIT: &str = "INSERT INTO leasehold_fence (name, token, owner) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET token = excluded.token, owner = excluded.owner
WHERE leasehold_fence.token < excluded.token
   OR (leasehold_fence.token = excluded.token AND leasehold_fence.owner = excluded.owner)";

/// Admits a token, or changes no row, on SQLite (3.24 and later). Parameters: name, token, owner.
pub const SQLITE_ADMIT: &str = "INSERT INTO leasehold_fence (name, token, owner) VALUES (?1, ?2, ?3)
ON CONFLICT (name) DO UPDATE SET token = excluded.token, owner = excluded.owner
WHERE leasehold_fence.token < excluded.token
   OR (leasehold_fence.token = excluded.token AND leasehold_fence.owner = excluded.owner)";

/// [`CREATE_TABLE`] for MySQL, whose keys need a length, and compare without regard to case unless told otherwise.
pub const MYSQL_CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS leasehold_fence (
    name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
    token BIGINT NOT NULL,
    owner VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL
) ENGINE = InnoDB";

/// Registers a token where it is admitted, on MySQL (8.0.19 and later). Parameters: name, token, owner. [`MYSQL_IS_ADMITTED`] tells whether
/// it was. The owner is assigned before the token, because MySQL assigns from left to right.
pub const MYSQL_ADMIT: &str = "INSERT INTO leasehold_fence (name, token, owner) VALUES (?, ?, ?) AS shown
ON DUPLICATE KEY UPDATE
    owner = IF(leasehold_fence.token < shown.token, shown.owner, leasehold_fence.owner),
    token = GREATEST(leasehold_fence.token, shown.token)";

/// Whether the token is the registered one, on MySQL, right after [`MYSQL_ADMIT`] in the same transaction: 1 or 0. Parameters: name,
/// token, owner.
pub const MYSQL_IS_ADMITTED: &str =
    "SELECT COUNT(*) FROM leasehold_fence WHERE name = ? AND token = ? AND owner = ? FOR UPDATE";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_dialects_are_one_statement() {
        assert_eq!(ADMIT.replace('$', "?"), SQLITE_ADMIT);
    }
}
