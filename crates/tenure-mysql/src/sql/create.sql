-- Locks the key's row, which is made if there is none. INSERT … SELECT does not lock the mark, as VALUES would.
--
-- :h :name :shard  the key and its mark      :life  this life of the server
START TRANSACTION;
INSERT INTO {lines}
    (h, name, life, turns, last, many, id, seq, mode, take, total, ttl, deadline, taken, who, label, bell)
  SELECT :h, :name, :life, 1, COALESCE((SELECT n FROM {marks} WHERE shard = :shard), 0), 0,
    {none}, 0, 0, 0, 0, 0, 0, 0, '', '', {none} FROM DUAL
  ON DUPLICATE KEY UPDATE turns = turns + 1;
