-- Throws the whole stock away.
--
-- KEYS  1 tokens  2 stats  3 junk
-- ARGV  1 margin, ms
-- Answer: how many tokens could still have been handed out.
writable('HDEL', KEYS[2])
drop_dead(KEYS[1], KEYS[2], KEYS[3], now_ms() + tonumber(ARGV[1]))
local thrown = redis.call('LLEN', KEYS[1])
redis.call('DEL', KEYS[1])
count(KEYS[2], {discarded = thrown})
return thrown
