-- Discards all tokens of an identity.
--
-- KEYS   tokens stats
-- ARGV   margin_ms
-- Reply  the number of discarded tokens that had not expired
-- Errors none for lack of free memory
writable('HDEL', KEYS.stats)
drop_dead(KEYS.tokens, KEYS.stats, now_ms() + tonumber(ARGV.margin_ms))
local thrown = redis.call('LLEN', KEYS.tokens)
redis.call('DEL', KEYS.tokens)
add_figures(KEYS.stats, {discarded = thrown})
return thrown
