-- Adds an event to the list, unless its topic already has the event's state.
--
-- KEYS   events topic
-- ARGV   body state newest kept_ms remembered_ms;
--        state: empty = the event has no topic
-- Reply  1 the event was added, 0 it was known
-- Errors OOM before any change
local last = redis.call('LINDEX', KEYS.events, 0)
if ARGV.state ~= '' then
  if redis.call('GET', KEYS.topic) == ARGV.state then
    return 0
  end
  redis.call('SET', KEYS.topic, ARGV.state, 'PX', ARGV.remembered_ms)
end
-- The id of an event is the time in µs, or the next free number.
local id = math.max(now_ms() * 1000, last and tonumber(string.match(last, '^%d+')) + 1 or 0)
redis.call('LPUSH', KEYS.events, ms(id) .. ' ' .. ARGV.body)
redis.call('LTRIM', KEYS.events, 0, ARGV.newest - 1)
redis.call('PEXPIRE', KEYS.events, ARGV.kept_ms)
return 1
