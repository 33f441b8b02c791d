-- Shared: functions that read and write the journal, a hash with one line for each order.
--
-- KEYS   journal

-- entry_of parses the line of an order; nil if the line is missing or malformed. The states are i
-- (intent), s (about to be submitted), b (bought) and u (unknown whether bought).
local function entry_of(order)
  local placed, state, owner, unsolved, price, task, facts = string.match(
    redis.call('HGET', KEYS.journal, order) or '', '^(%d+)|(%a)|([^|]*)|(-?%d+)|(%d+)|([^|]*)|(.*)$')
  if not placed then
    return nil
  end
  return {placed = tonumber(placed), state = state, owner = owner,
    unsolved = tonumber(unsolved), price = tonumber(price), task = task, facts = facts}
end

-- write_entry stores an order's line in the form that entry_of parses.
local function write_entry(order, e)
  redis.call('HSET', KEYS.journal, order, table.concat({ms(e.placed), e.state, e.owner,
    ms(e.unsolved), ms(e.price), e.task, e.facts}, '|'))
end

-- is_bought reports whether an order in this state counts as bought.
local function is_bought(state)
  return state == 'b' or state == 'u'
end
