-- Creates an order beside the stock if the depth sentence allows it:
-- outliving + orders - waiting < depth.
--
-- KEYS  1 tokens  2 orders  3 journal  4 tickets  5 seen  6 stats  7 paused
-- ARGV  1 order id  2 depth  3 margin, ms  4 lead, ms  5 life of the order, ms
--       6 provider
-- Answer: 1 placed (or already there) / 0 refused / -1 paused, then the counts.
local now = now_ms()
local margin, lead = tonumber(ARGV[3]), tonumber(ARGV[4])
drop_dead(KEYS[1], KEYS[6], now + margin)
purge_orders(KEYS[2], KEYS[3], KEYS[6], now)
local have = counts(KEYS[1], KEYS[2], KEYS[4], KEYS[5], now, margin, lead)
if redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  return {1, unpack(have)}
end
if redis.call('EXISTS', KEYS[7]) == 1 then
  return {-1, unpack(have)}
end
if have[2] + have[3] - have[4] >= tonumber(ARGV[2]) then
  return {0, unpack(have)}
end
local ttl = tonumber(ARGV[5])
redis.call('ZADD', KEYS[2], ms(now + ttl), ARGV[1])
redis.call('HSET', KEYS[3], ARGV[1], ms(now) .. '|' .. ARGV[6] .. '|')
for i = 2, 3 do
  if redis.call('PTTL', KEYS[i]) < ttl + 60000 then
    redis.call('PEXPIRE', KEYS[i], ttl + 60000)
  end
end
have[3] = have[3] + 1
return {1, unpack(have)}
