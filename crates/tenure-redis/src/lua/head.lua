-- What every verb knows. This text stands where a verb says so. (Names of numbers are gone from what is sent.)
--
-- ARGV[1]  ends with the life of this server, as its client found it (8 bytes)
--
-- A line is one hash, so that expiry and eviction take all of it or nothing:
--   line    what holds for the line as a whole, in the order of pack_line. In a line of one, which nobody else has
--           asked for yet, the place itself as in one.lua, and no other field: its lease is the key's own expiry less
--           one ttl, so that renewing it changes nothing else
--   <id>    a place (16 bytes), in the order of SEQ and so on; or a grave, which only refuses an id
--   n<id>   who stands there, for people
--   p<8 bytes>  a part of the order that is not the first, as in order.lua
-- Times are microseconds of this server's clock, as all numbers below 2^53. A place is alive while now < deadline.
-- The key outlives its last place by one lease: a replica whose clock is fast must not drop what it has not looked at.
-- A place's ttl is the longest lease it was ever given: nobody believes in it for longer than that from now on.

local SEQ, MODE, TAKE, OF, TTL, DEADLINE, TAKEN, STATE, CLIENT, ID, LIFE, NOTE = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12
local STANDS, STOPPED, RELEASED, EVICTED = 0, 1, 2, 3 -- stopped: evicted, and free at its deadline
local FAR, SECOND = 9007199254740991, 1000000
local FIELDS = 14 -- of what pack_line packs

local incarnation = string.sub(ARGV[1], -8)
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
