-- Begins a survey of all guests: the row of those that are gone, and who is there.
--
-- KEYS  1 guests  2 row  3 hold
-- ARGV  1 name of this survey  2 how long nothing may be added to the row, ms; 0 = it
--       may
-- Answer: the row as name, value, …; and the identities.
if ARGV[2] ~= '0' then
  redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[2])
end
redis.call('PEXPIRE', KEYS[1], stats_ttl)
redis.call('PEXPIRE', KEYS[2], stats_ttl)
return {redis.call('HGETALL', KEYS[2]), redis.call('ZRANGE', KEYS[1], 0, -1)}
