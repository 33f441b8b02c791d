-- Gives an order a permit at a provider. If the order already has a permit, the call can only
-- shorten the permit's life. While the provider is down or refuses submits, one order in each
-- interval gets a permit: the probe.
--
-- Uses   standing
-- KEYS   permits standing
-- ARGV   order limit ttl_ms answered_ms;
--        limit: maximum number of permits
--        answered_ms: age of the latest call that the provider answered, -1 = none
-- Reply  {outcome now wait_ms refusals};
--        outcome: 1 the order has a permit, 0 all permits are in use, -1 the order must wait for
--          wait_ms
--        now: Unix ms
--        refusals: number of refused submits in a row
-- Errors OOM before any change
local now, s = now_ms(), standing_of()
redis.call('ZREMRANGEBYSCORE', KEYS.permits, '-inf', ms(now))
local used = redis.call('ZCARD', KEYS.permits)
local ttl = tonumber(ARGV.ttl_ms)
local until_now = redis.call('ZSCORE', KEYS.permits, ARGV.order)
if until_now then
  redis.call('ZADD', KEYS.permits, ms(math.min(tonumber(until_now), now + ttl)), ARGV.order)
  return {1, now, 0, s.refusals}
end
if used >= tonumber(ARGV.limit) then
  return {0, now, 0, s.refusals}
end
local answered = tonumber(ARGV.answered_ms)
if s.kind == 'outage' and answered >= 0 and now - answered > s.since then
  -- This replica reaches the provider, so the fault is over or was in another replica's network.
  standing_set('kind', '')
  s.kind = ''
end
local wait = standing_wait(s, now)
if wait > 0 then
  return {-1, now, wait, s.refusals}
end
if s.kind ~= '' then
  standing_set('next', ms(now + s.every), 'holder', ARGV.order)
elseif s.refusals >= most_refusals then
  standing_set('turn', ms(now + turn_every), 'holder', ARGV.order)
end
redis.call('ZADD', KEYS.permits, ms(now + ttl), ARGV.order)
if redis.call('PTTL', KEYS.permits) < ttl + 60000 then
  redis.call('PEXPIRE', KEYS.permits, ttl + 60000)
end
return {1, now, 0, s.refusals}
