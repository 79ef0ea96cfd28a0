//! Fencing in an SQL database: a table and the statements that check a token. Every driver can run them; this module connects to no
//! database.
//!
//! # The recipe
//!
//! 1. Create the table once: [`CREATE_TABLE`], or [`MYSQL_CREATE_TABLE`].
//! 2. Begin a transaction. Its **first** statement is [`ADMIT`] (PostgreSQL), [`SQLITE_ADMIT`] or [`MYSQL_ADMIT`], with three parameters:
//!    the name of the guarded resource, [`Guard::fencing_token`](crate::Guard::fencing_token) converted by
//!    [`as_i64`](super::FencingToken::as_i64), and [`Guard::holder_id`](crate::Guard::holder_id). It registers the token, and locks its row
//!    until the transaction ends.
//! 3. On PostgreSQL and SQLite the statement changes **one row** if it admits the token, and **no row** otherwise. MySQL counts changed rows
//!    differently: run [`MYSQL_IS_ADMITTED`] with the same parameters, which returns 1 or 0. A holder whose token is not admitted is
//!    stale: roll back, and stop the work.
//! 4. Read and write the guarded data, and commit.
//!
//! Every transaction under the hold follows these steps, **the first read as well as every write**; see [`fence`](super) for the reason. A
//! transaction that only reads must also commit, because the registration stops older holders from writing.
//!
//! The statement locks the row. Transactions on one name therefore run in sequence, and no stale holder can write between the check
//! and the commit. This holds at `READ COMMITTED` and above on PostgreSQL (at `REPEATABLE READ` the loser of a race gets a serialization
//! failure and repeats its transaction), and at every level on MySQL (InnoDB). On SQLite begin the transaction with `BEGIN IMMEDIATE`.
//!
//! The statements for SQLite are tested on a real SQLite, with every rule of this page. The statements for PostgreSQL differ only in the
//! names of their parameters. The statements for MySQL follow its manual and are not tested.
//!
//! # Examples
//!
//! With a driver such as `rusqlite`:
//!
//! ```ignore
//! let change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
//! let admitted = change.execute(sql::SQLITE_ADMIT, ("account:7", guard.fencing_token().as_i64(), guard.holder_id().as_str()))?;
//! if admitted == 0 {
//!     return Err(Stale); // the drop rolls back
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
//!     return Err(Stale); // the drop rolls back
//! }
//! ```

/// Creates the register of fencing tokens on PostgreSQL and SQLite. A row stores the greatest token of one guarded resource, and the holder
/// that showed it. Never delete a row: without it, the register admits stale tokens.
pub const CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS leasehold_fence (
    name TEXT NOT NULL PRIMARY KEY,
    token BIGINT NOT NULL,
    owner TEXT NOT NULL
)";

/// Admits a token on PostgreSQL, or changes no row. Parameters: name, token, owner.
pub const ADMIT: &str = "INSERT INTO leasehold_fence (name, token, owner) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET token = excluded.token, owner = excluded.owner
WHERE leasehold_fence.token < excluded.token
   OR (leasehold_fence.token = excluded.token AND leasehold_fence.owner = excluded.owner)";

/// Admits a token on SQLite (3.24 and later), or changes no row. Parameters: name, token, owner.
pub const SQLITE_ADMIT: &str = "INSERT INTO leasehold_fence (name, token, owner) VALUES (?1, ?2, ?3)
ON CONFLICT (name) DO UPDATE SET token = excluded.token, owner = excluded.owner
WHERE leasehold_fence.token < excluded.token
   OR (leasehold_fence.token = excluded.token AND leasehold_fence.owner = excluded.owner)";

/// Creates the register on MySQL, whose keys need a length, and whose default comparison ignores case. See [`CREATE_TABLE`].
pub const MYSQL_CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS leasehold_fence (
    name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
    token BIGINT NOT NULL,
    owner VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL
) ENGINE = InnoDB";

/// Registers an admissible token on MySQL (8.0.19 and later). Parameters: name, token, owner. [`MYSQL_IS_ADMITTED`] returns the result. The
/// owner is assigned before the token, because MySQL assigns from left to right.
pub const MYSQL_ADMIT: &str = "INSERT INTO leasehold_fence (name, token, owner) VALUES (?, ?, ?) AS shown
ON DUPLICATE KEY UPDATE
    owner = IF(leasehold_fence.token < shown.token, shown.owner, leasehold_fence.owner),
    token = GREATEST(leasehold_fence.token, shown.token)";

/// Returns 1 if MySQL has admitted the token, otherwise 0. Run it right after [`MYSQL_ADMIT`] in the same transaction. Parameters: name,
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
