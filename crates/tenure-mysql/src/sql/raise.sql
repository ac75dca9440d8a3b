-- Lifts a mark to a floor. Follows renew.sql.
--
-- :shard  the mark     :floor
INSERT INTO {marks} (shard, n) SELECT :shard, :floor FROM DUAL WHERE NOT @absurd
  ON DUPLICATE KEY UPDATE n = GREATEST(n, :floor);
