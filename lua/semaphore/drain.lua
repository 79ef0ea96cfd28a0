-- Takes all available permits outside any hold. Keeps the semaphore's time to live.
--
-- KEYS[1]  semaphore  [string]   the number of available permits, in decimal; absent means 0
-- KEYS[2]  record     [string]   minus the number of drained permits, if an earlier copy of this operation succeeded
-- ARGV[1]  memory     [integer]  the lifetime of the record in milliseconds
-- returns  [array]    {1, drained}  done
--                     {2, drained}  done before (a duplicate of a successful command)
--                     {-4, kind}    the key is of another kind, named by kind
-- where    drained is the number of permits taken, 0 without available permits
-- example  KEYS seats leasehold:1:op:{seats}:6f0c…:7  ARGV 600000  returns {1, 10}

local semaphore_key, record_key = KEYS[1], KEYS[2]
local memory = tonumber(ARGV[1])

local value = short_text(semaphore_key)
if type(value) == 'table' then
  return refuse_kind(value, semaphore_key)
end
if value and not whole(value) then
  return {-4, 'string that is no number'}
end
local record = short_text(record_key)
if type(record) == 'table' then
  return record
end
if record then
  return {2, -tonumber(record)}
end
local drained = math.max(0, whole(value or '0'))
if drained > 0 then
  local changed = change_once(semaphore_key, record_key, -drained, memory)
  if type(changed) == 'table' then
    return changed
  end
end
return {1, drained}
