-- Renews the lease of a task, or lets go of it, also if its caller has not asked for idle_ms.
--
-- KEYS   task
-- ARGV   replica lease_ms idle_ms; lease_ms: 0 = let go
-- Reply  1 the replica holds it, 0 it let go, -1 it did not hold it
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
