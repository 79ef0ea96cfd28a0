-- Prelude: the entries of a fair queue, and what is known of each.
--
-- `fair` is the table that each fair script makes of its keys: `lock`, `queue`, `deadlines`, `channel` and `marks`, the
-- command `publish`, and the time `now`; `open_fair` adds the rest. An entry is `process:number`. Its process is
-- native where the marks have a heartbeat of it, and foreign (a JVM) where they have none.

-- When the process of an entry last gave a sign of life, or false where it never did. A process is read once in a script,
-- however many entries it has.
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

-- Whether the entry is of a process of ours that was heard of within the window.
local function is_alive(fair, entry)
  local beat = beat_of(fair, process_of(entry))
  return beat and fair.now - beat <= fair.window
end

-- A waiter that has left the middle of the queue keeps its list entry, because finding that is slow, and gets a score that
-- no real deadline has.
local function is_tombstone(score)
  return score < 1000000000000
end

local function score_of(fair, entry)
  return tonumber(redis.call('ZSCORE', fair.deadlines, entry))
end

-- Whether a queue is too long to read as a whole, because a script blocks all other clients.
local function is_long(fair)
  return math.max(fair.length, fair.scores) > 10000
end

-- Milliseconds that the holder's lease may still last; 0 where nobody holds the lock, or for ever.
local function held_for(fair)
  return math.max(fair.left, 0)
end

-- The pairs of a flat reply, as a table.
local function paired(reply)
  local pairs_of = {}
  for i = 1, #reply, 2 do
    pairs_of[reply[i]] = reply[i + 1]
  end
  return pairs_of
end
