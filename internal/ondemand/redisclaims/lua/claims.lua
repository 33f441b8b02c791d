-- Shared by the scripts of claims: scripts.go puts this text in front of theirs.
-- Three hashes are what is known of a key: the claim itself (solve, identity, fence,
-- lease, stops, asked, call, ended), the token of its last solve that brought one, and
-- the last failure (both: solve, ends, value). They are apart because each has a life
-- of its own, after which Redis keeps nothing of it.

-- As long as this Redis' clock may be set back without notice.
local set_back = 10000

-- left is how many ms are left until `ends`, of what lasts for `most` at first; nil
-- where it is over. An end that is much further away was written before Redis' clock
-- was set back, and nobody knows how long ago.
local function left(ends, most, now)
  local rest = (tonumber(ends) or 0) - now
  return rest > 0 and rest <= most + set_back and rest or nil
end

-- record reads a hash. It fails over a value of another type.
local function record(key)
  local list, fields = redis.call('HGETALL', key), {}
  for i = 1, #list, 2 do
    fields[list[i]] = list[i + 1]
  end
  return fields
end

-- under_way is how many ms the solve of a claim may still go on; nil where none is
-- under way.
local function under_way(claim, longest, now)
  return not claim.ended and left(claim.stops, longest, now) or nil
end
