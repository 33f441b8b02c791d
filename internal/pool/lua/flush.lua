-- Discards all tokens of an identity.
--
-- KEYS   tokens stats junk
-- ARGV   margin_ms
-- Reply  the number of discarded tokens that had not expired
-- Errors WRONGTYPE before any change; works without free memory
writable('HDEL', KEYS.stats)
drop_dead(KEYS.tokens, KEYS.stats, KEYS.junk, now_ms() + tonumber(ARGV.margin_ms))
local thrown = redis.call('LLEN', KEYS.tokens)
redis.call('DEL', KEYS.tokens)
add_figures(KEYS.stats, {discarded = thrown})
return thrown
