-- Deletes the figures of a guest that were set apart and added to the row of all guests, unless
-- newer figures have replaced them.
--
-- KEYS   apart
-- ARGV   name left_ms;
--        name: nonce of the figures
--        left_ms: how long it is remembered that a target took the guest over
-- Reply  1 the figures were deleted, 0 the figures have another nonce
-- Errors WRONGTYPE and OOM before any change
if redis.call('HGET', KEYS.apart, 'nonce') ~= ARGV.name then
  return 0
end
local left = redis.call('HGET', KEYS.apart, 'left')
redis.call('DEL', KEYS.apart)
if left then
  redis.call('HSET', KEYS.apart, 'left', 1)
  redis.call('PEXPIRE', KEYS.apart, ARGV.left_ms)
end
return 1
