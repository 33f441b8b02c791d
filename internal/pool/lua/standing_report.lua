-- Notes what a replica met at a provider: a fault, or the end of one.
--
-- KEYS  1 standing
-- ARGV  1 kind: account, outage or '' (the provider answers)  2 code  3 reason  4 action
--       5 ms until the next probe  6 ms between two probes  7 1 if polls are answered
--       8 ms since the fault began or, with an empty kind, since the call that was answered
--       was sent
-- Reply: 1 noted, 0 another replica knows better.
local s, now = standing_of(KEYS[1]), now_ms()
local at = now - tonumber(ARGV[8])
if ARGV[1] == '' then
  if s.kind == '' or at < s.since then
    return 0
  end
  standing_set(KEYS[1], 'kind', '', 'up', ms(at))
  return 1
end
-- A replica that has not heard of the fault's end must not bring it back.
local over = s.kind == '' and at < s.up and s.up <= now
if over or (s.kind == 'account' and ARGV[1] == 'outage') then
  return 0
end
local next, since = now + tonumber(ARGV[5]), at
if s.kind == ARGV[1] then
  next, since = math.max(next, s.next), math.min(since, s.since)
end
standing_set(KEYS[1], 'kind', ARGV[1], 'code', ARGV[2], 'reason', ARGV[3], 'action', ARGV[4],
  'next', ms(next), 'every', ARGV[6], 'polls', ARGV[7], 'since', ms(since))
return 1
