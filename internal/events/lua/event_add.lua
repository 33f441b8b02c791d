-- Adds an event to the list, unless its topic already has the event's state. The events of a topic stay
-- in the order of the calls.
--
-- KEYS   events topic
-- ARGV   body has_topic state age_ms late number newest kept_ms remembered_ms;
--        late: 1 = the event is not added if it is older than the topic's last event
--        number: 0 to 999; the id ends with this number, or with the next free number
-- Reply  1 the event was added, 0 it was known
-- Errors WRONGTYPE and OOM before any change
local now = now_ms()
local at = now - tonumber(ARGV.age_ms)
expect('ZCARD', KEYS.events)
if ARGV.has_topic == '1' then
  local last = redis.call('GET', KEYS.topic)
  local since, state = 0, ''
  if last then
    since, state = string.match(last, '^(%d+)|(.*)$')
  end
  since = tonumber(since)
  if state == ARGV.state or (ARGV.late == '1' and at < since) then
    return 0
  end
  at = math.max(at, since)
  redis.call('SET', KEYS.topic, ms(at) .. '|' .. ARGV.state, 'PX', ARGV.remembered_ms)
end
local id = at * 1000 + tonumber(ARGV.number)
while redis.call('ZCOUNT', KEYS.events, ms(id), ms(id)) > 0 do
  id = id + 1
end
redis.call('ZADD', KEYS.events, ms(id), ms(id) .. ' ' .. ARGV.body)
redis.call('ZREMRANGEBYSCORE', KEYS.events, '-inf', ms((now - ARGV.kept_ms) * 1000))
for _, oldest in ipairs(redis.call('ZRANGE', KEYS.events, 0, -1 - ARGV.newest)) do
  redis.call('ZREM', KEYS.events, oldest)
end
redis.call('PEXPIRE', KEYS.events, ARGV.kept_ms)
return 1
