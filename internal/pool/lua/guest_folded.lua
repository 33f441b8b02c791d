-- Deletes a guest's figures that were added to the row of all guests, unless they are of a
-- later time. That the guest was handed over to a target is remembered for left_ms.
--
-- KEYS   retired
-- ARGV   name left_ms
-- Reply  1 deleted, 0 its figures have another name
if redis.call('HGET', KEYS.retired, 'nonce') ~= ARGV.name then
  return 0
end
local left = redis.call('HGET', KEYS.retired, 'left')
redis.call('DEL', KEYS.retired)
if left then
  redis.call('HSET', KEYS.retired, 'left', 1)
  redis.call('PEXPIRE', KEYS.retired, ARGV.left_ms)
end
return 1
