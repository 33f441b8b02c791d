-- Shared: a function that reads warm windows. A window is a member "start ms|tokens" of a sorted set.
-- The member's score is the end of the window.
--
-- KEYS   warm

-- windows_of removes the windows that have ended and returns the others in the order of their ends.
-- If there are no windows, windows_of costs one command on an absent key.
local function windows_of(now)
  local entries, windows = redis.call('ZRANGE', KEYS.warm, 0, -1, 'WITHSCORES'), {}
  for i = 1, #entries, 2 do
    local ends = tonumber(entries[i + 1])
    if ends > now then
      local begins, tokens = string.match(entries[i], '^(%d+)|(%d+)$')
      windows[#windows + 1] = {member = entries[i], begins = tonumber(begins),
        ends = ends, tokens = tonumber(tokens)}
    end
  end
  if 2 * #windows < #entries then
    redis.call('ZREMRANGEBYSCORE', KEYS.warm, '-inf', ms(now))
  end
  return windows
end
