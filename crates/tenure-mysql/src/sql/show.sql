-- The places of lines in order, for people. Changes nothing. If another clock wrote a line, the first verb will give it
-- a whole lease.
--
-- :which  which lines     :limit  the most rows     :life  this life of the server
--
-- For each place that lives: key, claim id, number, mode, take, total, lease left, age, who, label.
SELECT s.name, s.id, s.seq, s.mode, s.take, s.total,
    IF(s.fresh OR s.deadline > s.now + s.ttl, s.ttl, s.deadline - s.now), GREATEST(s.now - s.taken, 0), s.who, s.label
  FROM (SELECT l.name, l.life <> :life AS fresh, {clock} AS now,
        p.id, p.seq, p.mode, p.take, p.total, p.ttl, p.deadline, p.taken, p.who, p.label
      FROM {lines} l JOIN {places} p ON p.h = l.h WHERE :which AND p.state < 2
    UNION ALL SELECT l.name, l.life <> :life, {clock},
        l.id, l.seq, l.mode, l.take, l.total, l.ttl, l.deadline, l.taken, l.who, l.label
      FROM {lines} l WHERE :which AND l.id <> {none}) s
  WHERE s.fresh OR s.deadline > s.now
  ORDER BY s.name, s.seq LIMIT :limit;
