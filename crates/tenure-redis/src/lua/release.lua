-- Makes a claim neither hold nor wait, touches no other, and tells those who now hold.
--
-- KEYS[1]  the line
-- ARGV[3]  claim id   ARGV[4]  its ttl, if an attempt of this claim may still be on its way
--
-- 1 if it had a place, 0 if not.

local id, doubt = ARGV[3], ARGV[4]
local found = redis.call('HMGET', KEYS[1], 'line', id)

-- Nobody else is in line, and the lease is as it should be. (The numbers of the fields are those of head.lua.)
if found[1] and not found[2] and not doubt then
  local fine, place = pcall(cmsgpack.unpack, found[1])
  if fine and type(place) == 'table' and place[10] == id and place[11] == ARGV[1] then
    local left = redis.call('PTTL', KEYS[1]) * 1000 - place[5]
    if left > 0 and left <= place[5] + 1000000 then
      redis.call('DEL', KEYS[1])
      return 1
    end
  end
end

-- [head.lua]

-- It holds alone, and so will the next in line: the lock changes hands.
if found[2] and not doubt then
  local fine, head = pcall(cmsgpack.unpack, found[1])
  if fine and type(head) == 'table' and #head == 10 and head[1] == incarnation and now < head[2] and head[4] == 1
    and head[5] == 'x' and head[10] <= now + SECOND and string.sub(head[9], 1, 16) == id and #head[9] > 16 then
    local next_id = string.sub(head[9], 17, 32)
    local place = cmsgpack.unpack(redis.call('HGET', KEYS[1], next_id))
    if place[MODE] == 'x' then
      redis.call('HDEL', KEYS[1], id, 'n' .. id)
      head[9], head[10] = string.sub(head[9], 17), now
      redis.call('HSET', KEYS[1], 'line', cmsgpack.pack(head))
      local message = 'H' .. next_id .. string.format('%.0f ', place[SEQ]) .. incarnation
      redis.call('PUBLISH', channels .. place[CLIENT], message)
      return 1
    end
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
