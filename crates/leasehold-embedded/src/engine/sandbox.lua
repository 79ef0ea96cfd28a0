-- Builds the globals of scripts: the globals of Redis 7, without names that leasehold's scripts must not use. Using a
-- missing name (os, io, load, rawset, math.random, cjson ...) fails.
--
-- takes    run: a function of command words that returns a reply and false, or a table with the field `err` and true
--          as_error: a function of a text that returns a table with the field `err`
-- returns  the environment of scripts, and the table behind it for KEYS and ARGV

local run, as_error = ...
local error, pcall, rawget, type, setmetatable, tostring, pairs = error, pcall, rawget, type, setmetatable, tostring, pairs

local function refuse_write()
  error('Attempt to modify a readonly table', 2)
end

local function readonly(contents)
  return setmetatable({}, {__index = contents, __newindex = refuse_write, __metatable = false})
end

local function copy(library, without)
  local contents = {}
  for name, value in pairs(library) do
    if not without[name] then
      contents[name] = value
    end
  end
  return readonly(contents)
end

-- An error of redis.call is a table, but pcall returns its text.
local function texted(ok, failure, ...)
  if not ok and type(failure) == 'table' and type(rawget(failure, 'err')) == 'string' then
    return false, failure.err
  end
  return ok, failure, ...
end

local redis = {
  call = function(...)
    local reply, failed = run(...)
    if failed then
      error(reply)
    end
    return reply
  end,
  pcall = function(...)
    local reply = run(...)
    return reply
  end,
  error_reply = function(text)
    if type(text) ~= 'string' then
      return as_error('ERR wrong number or type of arguments')
    end
    return as_error(text)
  end,
  status_reply = function(text)
    if type(text) ~= 'string' then
      return as_error('ERR wrong number or type of arguments')
    end
    return {ok = text}
  end,
}

local globals = {
  redis = readonly(redis),
  string = copy(string, {dump = true}),
  table = copy(table, {}),
  math = copy(math, {random = true, randomseed = true}),
  pcall = function(...)
    return texted(pcall(...))
  end,
  _VERSION = _VERSION,
}
for _, name in pairs({
  'assert', 'error', 'ipairs', 'next', 'pairs', 'rawequal', 'rawget', 'select', 'setmetatable', 'tonumber',
  'tostring', 'type', 'unpack', 'xpcall',
}) do
  globals[name] = _G[name]
end

setmetatable(globals, {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
})

return readonly(globals), globals
