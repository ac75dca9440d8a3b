-- Leaves a line of several, in few statements. Whatever is not so simple (a place that has lapsed or was evicted, a
-- lease of another life) is left alone.
--
-- :h  the key     :life  this life of the server     :id  claim
--
-- The third statement finds one row if the claim had a place, and the fourth if nobody is left.
START TRANSACTION;
UPDATE {lines} SET turns = turns + 1 WHERE h = :h AND life = :life;
DELETE FROM {places} WHERE h = :h AND id = :id AND state = 0 AND deadline > {clock} AND deadline <= {clock} + ttl
  AND ROW_COUNT() > 0;
UPDATE {lines} SET many = 0 WHERE h = :h AND NOT EXISTS (SELECT 1 FROM {places} WHERE {places}.h = :h);
