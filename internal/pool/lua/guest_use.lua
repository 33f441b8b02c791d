-- Records a request for a guest, if the rate of all guests and the number of guests allow it. A guest
-- that is already on the list does not count against the limit.
--
-- KEYS   guests uses;
--        uses: times of the last requests
-- ARGV   identity due_ms limit rate rate_per_ms;
--        limit: maximum number of guests
--        rate: requests within rate_per_ms, 0 = no limit
-- Reply  {outcome wait_ms};
--        outcome: 1 the request was recorded, 0 the rate is exceeded, -1 there are too many guests
--        wait_ms: time until the exceeded rate allows a request, else 0
-- Errors OOM before any change
local now = now_ms()
local known = redis.call('ZSCORE', KEYS.guests, ARGV.identity)
if not known and redis.call('ZCARD', KEYS.guests) >= tonumber(ARGV.limit) then
  return {-1, 0}
end
local rate, per = tonumber(ARGV.rate), tonumber(ARGV.rate_per_ms)
local room, wait = rate_room(KEYS.uses, now, rate, per)
if room <= 0 then
  return {0, wait}
end
redis.call('ZADD', KEYS.guests, ms(math.max(tonumber(known or 0), now + tonumber(ARGV.due_ms))), ARGV.identity)
redis.call('PEXPIRE', KEYS.guests, stats_ttl)
rate_use(KEYS.uses, now, 1, rate, per)
return {1, 0}
