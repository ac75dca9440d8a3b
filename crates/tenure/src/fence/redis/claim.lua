-- Claims, by the rule of `Record::claim`. Fences are 19 digits each, and compared as text: as numbers they would blur.
--
-- KEYS[1]  the record
-- ARGV     fence, claim id, 1 for a shared hold
--
-- { 1 if it was claimed, the record as it was }
local kept = redis.call('GET', KEYS[1]) or NOBODY
local writer, claim, n, mark = string.match(kept, PATTERN)
if not writer then
  return redis.error_reply('-DAMAGED the record of a fence is damaged')
end
local fence, id, shared = ARGV[1], ARGV[2], ARGV[3] == '1'
local mine = writer == fence and claim == id
if shared and writer < fence then
  if mark < fence then
    redis.call('SET', KEYS[1], table.concat({ writer, claim, n, fence }, ' '))
  end
  return { 1, kept }
elseif not shared and mark < fence then
  redis.call('SET', KEYS[1], table.concat({ fence, id, '0', fence }, ' '))
  return { 1, kept }
elseif mine and (shared or mark == fence) then
  return { 1, kept }
end
return { 0, kept }
