-- Creates a task of the compatible endpoints.
--
-- KEYS   task
-- ARGV   caller identity type guest holder lease_ms life_ms;
--        guest: 1 = no target has the identity
--        holder: a replica, '' = none
--        life_ms: of the task
-- Reply  1, or 0 if the number is in use
-- Errors WRONGTYPE and OOM before any change
expect('HLEN', KEYS.task)
if redis.call('EXISTS', KEYS.task) == 1 then
  return 0
end
local now = now_ms()
redis.call('HSET', KEYS.task, 'caller', ARGV.caller, 'identity', ARGV.identity, 'type', ARGV.type, 'guest', ARGV.guest,
  'made', ms(now), 'asked', ms(now), 'holder', ARGV.holder, 'lease', ms(ARGV.holder == '' and 0 or now + tonumber(ARGV.lease_ms)))
redis.call('PEXPIRE', KEYS.task, ARGV.life_ms)
return 1
