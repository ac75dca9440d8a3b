-- The same for a key that may have no row yet. The mark is read first, because an INSERT would lock what it reads.
--
-- :h :name :shard  the key and its mark     :life  this life of the server     :id  claim
-- :mode :take :total  how it wishes to hold     :ttl     :who :label  note     :ring  what takes the doorbell
--
-- What the second statement inserted last is the number, or 0 if the key was not free.
SELECT GREATEST(COALESCE((SELECT n + 1 FROM {marks} WHERE shard = :shard), 0), {clock}) INTO @n;
INSERT INTO {lines}
    (h, name, life, turns, last, many, id, seq, mode, take, total, ttl, deadline, taken, who, label)
  VALUES (:h, :name, :life, 1, LAST_INSERT_ID(@n), 0,
    :id, @n, :mode, :take, :total, :ttl, {clock} + :ttl, {clock}, :who, :label)
  ON DUPLICATE KEY UPDATE
    last = IF({free}, LAST_INSERT_ID(GREATEST(last + 1, {clock})), last + LAST_INSERT_ID(0)),
    turns = turns + ({free}),
    seq = IF({free}, last, seq), mode = IF({free}, :mode, mode), take = IF({free}, :take, take),
    total = IF({free}, :total, total), ttl = IF({free}, :ttl, ttl),
    deadline = IF({free}, {clock} + :ttl, deadline), taken = IF({free}, {clock}, taken),
    who = IF({free}, :who, who), label = IF({free}, :label, label), id = IF({free}, :id, id);
DO IF(LAST_INSERT_ID() > 0, :ring, 0);
