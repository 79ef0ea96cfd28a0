-- Prelude: the entries of a fair queue and their state.
--
-- Each fair script builds the table `fair` from its keys: `lock`, `queue`, `deadlines`, `channel`, `marks`, the command
-- `publish` and the time `now`. `open_fair` adds the rest. An entry is `process:number`. A process with a heartbeat in
-- the marks is native. Any other process is foreign: a JVM.

-- Returns the last heartbeat of the entry's process, or false. Caches it, so a script reads each process once.
local function beat_of(fair, process)
  local beat = fair.beats[process]
  if beat == nil then
    beat = tonumber(redis.call('HGET', fair.marks, mark_of('p', process))) or false
    fair.beats[process] = beat
  end
  return beat
end

local function is_foreign(fair, entry)
  return not beat_of(fair, process_of(entry))
end

-- Returns whether the entry belongs to a native process with a heartbeat within the window.
local function is_alive(fair, entry)
  local beat = beat_of(fair, process_of(entry))
  return beat and fair.now - beat <= fair.window
end

-- A waiter that leaves the middle of the queue keeps its list entry, because searching the list is slow. The tombstone
-- has a score below any real deadline.
local function is_tombstone(score)
  return score < 1000000000000
end

local function score_of(fair, entry)
  return tonumber(redis.call('ZSCORE', fair.deadlines, entry))
end

-- Reading a longer queue would block all other clients.
local function is_long(fair)
  return math.max(fair.length, fair.scores) > 10000
end

-- Returns the remaining lease in milliseconds, or 0 for a free lock or a lock without expiry.
local function held_for(fair)
  return math.max(fair.left, 0)
end

-- Converts a flat reply of pairs to a table.
local function paired(reply)
  local pairs_of = {}
  for i = 1, #reply, 2 do
    pairs_of[reply[i]] = reply[i + 1]
  end
  return pairs_of
end
