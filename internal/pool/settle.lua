-- Ends an order with a token: removes it and puts the token into the list in
-- one step. The second one to come finds no order and changes nothing.
--
-- KEYS  1 tokens  2 orders  3 journal  4 tickets  5 stats  6 leads
-- ARGV  1 order id  2 birth, in ms after the order was placed  3 lifetime, ms
--       4 lead, ms
--       5 rest of the element  6 channel  7 identity
-- Answer: 1 settled, 0 there was no such order.
if redis.call('ZREM', KEYS[2], ARGV[1]) == 0 then
  return 0
end
-- The journal says when the order was placed. An age sent along would be wrong
-- by as long as this call waited for a Redis that hung.
local placed = tonumber(string.match(redis.call('HGET', KEYS[3], ARGV[1]) or '', '^%d+')) or 0
redis.call('HDEL', KEYS[3], ARGV[1])
local now = now_ms()
local born = math.min(now, placed + tonumber(ARGV[2]))
local dead = born + tonumber(ARGV[3])
redis.call('HINCRBY', KEYS[5], 'solved', 1)
if dead <= now then
  redis.call('HINCRBY', KEYS[5], 'expired', 1)
else
  insert(KEYS[1], ms(dead) .. '|' .. ms(born) .. '|' .. ARGV[5], now)
end
redis.call('PEXPIRE', KEYS[5], stats_ttl)
redis.call('LPUSH', KEYS[6], ARGV[4])
redis.call('LTRIM', KEYS[6], 0, 47)
redis.call('PEXPIRE', KEYS[6], stats_ttl)
if redis.call('ZCARD', KEYS[4]) > 0 then
  redis.call('PUBLISH', ARGV[6], ARGV[7])
end
return 1
