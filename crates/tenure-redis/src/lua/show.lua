-- The places of a line in order, for people. Changes nothing.
--
-- KEYS[1]  the line
--
-- For each place that lives: claim id, number, mode, take, of, lease left, age, note.

-- [head.lua]

-- [one.lua]

-- [order.lua]

local shown = {}

local function show(id, place, deadline, note)
  if now < deadline then
    for _, value in ipairs({
      id, place[SEQ], place[MODE], place[TAKE], place[OF], deadline - now, math.max(0, now - place[TAKEN]), note,
    }) do
      table.insert(shown, value)
    end
  end
end

local all = redis.call('HGETALL', KEYS[1])
local fields = {}
for i = 1, #all, 2 do
  fields[all[i]] = all[i + 1]
end
if fields.line then
  -- If another clock wrote a line, the first verb will give it a whole lease.
  local one = unpack_one(fields.line)
  if one then
    local left = one[LIFE] == incarnation and redis.call('PTTL', KEYS[1]) * 1000 - one[TTL] or one[TTL]
    show(one[ID], one, now + math.min(left, one[TTL]), one[NOTE])
    return shown
  end
  local fine, head = pcall(cmsgpack.unpack, fields.line)
  if not fine or type(head) ~= 'table' or #head ~= FIELDS then
    foreign()
  end
  local moved, line = head[1] ~= incarnation or now + SECOND < head[10], { key = KEYS[1], calm = 0, orders = {} }
  unpack_order(line, head[9], head[14])
  for part = 1, #line.lengths do
    local order = order_of(line, part)
    for at = 1, #order, 16 do
      local id = string.sub(order, at, at + 15)
      local place = fields[id] and cmsgpack.unpack(fields[id]) or foreign()
      show(id, place, moved and now + place[TTL] or place[DEADLINE], fields['n' .. id] or '')
    end
  end
end
return shown
