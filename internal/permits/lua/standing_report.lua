-- Records a fault of a provider, or the end of a fault.
--
-- Uses   standing
-- KEYS   standing
-- ARGV   kind code reason action next_ms every_ms polls ago_ms;
--        kind: account, outage or '' (the provider answers)
--        next_ms: time until the next probe
--        every_ms: interval between two probes
--        polls: 1 = the provider still answers polls
--        ago_ms: time since the fault began or, without a kind, since the answered call was sent
-- Reply  1 the standing was changed, 0 newer or other facts in Redis forbid the change
-- Errors OOM before any change
local s, now = standing_of(), now_ms()
local at = now - tonumber(ARGV.ago_ms)
if ARGV.kind == '' then
  if s.kind == '' or at < s.since then
    return 0
  end
  standing_set('kind', '', 'up', ms(at))
  return 1
end
-- A replica with stale information must not report a fault again after the fault has ended.
local over = s.kind == '' and at < s.up and s.up <= now
if over or (s.kind == 'account' and ARGV.kind == 'outage') then
  return 0
end
local next, since = now + tonumber(ARGV.next_ms), at
if s.kind == ARGV.kind then
  next, since = math.max(next, s.next), math.min(since, s.since)
end
standing_set('kind', ARGV.kind, 'code', ARGV.code, 'reason', ARGV.reason, 'action', ARGV.action,
  'next', ms(next), 'every', ARGV.every_ms, 'polls', ARGV.polls, 'since', ms(since))
return 1
