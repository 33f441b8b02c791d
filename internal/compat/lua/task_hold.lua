-- Renews or ends the lease of a task. It also ends a lease whose caller has not asked for
-- idle_ms.
--
-- KEYS   task
-- ARGV   replica lease_ms idle_ms;
--        lease_ms: 0 = end
-- Reply  1 renewed, 0 ended, -1 another replica holds the task
-- Errors WRONGTYPE and OOM before any change
expect('HLEN', KEYS.task)
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
