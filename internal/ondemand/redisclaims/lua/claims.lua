-- Shared: functions about the times of claims. A claim consists of three hashes with separate
-- lives: the claim itself (solve, identity, fence, lease, stops, asked, call, ended), the token of
-- the last successful solve, and the last failure (the latter two have solve, ends, value).

-- The largest step back of Redis' clock, in ms, after which stored times still count.
local set_back = 10000

-- The function left returns the ms until the time `ends`, or nil if this time has passed. The time
-- was at most `most` ms in the future when it was written. A later time was written before Redis'
-- clock was set back and counts as passed.
local function left(ends, most, now)
  local rest = (tonumber(ends) or 0) - now
  return rest > 0 and rest <= most + set_back and rest or nil
end

-- The function under_way returns the ms that the solve of a claim may still take; nil if no solve is
-- under way.
local function under_way(claim, longest, now)
  return not claim.ended and left(claim.stops, longest, now) or nil
end
