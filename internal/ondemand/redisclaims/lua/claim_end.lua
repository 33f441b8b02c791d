-- Ends the solve of a claim and tells those who wait for it.
--
-- KEYS  1 claim  2 token  3 failure
-- ARGV  1 fence  2 1 = it failed, 0 = there is a token  3 value  4 how long it is kept,
--       ms  5 longest solve, ms  6 how long the claim is kept, ms  7 channel  8 the key
-- Answer: 1 ended, also by this very call before; 0 it is not this holder's.
local now = now_ms()
local claim = record(KEYS[1])
expect('HLEN', 2, 3)
writable('HDEL', KEYS[1])
if claim.fence ~= ARGV[1] then
  return 0
end
local ended = redis.sha1hex(ARGV[2] .. ARGV[3])
if claim.ended then
  return claim.ended == ended and 1 or 0
end
if not under_way(claim, tonumber(ARGV[5]), now) then
  return 0
end
-- The claim stays a while: it knows the last fence, and how the solve ended where
-- this call is sent again.
redis.call('HSET', KEYS[1], 'ended', ended)
redis.call('PEXPIRE', KEYS[1], ARGV[6])
local outcome = KEYS[2 + tonumber(ARGV[2])]
redis.call('HSET', outcome, 'solve', claim.solve, 'ends', ms(now + tonumber(ARGV[4])), 'value', ARGV[3])
redis.call('PEXPIRE', outcome, ARGV[4]) -- removes what does not last at all
publish(ARGV[7], ARGV[8])
return 1
