-- Turns an exclusive hold into a shared one at the same place, and lets in those who now hold beside it.
--
-- KEYS[1]  the line
-- ARGV[1]  claim id, life   ARGV[2]  number   ARGV[3]  ttl
--
-- 1 if the hold lives on, 0 if there is no such place, -1 if its mode has no weaker one.

-- [head.lua]

-- [line.lua]

local id = string.sub(ARGV[1], 1, 16)
local line = read(KEYS[1], id)
local place = line.places[id]
local answer = 0
if place and place[STATE] == STANDS and place[SEQ] == tonumber(ARGV[2]) then
  answer = place[MODE] == 'p' and -1 or 1
  if answer == 1 then
    place[MODE] = 's'
    prolong(line, id, place, tonumber(ARGV[3]))
    if place[SEQ] <= line.inside then
      line.mode = 's'
      settle(line)
    end
  end
end
save(line)
return answer
