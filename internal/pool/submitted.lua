-- Writes the provider's task id into the journal, if the order still stands.
--
-- KEYS  1 orders  2 journal
-- ARGV  1 order id  2 task id
-- Answer: 1 written, 0 the order is gone.
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return 0
end
local entry = redis.call('HGET', KEYS[2], ARGV[1])
local head = string.match(entry or '', '^%d+|[^|]*|') or '0||'
redis.call('HSET', KEYS[2], ARGV[1], head .. ARGV[2])
return 1
