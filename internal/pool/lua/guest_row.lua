-- Begins a survey of all guests: reads the row of the former guests and lists the present guests.
--
-- KEYS   guests row hold
-- ARGV   survey hold_ms;
--        survey: random name of the survey
--        hold_ms: time in which no figures may be added to the row, 0 = no hold
-- Reply  {row identities};
--        row: name, value, …
-- Errors OOM before any change
if ARGV.hold_ms ~= '0' then
  redis.call('SET', KEYS.hold, ARGV.survey, 'PX', ARGV.hold_ms)
end
redis.call('PEXPIRE', KEYS.guests, stats_ttl)
redis.call('PEXPIRE', KEYS.row, stats_ttl)
return {redis.call('HGETALL', KEYS.row), redis.call('ZRANGE', KEYS.guests, 0, -1)}
