-- Tells what an identity holds, for the refill and for /status.
--
-- KEYS  1 tokens  2 orders  3 journal  4 tickets  5 seen  6 stats  7 paused
--       8 leads
-- ARGV  1 margin, ms  2 lead, ms
-- Answer: paused (1/0), the counts, then three lists: ages of the orders in ms,
--       leads in ms, figures as name, value, ….
local now = now_ms()
local margin, lead = tonumber(ARGV[1]), tonumber(ARGV[2])
drop_dead(KEYS[1], KEYS[6], now + margin)
purge_orders(KEYS[2], KEYS[3], KEYS[6], now)
local have = counts(KEYS[1], KEYS[2], KEYS[4], KEYS[5], now, margin, lead)
local ages = {}
for i, entry in ipairs(redis.call('HVALS', KEYS[3])) do
  ages[i] = now - tonumber(string.match(entry, '^%d+'))
end
local leads = redis.call('LRANGE', KEYS[8], 0, -1)
local stats = redis.call('HGETALL', KEYS[6])
-- What an identity in use has learned and counted must not run out.
redis.call('PEXPIRE', KEYS[6], stats_ttl)
redis.call('PEXPIRE', KEYS[8], stats_ttl)
redis.call('PEXPIRE', KEYS[7], stats_ttl)
have[7], have[8], have[9] = ages, leads, stats
return {redis.call('EXISTS', KEYS[7]), unpack(have)}
