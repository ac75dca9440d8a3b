-- Takes a place at the end of a line of several, in few statements. Whatever is not so simple (nobody or one alone, a
-- lease of another life, 10,000 places) is left alone; a claim that has a place, or is refused one, is a duplicate.
--
-- :h  the key     :life  this life of the server     :id  claim     :mode :take :total  how it wishes to hold
-- :ttl     :who :label  note     :bell :ring  its doorbell and the name of that, which is taken before the place
-- can be seen
--
-- The second statement finds one row if there was such a line, and the third if it has taken a place. One row like that
-- of attempt.sql. What has lapsed is not removed: then it is for the long way to say how the claim stands.
START TRANSACTION;
UPDATE {lines} SET last = LAST_INSERT_ID(GREATEST(last + 1, {clock})), turns = turns + 1
  WHERE h = :h AND many = 1 AND id = {none} AND life = :life;
INSERT INTO {places} (h, id, seq, mode, take, total, ttl, deadline, taken, state, who, label, bell)
  SELECT :h, :id, LAST_INSERT_ID(), :mode, :take, :total, :ttl, {clock} + :ttl, {clock}, 0, :who, :label, :bell FROM DUAL
    WHERE ROW_COUNT() > 0 AND (SELECT COUNT(*) FROM {places} WHERE h = :h) < 10000;
SELECT 0, NULL, 1, LAST_INSERT_ID(), {clock}, COUNT(*) - 1, {holds}, MIN(IF(id = :id, NULL, deadline)),
    (SELECT CONCAT_WS(' ', mode, take, total) FROM {places}
      WHERE h = :h AND state < 2 AND seq < LAST_INSERT_ID()
        AND NOT (mode = :mode AND (:mode = 1 OR (:mode = 2 AND total = :total AND take + :take <= :total)))
      ORDER BY seq DESC LIMIT 1),
    {take}
  FROM {places} WHERE h = :h AND state < 2 AND seq <= LAST_INSERT_ID();
