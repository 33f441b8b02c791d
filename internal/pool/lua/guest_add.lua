-- Adds a guest's figures to the row of all guests, once.
--
-- KEYS   row added hold
-- ARGV   name not_after known_ms, then name and value of each figure;
--        name: nonce of the figures
--        not_after: Unix ms
--        known_ms: life of the nonce, longer than the life of the figures
-- Reply  1 the figures were added, 0 an earlier call added them, -1 the call came too late, -2 a
--        survey forbids additions now
-- Errors OOM before any change
local now = now_ms()
if redis.call('ZSCORE', KEYS.added, ARGV.name) then
  return 0
end
-- After not_after, another replica may have added the figures, and Redis may already have forgotten
-- their nonce.
if now > tonumber(ARGV.not_after) then
  return -1
end
if redis.call('EXISTS', KEYS.hold) == 1 then
  return -2
end
redis.call('ZREMRANGEBYSCORE', KEYS.added, '-inf', ms(now))
redis.call('ZADD', KEYS.added, ms(now + tonumber(ARGV.known_ms)), ARGV.name)
redis.call('PEXPIRE', KEYS.added, ARGV.known_ms)
local figures = {folds = 1}
for i = ARGV.size + 1, #ARGV, 2 do
  figures[ARGV[i]] = tonumber(ARGV[i + 1])
end
add_figures(KEYS.row, figures)
return 1
