-- Binds an Idempotency-Key to the first identity for which it is used.
--
-- KEYS   bound
-- ARGV   identity life_ms
-- Reply  1 the key is bound to this identity, 0 the key is bound to another identity
-- Errors none for lack of free memory
-- For Redis, GETEX is a write that needs no memory; see writable.
local bound = redis.call('GETEX', KEYS.bound)
if bound and bound ~= ARGV.identity then
  return 0
end
redis.call('SET', KEYS.bound, ARGV.identity, 'PX', ms(math.max(tonumber(ARGV.life_ms), redis.call('PTTL', KEYS.bound))))
return 1
