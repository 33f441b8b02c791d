-- Keeps a window until it is over, or ends all of them.
--
-- KEYS  1 warm
-- ARGV  1 tokens (0 = end all)  2 ms until it begins  3 ms until it ends
--       4 most windows  5 slack, ms
-- Answer: 1 what was asked for holds, 0 there are too many windows.
local now = now_ms()
local new = {tokens = tonumber(ARGV[1]), begins = now + math.max(0, tonumber(ARGV[2])),
  ends = now + tonumber(ARGV[3])}
if new.tokens == 0 then
  redis.call('DEL', KEYS[1])
  return 1
end

-- covers reports whether b asks for nothing that a does not, but for as long as
-- `give` at either end; what has begun begins now.
local function covers(a, b, give)
  local from, start = math.max(a.begins, now), math.max(b.begins, now)
  return a.tokens >= b.tokens and from <= start + give and a.ends >= b.ends - give
    and from <= b.ends and start <= a.ends
end

local windows = windows_of(KEYS[1], now)
if new.begins >= new.ends then
  return 1
end
-- The same moment asked for again, by a client or because an answer was lost,
-- comes out a little earlier or later. So the new window covers others give or
-- take the slack, and is then made as long as both. An older one that wants more
-- stays as it is: calls again and again for fewer would make it last for ever.
local slack = tonumber(ARGV[5])
local begins, ends, last, dropped = new.begins, new.ends, new.ends, {}
for _, w in ipairs(windows) do
  if covers(w, new, 0) then
    return 1
  end
  last = math.max(last, w.ends)
  if covers(new, w, slack) or (w.tokens == new.tokens and covers(w, new, slack)) then
    begins, ends = math.min(begins, w.begins), math.max(ends, w.ends)
    dropped[#dropped + 1] = w.member
  end
end
if #windows - #dropped >= tonumber(ARGV[4]) then
  return 0
end
for _, member in ipairs(dropped) do
  redis.call('ZREM', KEYS[1], member)
end
redis.call('ZADD', KEYS[1], ms(ends), ms(begins) .. '|' .. ms(new.tokens))
-- What is over is told by its score; the embedded server's TTLs run by the tick.
redis.call('PEXPIRE', KEYS[1], ms(last - now + 60000))
return 1
