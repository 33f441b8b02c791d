-- Deletes a guest's figures that were added to the row of all guests, unless newer ones took
-- their place.
--
-- KEYS   apart
-- ARGV   name left_ms;
--        name: of the figures
--        left_ms: how long it is remembered that a target took the guest over
-- Reply  1 deleted, 0 its figures have another name
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
