-- Forgets a guest's figures that are in the row of all guests; not those of a later
-- time.
--
-- KEYS  1 retired
-- ARGV  1 name of the figures
-- Answer: 1 forgotten, 0 there are none of this name.
if redis.call('HGET', KEYS[1], 'nonce') ~= ARGV[1] then
  return 0
end
return redis.call('DEL', KEYS[1])
