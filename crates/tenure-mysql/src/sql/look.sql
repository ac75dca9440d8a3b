-- Which of some waiting claims hold by now. Reads one state of the tables, and changes nothing: those ahead only ever
-- leave, so a place that once was at the front stays there until it goes itself.
--
-- :wanted  a table of i, h, id, seq
--
-- For each: i, 1 if its place stands, 1 if it holds.
SELECT w.i,
    (SELECT COUNT(*) FROM {places} p
      WHERE p.h = w.h AND p.id = w.id AND p.seq = w.seq AND p.state = 0 AND p.deadline > {clock}),
    (SELECT {holds} FROM {places} p WHERE p.h = w.h AND p.state < 2 AND p.seq <= w.seq)
  FROM (:wanted) w;
