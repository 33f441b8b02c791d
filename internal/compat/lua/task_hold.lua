-- Renews or ends the lease of a task. If the caller has not polled the task for idle_ms, the lease
-- always ends.
--
-- KEYS   task
-- ARGV   replica lease_ms idle_ms;
--        lease_ms: new length of the lease, 0 = end the lease
-- Reply  1 the lease was renewed, 0 the lease was ended, -1 another replica holds the task
-- Errors OOM before any change
local now = now_ms()
if redis.call('HGET', KEYS.task, 'holder') ~= ARGV.replica then
  return -1
end
local asked = tonumber(redis.call('HGET', KEYS.task, 'asked'))
if ARGV.lease_ms == '0' or now - asked >= tonumber(ARGV.idle_ms) then
  redis.call('HSET', KEYS.task, 'holder', '')
  return 0
end
redis.call('HSET', KEYS.task, 'lease', ms(now + tonumber(ARGV.lease_ms)))
return 1
