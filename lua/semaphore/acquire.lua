-- Takes permits from a counter. The counter does not know who took them, so the hold leaves a record, by which a copy of the command is
-- known: it changes nothing.
--
-- KEYS[1]  semaphore  [string]   the number of available permits, in decimal; absent is 0
-- KEYS[2]  record     [string]   what the hold has changed in all: minus its permits while it has them, 0 when they were given back
-- ARGV[1]  count      [integer]  the hold count after success, at least 1; only 1 may take permits
-- ARGV[2]  permits    [integer]  how many to take, at least 1
-- ARGV[3]  not_after  [integer]  server time in milliseconds after which nothing is taken; 0 sets no limit and asks for the
--                                server's time; -1 sets no limit and spares the reading of the clock
-- ARGV[4]  memory     [integer]  milliseconds for which the record is kept
-- returns  [array]    {1, left, time}  granted: the permits were taken
--                     {2, left, time}  held: they were taken before (a copy of a command that succeeded)
--                     {0, left, time}  busy: fewer permits are available; left is -1, for nothing tells when there will be more, or -2
--                                      where there is no such semaphore
--                     {-2, 0, time}    lost: a count above 1 of a hold without a record
--                     {-3, 0, time}    too late: the command arrived after not_after
--                     {-4, kind}       the key is of another kind, named by kind
--                     {-7, 0, time}    withdrawn: the hold gave its permits back, or gave up, before
-- where    left is ten years, because such a hold has no lease; time is the server's time in milliseconds, or 0 where it was not
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
    -- The record of an earlier attempt may end before copies of this one are too late.
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
    -- Nobody waits for this attempt any more: a copy of it that comes before not_after takes nothing either.
    redis.call('SET', record_key, 0, 'PX', not_after - time + 1)
  end
  return {0, value and -1 or -2, time}
end

local left = change_once(semaphore_key, record_key, -permits, memory)
if type(left) == 'table' then
  return left
end
return {1, 315360000000, time}
