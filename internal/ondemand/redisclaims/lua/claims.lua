-- Shared: claims. A key has three hashes, because each expires on its own: the claim (solve,
-- identity, fence, lease, stops, asked, call, ended), the token of its last successful solve,
-- and its last failure (both: solve, ends, value).

-- set_back is the assumed largest step back of Redis' clock, in ms.
local set_back = 10000

-- left returns the ms until `ends` of a span of at most `most` ms; nil if it is over. An end
-- much further away was written before Redis' clock was set back: its age is unknown.
local function left(ends, most, now)
  local rest = (tonumber(ends) or 0) - now
  return rest > 0 and rest <= most + set_back and rest or nil
end

-- under_way returns the ms that the solve of a claim may still take; nil if there is none.
local function under_way(claim, longest, now)
  return not claim.ended and left(claim.stops, longest, now) or nil
end
