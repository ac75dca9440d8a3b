-- Takes a key that was given back, in one statement and one row, and a new doorbell with it. Whatever is not so simple
-- (others, a lease of another life, what an operator or a release in doubt left) is left alone.
--
-- :h  the key     :life  this life of the server     :id  claim     :mode :take :total  how it wishes to hold
-- :ttl     :who :label  note     :bell :ring  its doorbell and the name of that
--
-- Changes one row if the key was free; the number is then what was inserted last.
UPDATE {lines} SET last = LAST_INSERT_ID(GREATEST(last + 1, {clock})), seq = last, turns = turns + 1 + {take},
    mode = :mode, take = :take, total = :total, ttl = :ttl, deadline = {clock} + :ttl, taken = {clock},
    who = :who, label = :label, bell = :bell, id = :id
  WHERE h = :h AND {free};
