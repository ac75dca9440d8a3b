-- The places of a line in order, for people. Changes nothing.
--
-- KEYS[1]  the line
--
-- For each place that lives: claim id, number, mode, take, of, lease left, age, note.
local all = redis.call('HGETALL', KEYS[1])
local fields = {}
for i = 1, #all, 2 do
  fields[all[i]] = all[i + 1]
end
local shown = {}
if fields.line then
  local line = cmsgpack.unpack(fields.line)
  local moved, order = is_foreign_time(line[1], line[10]), line[9]
  for at = 1, #order, 16 do
    local id = string.sub(order, at, at + 15)
    local place = cmsgpack.unpack(fields[id])
    -- If another clock wrote this, the first verb will give it a whole lease.
    local deadline = moved and now + place[TTL] or place[DEADLINE]
    if now < deadline then
      for _, value in ipairs({
        id, place[SEQ], place[MODE], place[TAKE], place[OF], deadline - now, math.max(0, now - place[TAKEN]),
        fields['n' .. id] or '',
      }) do
        table.insert(shown, value)
      end
    end
  end
end
return shown
