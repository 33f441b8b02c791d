-- Returns the shared token of a key, lets the calling replica wait for a solve under way, or makes
-- this replica the holder of a solve.
--
-- Uses   claims savings
-- KEYS   claim token failure savings mark;
--        savings: savings of the day on the caller's clock
--        mark: exists if this call was counted
-- ARGV   waits_for call identity callers lease_ms longest_ms shared_ms failure_ms;
--        waits_for: name of the solve that the callers wait for, '' = new callers
--        call: name of this call, and of a solve that the call begins
--        callers: number of callers that share the token
--        longest_ms: time limit of a solve
--        shared_ms, failure_ms: how long a token and a failure are shared
-- Reply  {state solve fence identity left_ms known value};
--        state: solved, solving, held or error
--        left_ms: remaining time of the token or the solve
--        known: 1 = the reply has a value, 0 = it has none
-- Errors none for lack of free memory
local now = now_ms()
local claim, token, failure = pairs_of(redis.call('HGETALL', KEYS.claim)), pairs_of(redis.call('HGETALL', KEYS.token)), pairs_of(redis.call('HGETALL', KEYS.failure))
local day = savings_of(now)
redis.call('HLEN', day)
writable('HDEL', KEYS.claim)
local waits_for, call = ARGV.waits_for, ARGV.call
local lease, longest, shared_for = tonumber(ARGV.lease_ms), tonumber(ARGV.longest_ms), tonumber(ARGV.shared_ms)
local new = waits_for == ''

local shared = left(token.ends, shared_for, now)
if shared and (new or token.solve == waits_for) then
  save(day, KEYS.mark, {[new and 'shared_cache' or 'shared_wait'] = tonumber(ARGV.callers)})
  return {'solved', token.solve, 0, '', shared, 1, token.value}
end

local rest = under_way(claim, longest, now)
if rest and (new or claim.solve == waits_for) then
  if claim.call == call then -- the call is a retry, because its first reply was lost
    return {'held', claim.solve, tonumber(claim.fence), claim.identity, rest, 0, ''}
  elseif left(claim.lease, lease, now) then
    redis.call('HSET', KEYS.claim, 'asked', ms(now))
    return {'solving', claim.solve, 0, claim.identity, rest, 0, ''}
  end
elseif new then
  redis.call('DEL', KEYS.claim)
  claim = {fence = claim.fence, solve = call, identity = ARGV.identity, stops = ms(now + longest)}
  rest = longest
elseif failure.solve == waits_for and left(failure.ends, tonumber(ARGV.failure_ms), now) then
  return {'error', waits_for, 0, '', 0, 1, failure.value}
else
  return {'error', waits_for, 0, '', 0, 0, ''}
end

-- This replica becomes the holder of a new solve, or of a solve whose holder let the lease expire.
local fence = math.max(now, (tonumber(claim.fence) or 0) + 1)
redis.call('HSET', KEYS.claim, 'solve', claim.solve, 'identity', claim.identity, 'stops', claim.stops,
  'fence', ms(fence), 'lease', ms(now + lease), 'call', call)
redis.call('PEXPIRE', KEYS.claim, ms(rest + shared_for))
return {'held', claim.solve, fence, claim.identity, rest, 0, ''}
