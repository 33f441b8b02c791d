-- Ends the lease of a guest: removes the guest from the list, or sets the time of its next check. If
-- the guest was used meanwhile or another replica leased it, nothing changes.
--
-- KEYS   guests added
-- ARGV   identity due again_ms name known_ms;
--        due: end of this replica's lease, Unix ms
--        again_ms: time until the next check, -1 = no check
--        name: nonce of the deleted figures, '' = none
--        known_ms: remaining life of the nonce
-- Reply  1 the lease was ended, 0 the guest was used or leased meanwhile
-- Errors OOM, after the life of the nonce was extended
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
