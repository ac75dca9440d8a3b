-- Breaks exactly the hold that an operator looked at, and tells its owner.
--
-- KEYS[1]  the line
-- ARGV[1]  claim id, life   ARGV[2]  number   ARGV[3]  1 for at once, 0 for at the end of its lease
--
-- 2 if the place is free, 1 if it will be, 0 if there is no such place.

-- [head.lua]

-- [line.lua]

local id, at_once = string.sub(ARGV[1], 1, 16), ARGV[3] == '1'
local line = read(KEYS[1], id)
local place = line.places[id]
local answer = 0
if place and place[STATE] <= STOPPED and place[SEQ] == tonumber(ARGV[2]) then
  tell(line, 'L', id, place)
  if not at_once and place[SEQ] <= line.inside then
    place[STATE] = STOPPED
    write(line, id, place)
    answer = 1
  else
    -- A waiter believes in nothing, so there is nothing to wait for; its next attempt is refused.
    remove(line, id, place)
    bury(line, id, place[TTL], EVICTED)
    settle(line)
    answer = 2
  end
end
save(line)
return answer
