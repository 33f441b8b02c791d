-- Records that a caller polls a task at a replica, and reads the task. If the task is unfinished
-- and no live replica holds it, this replica becomes the holder.
--
-- KEYS   task
-- ARGV   caller replica lease_ms;
--        lease_ms: length of the lease, 0 = only read the task
-- Reply  {identity type guest made left_ms order failed held asked}; empty if this caller has no such
--        task;
--        made: Unix ms
--        left_ms: life of the task
--        order: the order of the task's token, '' = none
--        failed: how the task failed
--        held: 1 = this replica holds the task
--        asked: how often the caller has polled since the task got its token
-- Errors OOM before any change
local t = pairs_of(redis.call('HGETALL', KEYS.task))
if t.caller ~= ARGV.caller then
  return {}
end
local now, lease = now_ms(), tonumber(ARGV.lease_ms)
local order, failed, polls = t.order or '', t.failed or '', tonumber(t.told or 0)
local mine = false
if lease > 0 and failed == '' then
  if order ~= '' then
    polls = redis.call('HINCRBY', KEYS.task, 'told', 1)
  else
    redis.call('HSET', KEYS.task, 'asked', ms(now))
    mine = t.holder == '' or t.holder == ARGV.replica or tonumber(t.lease) <= now or tonumber(t.lease) > now + lease + clocks
    if mine then
      redis.call('HSET', KEYS.task, 'holder', ARGV.replica, 'lease', ms(now + lease))
    end
  end
end
return {t.identity, t.type, t.guest, tonumber(t.made), redis.call('PTTL', KEYS.task), order, failed, mine and 1 or 0, polls}
