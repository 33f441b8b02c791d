-- Gives an order a permit at a provider; a second try for the same order finds its
-- permit, and can shorten its life. While the provider is down, or has refused the last
-- submits, one order in an interval gets a permit: the probe.
--
-- KEYS  1 permits  2 standing
-- ARGV  1 order id  2 most permits  3 life of the permit, ms  4 ms since the latest call that
--       the provider answered at this replica was sent (-1 = none)
-- Reply: 1 has a permit, 0 all are in use, -1 the provider takes none now; the time, Unix ms;
--       ms until it takes one; submits in a row that were refused.
local now, s = now_ms(), standing_of(KEYS[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ms(now))
local used = redis.call('ZCARD', KEYS[1])
local ttl = tonumber(ARGV[3])
local until_now = redis.call('ZSCORE', KEYS[1], ARGV[1])
if until_now then
  redis.call('ZADD', KEYS[1], ms(math.min(tonumber(until_now), now + ttl)), ARGV[1])
  return {1, now, 0, s.refusals}
end
if used >= tonumber(ARGV[2]) then
  return {0, now, 0, s.refusals}
end
local answered = tonumber(ARGV[4])
if s.kind == 'outage' and answered >= 0 and now - answered > s.since then
  -- This replica reaches the provider: the fault was of another one's network, or is over.
  standing_set(KEYS[2], 'kind', '')
  s.kind = ''
end
local wait = standing_wait(s, now)
if wait > 0 then
  return {-1, now, wait, s.refusals}
end
if s.kind ~= '' then
  standing_set(KEYS[2], 'next', ms(now + s.every), 'holder', ARGV[1])
elseif s.refusals >= most_refusals then
  standing_set(KEYS[2], 'turn', ms(now + turn_every), 'holder', ARGV[1])
end
redis.call('ZADD', KEYS[1], ms(now + ttl), ARGV[1])
if redis.call('PTTL', KEYS[1]) < ttl + 60000 then
  redis.call('PEXPIRE', KEYS[1], ttl + 60000)
end
return {1, now, 0, s.refusals}
