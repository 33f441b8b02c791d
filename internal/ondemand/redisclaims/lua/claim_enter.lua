-- Asks for the solve of a key: shares its token, waits for it, or has to solve.
--
-- KEYS  1 claim  2 token  3 failure  4 savings of the caller's day  5 mark of this call
-- ARGV  1 the solve that is waited for ('' = comes new)  2 name of this call and of a
--       solve that it begins  3 identity  4 callers  5 lease, ms  6 longest solve, ms
--       7 how long a token is shared at most, ms  8 how long a failure is known, ms
-- Answer: state, solve, fence, identity, ms left, 1 if the value is known, value.
local now = now_ms()
local claim, token, failure = record(KEYS[1]), record(KEYS[2]), record(KEYS[3])
local day = savings_of(KEYS[4], now)
redis.call('HLEN', day)
writable('HDEL', KEYS[1])
local waits_for, call = ARGV[1], ARGV[2]
local lease, longest, shared_for = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local new = waits_for == ''

local shared = left(token.ends, shared_for, now)
if shared and (new or token.solve == waits_for) then
  save(day, KEYS[5], {[new and 'shared_cache' or 'shared_wait'] = tonumber(ARGV[4])})
  return {'solved', token.solve, 0, '', shared, 1, token.value}
end

local rest = under_way(claim, longest, now)
if rest and (new or claim.solve == waits_for) then
  if claim.call == call then -- this very call began it; its answer was lost
    return {'held', claim.solve, tonumber(claim.fence), claim.identity, rest, 0, ''}
  elseif left(claim.lease, lease, now) then
    redis.call('HSET', KEYS[1], 'asked', ms(now))
    return {'solving', claim.solve, 0, claim.identity, rest, 0, ''}
  end
elseif new then
  redis.call('DEL', KEYS[1])
  claim = {fence = claim.fence, solve = call, identity = ARGV[3], stops = ms(now + longest)}
  rest = longest
elseif failure.solve == waits_for and left(failure.ends, tonumber(ARGV[8]), now) then
  return {'error', waits_for, 0, '', 0, 1, failure.value}
else
  return {'error', waits_for, 0, '', 0, 0, ''}
end

-- This replica solves from now on: what begins now, or what its holder left.
local fence = math.max(now, (tonumber(claim.fence) or 0) + 1)
redis.call('HSET', KEYS[1], 'solve', claim.solve, 'identity', claim.identity, 'stops', claim.stops,
  'fence', ms(fence), 'lease', ms(now + lease), 'call', call)
redis.call('PEXPIRE', KEYS[1], ms(rest + shared_for))
return {'held', claim.solve, fence, claim.identity, rest, 0, ''}
