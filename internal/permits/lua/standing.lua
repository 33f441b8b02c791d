-- Shared: functions for the standing of a provider, a hash that all replicas share.
--
-- KEYS   standing
--
-- The hash has these fields: kind (account or outage while the provider is down, else empty), code,
-- reason, action (the call that failed), since (Unix ms), next (Unix ms of the next probe), every
-- (ms between two probes), polls (1 = the provider still answers polls), refusals (number of
-- refused submits in a row), turn (Unix ms of the next order while the provider refuses submits),
-- holder (the order that was the last probe), up (Unix ms at which the call that ended the last
-- fault was sent).

-- After most_refusals refused submits in a row, all targets together place only one order in
-- turn_every ms.
local most_refusals, turn_every, standing_ttl = 20, 5000, 86400000

-- standing_of reads the hash. An absent number counts as 0, an absent text as empty.
local function standing_of()
  local s = pairs_of(redis.call('HGETALL', KEYS.standing))
  for _, name in ipairs({'since', 'next', 'every', 'refusals', 'turn', 'up'}) do
    s[name] = tonumber(s[name] or 0) or 0
  end
  s.kind, s.holder = s.kind or '', s.holder or ''
  return s
end

-- standing_set writes fields, given as name, value, …, and extends the life of the hash to a day.
local function standing_set(...)
  redis.call('HSET', KEYS.standing, ...)
  redis.call('PEXPIRE', KEYS.standing, standing_ttl)
end

-- standing_wait returns the ms until an order may be placed at the provider; 0 = now. The wait is
-- limited to the longest interval, in case Redis' clock was set back.
local function standing_wait(s, now)
  if s.kind ~= '' then
    return math.max(0, math.min(s.next - now, math.max(s.every, 600000)))
  end
  if s.refusals >= most_refusals then
    return math.max(0, math.min(s.turn - now, turn_every))
  end
  return 0
end
