-- Puts back a token whose caller hung up before a byte of the response was written. Each hand-out is
-- put back at most once.
--
-- KEYS   tokens handout tickets stats
-- ARGV   element margin_ms channel identity
-- Reply  1 the token was put back, 0 an earlier call put the token back, or it has expired
-- Errors none for lack of free memory
local now = now_ms()
local left = death_of(ARGV.element) - now
writable('HDEL', KEYS.stats)
if not redis.call('SET', KEYS.handout, '1', 'NX', 'PX', math.max(60000, left)) then
  return 0
end
local late = left < tonumber(ARGV.margin_ms)
add_figures(KEYS.stats, {returned = 1, expired = late and 1 or 0})
if late then
  return 0
end
insert(KEYS.tokens, ARGV.element)
if redis.call('ZCARD', KEYS.tickets) > 0 then
  publish(ARGV.channel, ARGV.identity)
end
return 1
