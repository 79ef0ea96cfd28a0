-- Acquires permits from a counter. The counter stores no holders, so each hold writes a record. A duplicate finds the
-- record and changes nothing.
--
-- KEYS[1]  semaphore  [string]   the number of available permits, in decimal; absent means 0
-- KEYS[2]  record     [string]   the total change by the hold: minus its permits while it holds them, 0 after their release
-- ARGV[1]  count      [integer]  the hold count after success, at least 1; only 1 may take permits
-- ARGV[2]  permits    [integer]  the number of permits, at least 1
-- ARGV[3]  not_after  [integer]  server time in milliseconds after which no permit is granted; 0 sets no limit and requests the
--                                server's time; -1 sets no limit and does not read the clock
-- ARGV[4]  memory     [integer]  the lifetime of the record in milliseconds
-- returns  [array]    {1, left, time}  granted: the hold has the permits
--                     {2, left, time}  held: the hold had the permits before (a duplicate of a successful command)
--                     {0, left, time}  busy: too few permits are available; left is -1, because no expiry is known, or -2
--                                      if the semaphore is missing
--                     {-2, 0, time}    lost: a count above 1 for a hold without a record
--                     {-3, 0, time}    too late: the command arrived after not_after
--                     {-4, kind}       the key is of another kind, named by kind
--                     {-7, 0, time}    withdrawn: the hold returned its permits, or gave up, before
-- where    left is ten years, because the hold has no lease; time is the server's time in milliseconds, or 0 if not
--          read
-- example  KEYS seats leasehold:1:op:{seats}:6f0c…:7  ARGV 1 2 -1 600000  returns {1, 315360000000, 0}

local semaphore_key, record_key = KEYS[1], KEYS[2]
local count, permits = tonumber(ARGV[1]), tonumber(ARGV[2])
local not_after, memory = tonumber(ARGV[3]), tonumber(ARGV[4])

local value = short_text(semaphore_key)
if type(value) == 'table' then
  return refuse_kind(value, semaphore_key)
end
if value and not whole(value) then
  return {-4, 'string that is no number'}
end

local time = 0
if not_after >= 0 then
  time = server_time()
end

local record = short_text(record_key)
if type(record) == 'table' then
  return record
end
if record == '0' then
  if not_after > 0 and redis.call('PTTL', record_key) <= not_after - time then
    -- The record of an earlier attempt may expire while duplicates of this attempt are still valid.
    redis.call('PEXPIRE', record_key, not_after - time + 1)
  end
  return {-7, 0, time}
elseif record then
  return {2, 315360000000, time}
elseif count > 1 then
  return {-2, 0, time}
elseif not_after > 0 and time > not_after then
  return {-3, 0, time}
elseif whole(value or '0') < permits then
  if not_after > 0 then
    -- The caller has abandoned this attempt, so a duplicate before not_after must acquire nothing.
    redis.call('SET', record_key, 0, 'PX', not_after - time + 1)
  end
  return {0, value and -1 or -2, time}
end

local left = change_once(semaphore_key, record_key, -permits, memory)
if type(left) == 'table' then
  return left
end
return {1, 315360000000, time}
