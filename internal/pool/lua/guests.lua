-- Shared by the scripts that look at a guest: scripts.go puts it between journal.lua and
-- theirs.

-- handed_over reports whether a target has the identity, or had it some minutes ago: what
-- it holds and what is counted of it is the target's then.
local function handed_over(retired)
  return redis.call('HGET', retired, 'left') ~= false
end

-- bought_orders is how many of the orders under way count as bought.
local function bought_orders(journal)
  local bought, lines = 0, redis.call('HGETALL', journal)
  for i = 2, #lines, 2 do
    local state = string.match(lines[i], '^%d+|(%a)|')
    bought = bought + (state and is_bought(state) and 1 or 0)
  end
  return bought
end
