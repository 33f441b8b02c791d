-- Hands a guest over to the target that has its identity now. The guest's figures are set apart
-- under a nonce, for the row of all guests. Then the figures of the target begin. The guest's
-- tokens and bought orders count as discarded for the guests, and as bought for the target.
--
-- Uses   journal ended purge guests
-- KEYS   tokens orders journal stats leases spend apart ended
-- ARGV   name
-- Reply  {outcome figures};
--        outcome: -2 this call handed the guest over, -1 an earlier call did, 0 older figures must be
--          added first
--        figures: name, value, …; the field nonce identifies them
-- Errors OOM before any change
local now = now_ms()
local older = redis.call('HGETALL', KEYS.apart)
if #older > 0 then
  return {handed_over() and -1 or 0, older}
end
drop_expired(now)
local held = redis.call('LLEN', KEYS.tokens) + bought_orders()
add_figures(KEYS.stats, {discarded = held})
redis.call('HSET', KEYS.apart, 'nonce', ARGV.name, 'left', 1, unpack(without_days(redis.call('HGETALL', KEYS.stats))))
redis.call('PEXPIRE', KEYS.apart, stats_ttl)
redis.call('DEL', KEYS.stats)
add_figures(KEYS.stats, {bought = held})
return {-2, redis.call('HGETALL', KEYS.apart)}
