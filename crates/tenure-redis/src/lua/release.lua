-- Makes a claim neither hold nor wait, touches no other, and tells those who now hold.
--
-- KEYS[1]  the line
-- ARGV[3]  claim id   ARGV[4]  ttl   ARGV[5]  1 if an attempt of this claim may still be on its way
--
-- 1 if it had a place, 0 if not.
local id, doubt = ARGV[3], ARGV[5] == '1'
local found = redis.call('HMGET', KEYS[1], 'line', id)

-- It holds, and nobody else is in line.
if found[2] and not doubt then
  local life, calm, _, _, _, _, _, graves, order, seen = unpack(cmsgpack.unpack(found[1]))
  if order == id and graves == 0 and now < calm and not is_foreign_time(life, seen) then
    redis.call('DEL', KEYS[1])
    return 1
  end
end

-- [line.lua]

local line = read(KEYS[1], id, found)
local place = line.places[id]
local freed = 0
if place then
  if place[STATE] == STANDS or place[STATE] == STOPPED then
    freed = 1
  end
  remove(line, id, place)
  settle(line)
end
if doubt then
  bury(line, id, tonumber(ARGV[4]), RELEASED)
end
save(line)
return freed
