-- Ends the solve of a claim and notifies the replicas whose callers share the solve.
--
-- Uses   claims
-- KEYS   claim token failure
-- ARGV   fence failed value keep_ms longest_ms claim_ms channel key;
--        failed: 1 = the value is a failure, 0 = the value is a token
--        keep_ms: life of the value
--        longest_ms: time limit of a solve
--        claim_ms: life of the claim after its end
--        key: key of the solve, which is published
-- Reply  1 the solve was ended, by this try or an earlier one; 0 this holder has lost the claim
-- Errors none for lack of free memory
local now = now_ms()
local claim = pairs_of(redis.call('HGETALL', KEYS.claim))
writable('HDEL', KEYS.claim)
if claim.fence ~= ARGV.fence then
  return 0
end
local ended = redis.sha1hex(ARGV.failed .. ARGV.value)
if claim.ended then
  return claim.ended == ended and 1 or 0
end
if not under_way(claim, tonumber(ARGV.longest_ms), now) then
  return 0
end
-- The claim stays for claim_ms, because it contains the last fence, and the outcome for a
-- retry.
redis.call('HSET', KEYS.claim, 'ended', ended)
redis.call('PEXPIRE', KEYS.claim, ARGV.claim_ms)
local outcome = ARGV.failed == '1' and KEYS.failure or KEYS.token
redis.call('HSET', outcome, 'solve', claim.solve, 'ends', ms(now + tonumber(ARGV.keep_ms)), 'value', ARGV.value)
redis.call('PEXPIRE', outcome, ARGV.keep_ms) -- 0 deletes the key
publish(ARGV.channel, ARGV.key)
return 1
