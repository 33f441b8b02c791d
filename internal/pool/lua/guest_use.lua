-- Notes that a guest is asked for, unless the rate of all guests is used up, or there
-- are as many as there may be. One that is known already has its place.
--
-- KEYS  1 guests  2 times of the last uses
-- ARGV  1 identity  2 ms until it is to be looked at  3 most guests  4 most uses
--       within 5 (0 = no limit)  5 ms
-- Answer: 1 noted / 0 too many in so short a time / -1 too many guests; and ms until
--       the rate allows the next one.
local now = now_ms()
local known = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not known and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then
  return {-1, 0}
end
local rate, per = tonumber(ARGV[4]), tonumber(ARGV[5])
local room, wait = rate_room(KEYS[2], now, rate, per)
if room <= 0 then
  return {0, wait}
end
redis.call('ZADD', KEYS[1], ms(math.max(tonumber(known or 0), now + tonumber(ARGV[2]))), ARGV[1])
redis.call('PEXPIRE', KEYS[1], stats_ttl)
rate_use(KEYS[2], now, 1, rate, per)
return {1, 0}
