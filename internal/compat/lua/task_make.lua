-- Creates a task of the compatible endpoints.
--
-- KEYS   task
-- ARGV   caller identity type guest holder lease_ms life_ms;
--        guest: 1 = no target has the identity
--        holder: replica that works on the task, '' = none
--        life_ms: life of the task
-- Reply  1 the task was created, 0 another task has the same number
-- Errors OOM before any change
if redis.call('EXISTS', KEYS.task) == 1 then
  return 0
end
local now = now_ms()
redis.call('HSET', KEYS.task, 'caller', ARGV.caller, 'identity', ARGV.identity, 'type', ARGV.type, 'guest', ARGV.guest,
  'made', ms(now), 'asked', ms(now), 'holder', ARGV.holder, 'lease', ms(ARGV.holder == '' and 0 or now + tonumber(ARGV.lease_ms)))
redis.call('PEXPIRE', KEYS.task, ARGV.life_ms)
return 1
