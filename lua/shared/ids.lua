-- Prelude: finds the held, unexpired permits of a hold. The ids have sixteen bytes each and arrive as one string.
-- Returns the held ids, all ids, and the lowest deadline of the held ids.

local function find_held(key, ids, time)
  local all, held, lowest = {}, {}, nil
  for i = 1, #ids, 16 do
    local id = string.sub(ids, i, i + 15)
    all[#all + 1] = id
    local deadline = redis.call('ZSCORE', key, id)
    if deadline and tonumber(deadline) > time then
      held[#held + 1] = id
      lowest = math.min(lowest or tonumber(deadline), tonumber(deadline))
    end
  end
  return held, all, lowest
end
