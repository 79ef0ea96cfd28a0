-- Prelude: permits have ids of sixteen bytes each, which travel as one text. Finds those that are held and have not expired.
-- Returns them, all ids, and the lowest deadline of those that are held.

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
