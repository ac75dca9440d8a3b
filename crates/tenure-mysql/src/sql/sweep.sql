-- Removes keys that nobody has wanted for a while, or that were left by one who died alone, and keeps the largest of
-- their numbers. A number that the clock has not passed keeps its row.
--
-- :keys  the keys     :life  this life of the server     :age  for how long, in microseconds
START TRANSACTION;
SET @old = {clock} - :age;
INSERT INTO {marks} (shard, n)
  SELECT * FROM (SELECT ORD(LEFT(h, 1)) AS shard, MAX(last) AS n FROM {lines}
    WHERE h IN (:keys) AND last < @old GROUP BY ORD(LEFT(h, 1))) swept
  ON DUPLICATE KEY UPDATE n = GREATEST({marks}.n, swept.n);
DELETE FROM {lines} WHERE h IN (:keys) AND last < @old AND many = 0
  AND (id = {none} OR (life = :life AND deadline < @old));
