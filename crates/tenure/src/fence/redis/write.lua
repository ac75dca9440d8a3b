-- Does one write, if the record is what it must be for it to be the next one. The effect stands at the end, and sees
-- its own keys and arguments only.
--
-- KEYS[1]  the record; after it those of the effect
-- ARGV     the record before the write, the record after it; after them those of the effect
--
-- { 1 if it was done, the record as it was }
local kept = redis.call('GET', KEYS[1]) or NOBODY
if kept ~= ARGV[1] then
  return { 0, kept }
end
local function effect(KEYS, ARGV)
-- [effect]
end
effect({ unpack(KEYS, 2) }, { unpack(ARGV, 3) })
redis.call('SET', KEYS[1], ARGV[2])
return { 1, kept }
