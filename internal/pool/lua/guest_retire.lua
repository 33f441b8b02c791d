-- Retires a guest that has no token, no order and no pending caller. The guest's figures are set
-- apart under a nonce, for the row of all guests. All its other keys are deleted.
--
-- Uses   journal ended purge guests
-- KEYS   tokens orders journal tickets seen stats leases spend apart ended leads verdicts
--        learned paused status hour hours
-- ARGV   name again_ms;
--        name: nonce of the figures
--        again_ms: maximum time until the next check
-- Reply  {outcome figures};
--        outcome: above 0 = ms until the next check, because the guest is not empty or was handed over;
--          0 older figures must be added first; -1 nothing is left; -2 the figures were set apart
--        figures: name, value, …; the field nonce identifies them
-- Errors OOM before any change
local now = now_ms()
local older = redis.call('HGETALL', KEYS.apart)
if redis.call('HGET', KEYS.apart, 'nonce') then
  return {0, older}
elseif handed_over() then
  return {math.max(1, redis.call('PTTL', KEYS.apart)), {}}
end
drop_expired(now)
local rest, held = tonumber(ARGV.again_ms), live_tickets(KEYS.tickets, KEYS.seen, now) > 0
held = held or redis.call('ZCARD', KEYS.ended) > 0 -- the history finds these ended orders through the list of guests
local token = redis.call('LINDEX', KEYS.tokens, 0)
if token then
  held, rest = true, math.min(rest, death_of(token) - now + 1)
end
local order = redis.call('ZRANGE', KEYS.orders, 0, 0, 'WITHSCORES')
if order[2] then
  held, rest = true, math.min(rest, tonumber(order[2]) - now + 1)
end
if held then
  return {math.max(1, rest), {}}
end
local figures = without_days(redis.call('HGETALL', KEYS.stats))
redis.call('DEL', KEYS.journal, KEYS.tickets, KEYS.seen, KEYS.stats, KEYS.leases, KEYS.leads, KEYS.verdicts,
  KEYS.learned, KEYS.paused, KEYS.status, KEYS.hour, KEYS.hours)
if #figures == 0 then
  return {-1, {}}
end
redis.call('HSET', KEYS.apart, 'nonce', ARGV.name, unpack(figures))
redis.call('PEXPIRE', KEYS.apart, stats_ttl)
return {-2, redis.call('HGETALL', KEYS.apart)}
