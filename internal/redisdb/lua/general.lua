-- The text that every script begins with.

-- The clocks of Redis' nodes may be apart by so many ms, where no margin is known.
local clocks = 10000

local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function ms(n)
  return string.format('%.0f', n)
end

-- writable is the first write of scripts that must do their work also where Redis
-- is out of memory: it refuses a script of which the first write needs memory, and
-- this one, with HDEL or ZREM, needs none. What does not let the script write (a
-- replica, a key of another type) ends it here, with nothing done.
local function writable(command, key)
  redis.call(command, key, '')
end

-- expect reads each of the keys with a command for one type, so that a foreign
-- value of another type ends the script before it has written anything.
local function expect(command, ...)
  for _, i in ipairs({...}) do
    redis.call(command, KEYS[i])
  end
end

-- publish tells other replicas. What a script has written by then stands, so a user
-- without the right to the channel must not make it fail.
local function publish(channel, message)
  redis.pcall('PUBLISH', channel, message)
end
