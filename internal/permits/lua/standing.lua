-- Shared: the standing of a provider, a hash that all replicas share.
--
-- KEYS   standing
--
-- Its fields: kind (account or outage while the provider is down, else empty), code, reason,
-- action (the call that met the fault), since, next (Unix ms of the next probe), every (ms
-- between two probes), polls (1: the provider still answers polls), refusals (refused submits
-- in a row), turn (Unix ms before which no order is placed while the last submits were all
-- refused), holder (the order that took the last probe), up (Unix ms when the call was sent
-- whose answer ended the last fault).

-- After most_refusals refused submits in a row all targets together place one order in
-- turn_every ms.
local most_refusals, turn_every, standing_ttl = 20, 5000, 86400000

-- standing_of reads the hash; an absent number is 0, an absent text empty.
local function standing_of()
  local s = pairs_of(redis.call('HGETALL', KEYS.standing))
  for _, name in ipairs({'since', 'next', 'every', 'refusals', 'turn', 'up'}) do
    s[name] = tonumber(s[name] or 0) or 0
  end
  s.kind, s.holder = s.kind or '', s.holder or ''
  return s
end

-- standing_set writes fields, given as name, value, …, and keeps the hash for a day.
local function standing_set(...)
  redis.call('HSET', KEYS.standing, ...)
  redis.call('PEXPIRE', KEYS.standing, standing_ttl)
end

-- standing_wait returns the ms until an order may be placed at the provider; 0 = now. A wait
-- longer than any interval was set before Redis' clock was set back.
local function standing_wait(s, now)
  if s.kind ~= '' then
    return math.max(0, math.min(s.next - now, math.max(s.every, 600000)))
  end
  if s.refusals >= most_refusals then
    return math.max(0, math.min(s.turn - now, turn_every))
  end
  return 0
end
