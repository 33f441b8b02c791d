-- The text that every script begins with.
--
-- Times come from Redis' clock, in ms. The header of each script names its errors: WRONGTYPE if
-- a key has another type, OOM if Redis has no free memory. Expired entries may be gone by then.

-- clocks is the assumed difference between the clocks of Redis' nodes, in ms. It is used
-- where no margin covers the difference.
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

-- writable is the first write of scripts that must also work when Redis is out of memory.
-- Redis refuses a script whose first write needs memory; HDEL and ZREM need none. On a
-- read-only replica, or if the key has another type, it ends the script before any change.
local function writable(command, key)
  redis.call(command, key, '')
end

-- expect reads each key with a command for one type, so that a value of another type ends
-- the script before any change.
local function expect(command, ...)
  for _, key in ipairs({...}) do
    redis.call(command, key)
  end
end

-- publish notifies other replicas. A user without the right to the channel must not make a
-- script fail that has written already.
local function publish(channel, message)
  redis.pcall('PUBLISH', channel, message)
end
