-- Prelude: the names that fair scripts build: fields of the marks, and channels.
--
-- `fair` is a table with the lock's `channel`. An entry of the queue is `process:number`.

-- A field of the marks. `p:` heartbeat of a process, `a:` arrival, `w:` wait and score, `c:` second chance.
local function mark_of(sort, whose)
  return sort .. ':' .. whose
end

-- The channel that announces a waiter's turn. A native process has one channel for all its waiters; each JVM waiter has
-- its own.
local function channel_of(fair, listener)
  return fair.channel .. ':' .. listener
end

local function process_of(entry)
  return string.match(entry, '^(.*):') or entry
end
