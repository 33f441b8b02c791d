-- Releases a guest that was due: removes it from the list or sets when it is due again, unless
-- it was used meanwhile or another replica took it.
--
-- KEYS   guests added
-- ARGV   identity due again_ms name known_ms;
--        due: when this replica would look again, Unix ms
--        again_ms: -1 = never
--        name: of its deleted figures, '' = none
--        known_ms: how long that name is still remembered
-- Reply  1 released, 0 used meanwhile
-- Errors WRONGTYPE and OOM, after the name was prolonged
local now, again = now_ms(), tonumber(ARGV.again_ms)
if ARGV.name ~= '' then
  redis.call('ZADD', KEYS.added, 'XX', ms(now + tonumber(ARGV.known_ms)), ARGV.name)
end
if tonumber(redis.call('ZSCORE', KEYS.guests, ARGV.identity) or 0) ~= tonumber(ARGV.due) then
  return 0
end
if again < 0 then
  redis.call('ZREM', KEYS.guests, ARGV.identity)
else
  redis.call('ZADD', KEYS.guests, ms(now + again), ARGV.identity)
end
return 1
