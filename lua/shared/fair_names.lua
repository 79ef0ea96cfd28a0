-- Prelude: the names that fair scripts put together: fields of the marks, and channels.
--
-- `fair` is a table with the lock's `channel`. An entry of the queue is `process:number`.

-- The name of a field of the marks: `p:` heartbeat of a process, `a:` arrival, `w:` wait and score, `c:` second chance.
local function mark_of(sort, whose)
  return sort .. ':' .. whose
end

-- The channel on which a waiter is told of its turn: a process of ours has one for all its waiters, a JVM's waiter has its own.
local function channel_of(fair, listener)
  return fair.channel .. ':' .. listener
end

local function process_of(entry)
  return string.match(entry, '^(.*):') or entry
end
