-- Shared by the scripts that know how a provider does: scripts.go puts it behind common.lua.
--
-- The hash of a provider's standing is shared by all replicas. Its fields: kind (account or
-- outage while the provider is down, else empty), code, reason, action (the call that met the
-- fault), since, next (Unix ms of the next probe), every (ms between two probes), polls (1:
-- polls are answered all the same), refusals (submits in a row that were refused), turn (Unix
-- ms before which no order is placed while the last submits were all refused), holder (the
-- order that took the last probe), up (Unix ms when the call was sent whose answer ended the
-- last fault).

-- So many refused submits in a row bound the submits of all targets to one in turn_every ms.
local most_refusals, turn_every, standing_ttl = 20, 5000, 86400000

-- standing_of reads the hash; numbers that are absent are 0, texts empty.
local function standing_of(key)
  local v, s = redis.call('HGETALL', key), {}
  for i = 1, #v, 2 do
    s[v[i]] = v[i + 1]
  end
  for _, name in ipairs({'since', 'next', 'every', 'refusals', 'turn', 'up'}) do
    s[name] = tonumber(s[name] or 0) or 0
  end
  s.kind, s.holder = s.kind or '', s.holder or ''
  return s
end

-- standing_set writes fields, name, value, …, and keeps the hash for a day.
local function standing_set(key, ...)
  redis.call('HSET', key, ...)
  redis.call('PEXPIRE', key, standing_ttl)
end

-- standing_wait returns the ms until an order may be placed at the provider; 0 = now. What is
-- further away than it can be was set before Redis' clock was set back.
local function standing_wait(s, now)
  if s.kind ~= '' then
    return math.max(0, math.min(s.next - now, math.max(s.every, 600000)))
  end
  if s.refusals >= most_refusals then
    return math.max(0, math.min(s.turn - now, turn_every))
  end
  return 0
end
