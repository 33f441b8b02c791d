-- Looks at a guest that nobody asked for in a while. Where it has no token, no order and
-- no caller any more, its figures are set apart under a name of their own, to be added to
-- the row of all guests, and the rest of it is forgotten.
--
-- KEYS  1 tokens  2 orders  3 journal  4 tickets  5 seen  6 stats  7 leases  8 spend
--       9 junk  10 retired  11 ended  12.. what is forgotten too
-- ARGV  1 name of the figures  2 ms until it is looked at again, at most
-- Answer: above 0: ms until it is to be looked at again, since it holds something or was
--       handed over to a target / 0 there are figures of an earlier time, which go
--       first / -1 nothing is left of it / -2 its figures; and the figures as name,
--       value, …, their own name as nonce.
local now = now_ms()
expect('LLEN', 1)
expect('ZCARD', 2, 4, 5, 7, 8, 11)
expect('HLEN', 3, 6, 10)
local older = redis.call('HGETALL', KEYS[10])
if redis.call('HGET', KEYS[10], 'nonce') then
  return {0, older}
elseif handed_over(KEYS[10]) then
  return {math.max(1, redis.call('PTTL', KEYS[10])), {}}
end
drop_dead(KEYS[1], KEYS[6], KEYS[9], now, clocks)
purge_orders(KEYS[2], KEYS[3], KEYS[7], KEYS[6], KEYS[8], KEYS[9], KEYS[11], now)
local rest, held = tonumber(ARGV[2]), live_tickets(KEYS[4], KEYS[5], now) > 0
held = held or redis.call('ZCARD', KEYS[11]) > 0 -- who keeps the history finds them by the list of guests
local token = redis.call('LINDEX', KEYS[1], 0)
if token then
  held, rest = true, math.min(rest, dies(token) - now + 1)
end
local order = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
if order[2] then
  held, rest = true, math.min(rest, tonumber(order[2]) - now + 1)
end
if held then
  return {math.max(1, rest), {}}
end
local figures = without_days(redis.call('HGETALL', KEYS[6]))
redis.call('DEL', KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7])
for i = 12, #KEYS do
  redis.call('DEL', KEYS[i])
end
if #figures == 0 then
  return {-1, {}}
end
redis.call('HSET', KEYS[10], 'nonce', ARGV[1], unpack(figures))
redis.call('PEXPIRE', KEYS[10], stats_ttl)
return {-2, redis.call('HGETALL', KEYS[10])}
