-- Shared: the journal, a hash of one line for each order.
--
-- KEYS   journal

-- entry_of reads an order's line; nil if there is none or it is not readable. States: i
-- intent, s about to be submitted, b bought, u unknown whether bought.
local function entry_of(order)
  local placed, state, owner, unsolved, price, task, facts = string.match(
    redis.call('HGET', KEYS.journal, order) or '', '^(%d+)|(%a)|([^|]*)|(-?%d+)|(%d+)|([^|]*)|(.*)$')
  if not placed then
    return nil
  end
  return {placed = tonumber(placed), state = state, owner = owner,
    unsolved = tonumber(unsolved), price = tonumber(price), task = task, facts = facts}
end

-- write_entry is the inverse of entry_of.
local function write_entry(order, e)
  redis.call('HSET', KEYS.journal, order, table.concat({ms(e.placed), e.state, e.owner,
    ms(e.unsolved), ms(e.price), e.task, e.facts}, '|'))
end

-- is_bought reports whether an order in this state was counted as bought.
local function is_bought(state)
  return state == 'b' or state == 'u'
end
