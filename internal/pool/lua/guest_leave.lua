-- Hands a guest over to the target that has its identity by now: its figures are set
-- apart under a name of their own, to be added to the row of all guests, and those of
-- the target begin. Its tokens and bought orders go over too: the guests count them as
-- discarded and the target as bought, so that the figures of both balance.
--
-- KEYS  1 tokens  2 orders  3 journal  4 tickets  5 seen  6 stats  7 leases  8 spend
--       9 junk  10 retired  11 ended
-- ARGV  1 name of the figures
-- Answer: 0 there are figures of an earlier time, which go first / -1 it was handed
--       over before / -2 it is handed over; and the figures that are set apart as name,
--       value, …, their own name as nonce.
local now = now_ms()
expect('LLEN', 1)
expect('ZCARD', 2, 4, 5, 7, 8, 11)
expect('HLEN', 3, 6, 10)
local older = redis.call('HGETALL', KEYS[10])
if #older > 0 then
  return {handed_over(KEYS[10]) and -1 or 0, older}
end
drop_dead(KEYS[1], KEYS[6], KEYS[9], now, clocks)
purge_orders(KEYS[2], KEYS[3], KEYS[7], KEYS[6], KEYS[8], KEYS[9], KEYS[11], now)
local held = redis.call('LLEN', KEYS[1]) + bought_orders(KEYS[3])
count(KEYS[6], {discarded = held})
redis.call('HSET', KEYS[10], 'nonce', ARGV[1], 'left', 1, unpack(without_days(redis.call('HGETALL', KEYS[6]))))
redis.call('PEXPIRE', KEYS[10], stats_ttl)
redis.call('DEL', KEYS[6])
count(KEYS[6], {bought = held})
return {-2, redis.call('HGETALL', KEYS[10])}
