-- The same for a key that may have no row yet. The mark is locked with it, against those who remove rows.
--
-- :h :name :shard  the key and its mark     :life  this life of the server     :id  claim
-- :mode :take :total  how it wishes to hold     :ttl     :who :label  note
-- :bell :ring  its doorbell and the name of that
--
-- What was inserted last is the number, or 0 if the key was not free. A new doorbell is taken either way.
INSERT INTO {lines}
    (h, name, life, turns, last, many, id, seq, mode, take, total, ttl, deadline, taken, who, label, bell)
  VALUES (:h, :name, :life, 1 + {take},
    LAST_INSERT_ID(GREATEST(COALESCE((SELECT n + 1 FROM {marks} WHERE shard = :shard), 0), {clock})), 0,
    :id, last, :mode, :take, :total, :ttl, {clock} + :ttl, {clock}, :who, :label, :bell)
  ON DUPLICATE KEY UPDATE
    last = IF({free}, LAST_INSERT_ID(GREATEST(last + 1, {clock})), last + LAST_INSERT_ID(0)),
    turns = turns + ({free}),
    seq = IF({free}, last, seq), mode = IF({free}, :mode, mode), take = IF({free}, :take, take),
    total = IF({free}, :total, total), ttl = IF({free}, :ttl, ttl),
    deadline = IF({free}, {clock} + :ttl, deadline), taken = IF({free}, {clock}, taken),
    who = IF({free}, :who, who), label = IF({free}, :label, label), bell = IF({free}, :bell, bell),
    id = IF({free}, :id, id);
