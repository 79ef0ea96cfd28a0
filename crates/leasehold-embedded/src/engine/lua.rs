//! The Lua host: one Lua state per server, which compiles each script once.

use crate::engine::answer::Outcome;
use crate::engine::command;
use crate::engine::convert;
use crate::engine::keyspace::Keyspace;
use leasehold_core::link::ServerError;
use leasehold_core::reply::Reply;
use mlua::{Function, Lua, LuaOptions, LuaString, MultiValue, StdLib, Table, Value};
use parking_lot::Mutex;
use std::sync::Arc;

/// The chunk name in Redis, visible in error messages.
const CHUNK: &str = "@user_script";

/// Runs scripts over a keyspace.
pub(crate) struct Host {
    lua: Lua,
    /// The read-only globals of scripts.
    environment: Table,
    /// The table behind `env`, with `KEYS` and `ARGV`.
    globals: Table,
    xpcall: Function,
    on_error: Function,
}

/// A compiled script.
#[derive(Clone)]
pub(crate) struct Compiled(Function);

impl Host {
    pub(crate) fn new(keyspace: Arc<Mutex<Keyspace>>) -> mlua::Result<Self> {
        // Lua's own `pcall` is faster, and lets Rust panics pass.
        let options = LuaOptions::new().catch_rust_panics(false);
        let lua = Lua::new_with(StdLib::STRING | StdLib::TABLE | StdLib::MATH, options)?;
        let run = lua.create_function(move |lua, words: MultiValue| run_command(lua, &keyspace, &words))?;
        let as_error = lua.create_function(|lua, text: LuaString| error_reply(lua, &text.to_string_lossy()))?;
        let (environment, globals): (Table, Table) =
            lua.load(include_str!("sandbox.lua")).set_name("@sandbox").call((run, as_error))?;
        let xpcall = lua.globals().get("xpcall")?;
        let on_error = lua.create_function(located)?;
        Ok(Self { lua, environment, globals, xpcall, on_error })
    }

    /// Compiles a script.
    pub(crate) fn compile(&self, source: &str) -> Result<Compiled, ServerError> {
        self.lua
            .load(source)
            .set_name(CHUNK)
            .set_mode(mlua::chunk::ChunkMode::Text)
            .set_environment(self.environment.clone())
            .into_function()
            .map(Compiled)
            .map_err(|error| {
                let text = match error {
                    mlua::Error::SyntaxError { message, .. } => message,
                    other => other.to_string(),
                };
                ServerError::new(format!("ERR Error compiling script (new function): {text}"))
            })
    }

    /// Runs a compiled script in the current turn. Errors call the script `label`.
    pub(crate) fn run<'a>(
        &self,
        script: &Compiled,
        label: &str,
        keys: impl IntoIterator<Item = &'a [u8]>,
        args: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Reply, ServerError> {
        let (ok, value) = self
            .protected_call(script, keys, args)
            .map_err(|error| ServerError::new(format!("ERR the embedded engine failed: {error}")))?;
        if ok {
            return convert::to_reply(&value);
        }
        let Value::Table(error) = value else { return Err(ServerError::new("ERR unknown error")) };
        let text = error.raw_get::<String>("err").unwrap_or_else(|_| "ERR unknown error".into());
        Err(ServerError::new(match error.raw_get::<Option<usize>>("line") {
            Ok(Some(line)) => format!("{text} script: {label}, on {CHUNK}:{line}."),
            _ => text,
        }))
    }

    fn protected_call<'a>(
        &self,
        script: &Compiled,
        keys: impl IntoIterator<Item = &'a [u8]>,
        args: impl IntoIterator<Item = &'a [u8]>,
    ) -> mlua::Result<(bool, Value)> {
        self.globals.raw_set("KEYS", self.strings(keys)?)?;
        self.globals.raw_set("ARGV", self.strings(args)?)?;
        self.xpcall.call((&script.0, &self.on_error))
    }

    fn strings<'a>(&self, values: impl IntoIterator<Item = &'a [u8]>) -> mlua::Result<Table> {
        self.lua.create_sequence_from(values.into_iter().map(convert::text))
    }
}

/// Capacity that suffices for most commands.
const FEW_WORDS: usize = 8;

/// `redis.pcall`, the base of `redis.call`. Also returns whether the result is an error.
fn run_command(lua: &Lua, keyspace: &Mutex<Keyspace>, values: &MultiValue) -> mlua::Result<(Value, bool)> {
    let mut buffer = Vec::with_capacity(256);
    let (mut few, mut many) = ([0; FEW_WORDS], Vec::new());
    let ends = match few.get_mut(..values.len()) {
        Some(ends) => ends,
        None => {
            many.resize(values.len(), 0);
            &mut many[..]
        }
    };
    let outcome = convert::command_words(values, &mut buffer, ends).and_then(|()| run_words(keyspace, &buffer, ends));
    Ok(match outcome {
        Ok(answer) => (convert::to_lua(lua, answer)?, false),
        Err(error) => (convert::error_to_lua(lua, &error)?, true),
    })
}

/// Runs a command whose consecutive words are in `buffer` and end at `ends`.
fn run_words(keyspace: &Mutex<Keyspace>, buffer: &[u8], ends: &[usize]) -> Outcome {
    let mut start = 0;
    let words = ends.iter().map(|end| &buffer[std::mem::replace(&mut start, *end)..*end]);
    if ends.len() > FEW_WORDS {
        return command::run(&mut keyspace.lock(), &words.collect::<Vec<_>>());
    }
    let mut few: [&[u8]; FEW_WORDS] = [&[]; FEW_WORDS];
    few.iter_mut().zip(words).for_each(|(place, word)| *place = word);
    command::run(&mut keyspace.lock(), &few[..ends.len()])
}

/// `redis.error_reply`: drops a leading `-`, and adds the code `ERR` to a single word.
fn error_reply(lua: &Lua, text: &str) -> mlua::Result<Value> {
    let text = text.strip_prefix('-').unwrap_or(text).trim_end_matches(['\r', '\n']);
    let error = if text.contains(' ') { ServerError::new(text) } else { ServerError::new(format!("ERR {text}")) };
    convert::error_to_lua(lua, &error)
}

/// Returns the line and the reason of a script's error, as a table. An error from outside `redis.call` gets the code
/// `ERR`.
///
/// The line is missing if the script's last frame is gone, as in `return redis.call(…)`.
fn located(lua: &Lua, error: Value) -> mlua::Result<Table> {
    let text = match &error {
        Value::Table(table) => table.raw_get("err").unwrap_or_else(|_| "ERR unknown error".into()),
        Value::String(text) => format!("ERR {}", text.to_string_lossy()),
        other => format!("ERR {}", other.to_string()?),
    };
    let line = (0..16).find_map(|level| {
        lua.inspect_stack(level, |frame| {
            frame.source().source.is_some_and(|source| source == CHUNK).then(|| frame.current_line()).flatten()
        })
        .flatten()
    });
    let table = lua.create_table()?;
    table.raw_set("err", text)?;
    table.raw_set("line", line)?;
    Ok(table)
}
