-- Prelude: builds the names of fair scripts: fields of the marks, and channels.
--
-- `fair` is a table with the lock's `channel`. An entry of the queue is `process:number`.

-- Returns a field of the marks. `p:` heartbeat of a process, `a:` arrival, `w:` wait and score, `c:` second chance.
local function mark_of(sort, whose)
  return sort .. ':' .. whose
end

-- Returns the channel that announces a waiter's turn. A native process has one channel for all its waiters. Each JVM
-- waiter has its own channel.
local function channel_of(fair, listener)
  return fair.channel .. ':' .. listener
end

local function process_of(entry)
  return string.match(entry, '^(.*):') or entry
end
