-- Throws the whole stock away.
--
-- KEYS  1 tokens  2 stats
-- ARGV  1 margin, ms
-- Answer: how many tokens could still have been handed out.
drop_dead(KEYS[1], KEYS[2], now_ms() + tonumber(ARGV[1]))
local thrown = redis.call('LLEN', KEYS[1])
redis.call('DEL', KEYS[1])
count(KEYS[2], {discarded = thrown})
return thrown
