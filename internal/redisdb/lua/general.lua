-- The text at the start of every script.
--
-- All times are in ms, on Redis' clock. The header of each script says whether the script fails (OOM)
-- if Redis has no free memory. A script that fails "before any change" may have removed expired entries.

-- clocks is the assumed maximum difference in ms between the clocks of Redis' nodes. A check without
-- a margin allows for this difference.
local clocks = 10000

local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- ms formats a number without an exponent.
local function ms(n)
  return string.format('%.0f', n)
end

-- pairs_of reads a flat list of names and values, such as the reply of HGETALL.
local function pairs_of(list)
  local fields = {}
  for i = 1, #list, 2 do
    fields[list[i]] = list[i + 1]
  end
  return fields
end

-- writable must be the first write of a script that has to work while Redis is out of memory.
-- Without free memory, Redis refuses a script only if the script's first write needs memory. HDEL
-- and ZREM need none. If Redis is a read-only replica, writable ends the script before any change.
local function writable(command, key)
  redis.call(command, key, '')
end

-- publish sends a message to other replicas. publish ignores errors, because a missing right to the
-- channel must not end a script that has already written.
local function publish(channel, message)
  redis.pcall('PUBLISH', channel, message)
end
