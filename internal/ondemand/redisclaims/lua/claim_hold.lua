-- Renews the lease of a claim.
--
-- Uses   claims
-- KEYS   claim
-- ARGV   fence identity lease_ms waiting_ms longest_ms;
--        waiting_ms: how long a replica counts as waiting after it entered
--        longest_ms: time limit of a solve
-- Reply  {held wanted};
--        held: 1 = this holder still has the claim, 0 = it has lost the claim
--        wanted: 1 = a replica waits, 0 = no replica waits
-- Errors none for lack of free memory
local now = now_ms()
local claim = pairs_of(redis.call('HGETALL', KEYS.claim))
writable('HDEL', KEYS.claim)
if claim.fence ~= ARGV.fence or not under_way(claim, tonumber(ARGV.longest_ms), now) then
  return {0, 0}
end
redis.call('HSET', KEYS.claim, 'identity', ARGV.identity, 'lease', ms(now + tonumber(ARGV.lease_ms)))
local wanted = tonumber(ARGV.waiting_ms)
return {1, left((tonumber(claim.asked) or 0) + wanted, wanted, now) and 1 or 0}
