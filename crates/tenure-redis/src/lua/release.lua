-- Makes a claim neither hold nor wait, touches no other, and tells those who now hold.
--
-- KEYS[1]  the line
-- ARGV[1]  claim id, life   ARGV[2]  its ttl, if an attempt of this claim may still be on its way
--
-- 1 if it had a place, 0 if not.

local doubt = ARGV[2]
local found = redis.call('HGET', KEYS[1], 'line')

-- Nobody else is in line, and the lease is as it should be. (Where its parts stand is said in one.lua.)
if found and not doubt and string.sub(found, 17, 40) == ARGV[1] then
  local ttl = struct.unpack('>d', found, 42)
  local left = redis.call('PTTL', KEYS[1]) * 1000 - ttl
  if left > 0 and left <= ttl + 1000000 then
    redis.call('DEL', KEYS[1])
    return 1
  end
end

-- [head.lua]

local id = string.sub(ARGV[1], 1, 16)

-- It holds alone, and so will the next in line: the lock changes hands.
if found and not doubt then
  local fine, head = pcall(cmsgpack.unpack, found)
  if fine and type(head) == 'table' and #head == FIELDS and head[1] == incarnation and now < head[2] and head[4] == 1
    and head[5] == 'x' and head[10] <= now + SECOND and string.sub(head[9], 1, 16) == id and #head[9] > 16 then
    local next_id = string.sub(head[9], 17, 32)
    local packed = redis.call('HGET', KEYS[1], next_id)
    local place = packed and cmsgpack.unpack(packed)
    if place and place[MODE] == 'x' then
      redis.call('HDEL', KEYS[1], id, 'n' .. id)
      head[9], head[10], head[11] = string.sub(head[9], 17), now, place[SEQ]
      redis.call('HSET', KEYS[1], 'line', cmsgpack.pack(head))
      redis.call('PUBLISH', place[CLIENT], 'H' .. next_id .. struct.pack('>d', place[SEQ]) .. incarnation)
      return 1
    end
  end
end

-- [line.lua]

local line = read(KEYS[1], id)
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
  bury(line, id, tonumber(doubt), RELEASED)
end
save(line)
return freed
