//! Converts between Lua and server values, by the rules of Redis for `redis.call` and for script replies.

use crate::engine::answer::Answer;
use crate::engine::number::push_float;
use bytes::Bytes;
use leasehold_core::link::ServerError;
use leasehold_core::reply::Reply;
use mlua::{Either, IntoLua, Lua, MultiValue, Table, Value};

/// Maximum nesting of a reply. A table that contains itself exceeds it.
const MAX_DEPTH: usize = 64;

/// Converts a result to Lua: no value is `false`, a status is `{ok = …}`, an integer is a double.
pub(crate) fn to_lua(lua: &Lua, answer: Answer) -> mlua::Result<Value> {
    Ok(match answer {
        Answer::Nil => Value::Boolean(false),
        Answer::Int(value) => Value::Number(value as f64),
        Answer::Bulk(bytes) => Value::String(lua.create_string(&bytes)?),
        Answer::Status(text) => {
            let table = lua.create_table_with_capacity(0, 1)?;
            table.raw_set("ok", text)?;
            Value::Table(table)
        }
        Answer::Array(parts) => Value::Table(lua.create_sequence_from(parts.iter().map(part))?),
    })
}

/// An element of a result, for a table.
fn part(answer: &Answer) -> Either<Text<'_>, Answer> {
    match answer {
        Answer::Bulk(bytes) => Either::Left(text(bytes)),
        other => Either::Right(other.clone()),
    }
}

impl IntoLua for Answer {
    fn into_lua(self, lua: &Lua) -> mlua::Result<Value> {
        to_lua(lua, self)
    }
}

/// A string for a table. A UTF-8 string, the usual case, needs no Lua handle.
pub(crate) type Text<'a> = Either<&'a str, NotUtf8<'a>>;

/// See [`Text`].
pub(crate) struct NotUtf8<'a>(&'a [u8]);

pub(crate) fn text(bytes: &[u8]) -> Text<'_> {
    std::str::from_utf8(bytes).map_or(Either::Right(NotUtf8(bytes)), Either::Left)
}

impl IntoLua for NotUtf8<'_> {
    fn into_lua(self, lua: &Lua) -> mlua::Result<Value> {
        Ok(Value::String(lua.create_string(self.0)?))
    }
}

/// Converts an error to the table that `redis.pcall` returns.
pub(crate) fn error_to_lua(lua: &Lua, error: &ServerError) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set("err", error.text())?;
    table.into_lua(lua)
}

/// Writes the words of a command to `buffer`, and their ends to `ends`, which has the length of `values`.
pub(crate) fn command_words(values: &MultiValue, buffer: &mut Vec<u8>, ends: &mut [usize]) -> Result<(), ServerError> {
    for (value, end) in values.iter().zip(ends) {
        match value {
            Value::String(text) => buffer.extend_from_slice(&text.as_bytes()),
            // mlua passes a whole double as an integer; Redis formats it as a double.
            Value::Integer(number) => push_float(buffer, *number as f64),
            Value::Number(number) => push_float(buffer, *number),
            _ => return Err(ServerError::new("ERR Lua redis lib command arguments must be strings or integers")),
        }
        *end = buffer.len();
    }
    Ok(())
}

/// Converts a script's result to a reply. Numbers are truncated, `true` is 1, and `false` is no value. An array ends at
/// its first nil.
pub(crate) fn to_reply(value: &Value) -> Result<Reply, ServerError> {
    reply_at(value, MAX_DEPTH)
}

fn reply_at(value: &Value, depth: usize) -> Result<Reply, ServerError> {
    Ok(match value {
        Value::String(text) => Reply::Bulk(Bytes::copy_from_slice(&text.as_bytes())),
        Value::Integer(number) => Reply::Int(*number),
        Value::Number(number) => Reply::Int(truncated(*number)),
        Value::Boolean(true) => Reply::Int(1),
        Value::Table(table) => return table_reply(table, depth),
        _ => Reply::Nil,
    })
}

/// Returns the integer part, or the minimum integer on overflow, as a server on x86-64 does.
fn truncated(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) { number as i64 } else { i64::MIN }
}

fn table_reply(table: &Table, depth: usize) -> Result<Reply, ServerError> {
    if depth == 0 {
        return Err(ServerError::new("ERR reached lua stack limit"));
    }
    if let Value::String(text) = table.raw_get("err").map_err(broken)? {
        let text = text.to_string_lossy();
        // On a server, an error in an array is an element. No leasehold script returns such an array.
        return Err(ServerError::new(if depth == MAX_DEPTH {
            text
        } else {
            format!("ERR the embedded engine cannot put an error into an array: {text}")
        }));
    }
    if let Value::String(text) = table.raw_get("ok").map_err(broken)? {
        return Ok(Reply::Bulk(Bytes::copy_from_slice(&text.as_bytes())));
    }
    let mut parts = Vec::with_capacity(table.raw_len());
    loop {
        let part: Value = table.raw_get(parts.len() + 1).map_err(broken)?;
        if part.is_nil() {
            return Ok(Reply::Array(parts));
        }
        parts.push(reply_at(&part, depth - 1)?);
    }
}

fn broken(error: mlua::Error) -> ServerError {
    ServerError::new(format!("ERR the embedded engine failed: {error}"))
}
