-- Deletes the set-apart figures of a guest after they were added to the row of all guests. Newer
-- figures with another nonce stay.
--
-- KEYS   apart
-- ARGV   name left_ms;
--        name: nonce of the figures
--        left_ms: how long the field left still exists
-- Reply  1 the figures were deleted, 0 the stored figures have another nonce
-- Errors OOM before any change
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
