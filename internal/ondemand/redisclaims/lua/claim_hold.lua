-- Renews the lease of a claim.
--
-- KEYS  1 claim
-- ARGV  1 fence  2 identity  3 lease, ms  4 how long a replica is waiting after it
--       asked, ms  5 longest solve, ms
-- Answer: 1 if it is still this holder's, else 0; 1 if somebody waits, else 0.
local now = now_ms()
local claim = record(KEYS[1])
writable('HDEL', KEYS[1])
if claim.fence ~= ARGV[1] or not under_way(claim, tonumber(ARGV[5]), now) then
  return {0, 0}
end
redis.call('HSET', KEYS[1], 'identity', ARGV[2], 'lease', ms(now + tonumber(ARGV[3])))
local wanted = tonumber(ARGV[4])
return {1, left((tonumber(claim.asked) or 0) + wanted, wanted, now) and 1 or 0}
