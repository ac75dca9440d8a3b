-- Prolongs the leases of many holds. Names the id and the number of each, and creates nothing. The rows of the keys are
-- locked in the order of their hashes, so that two who renew never wait for each other in a circle.
--
-- :keys  the keys     :wanted  a table of i, h, id, seq, t (ttl)     :life  this life of the server
-- :floor  the largest number that last numbers are to be raised to
--
-- Rows: 1 if the floor is absurd; then i of each hold that lives on.
START TRANSACTION;
SELECT COUNT(*) INTO @lines FROM {lines} FORCE INDEX (PRIMARY) WHERE h IN (:keys) FOR UPDATE;
SET @now = {clock};
SET @absurd = :floor > @now + 86400000000;
UPDATE {lines} l STRAIGHT_JOIN {places} p ON p.h = l.h SET p.deadline = @now + p.ttl
  WHERE l.h IN (:keys) AND (l.life <> :life OR p.deadline > @now + p.ttl);
UPDATE {lines} SET deadline = IF(life <> :life OR deadline > @now + ttl, @now + ttl, deadline), life = :life
  WHERE h IN (:keys) AND (life <> :life OR deadline > @now + ttl);
SELECT @absurd;
SELECT w.i FROM (:wanted) w STRAIGHT_JOIN {lines} l ON l.h = w.h
  WHERE l.id = w.id AND l.seq = w.seq AND l.deadline > @now;
SELECT w.i FROM (:wanted) w STRAIGHT_JOIN {places} p ON p.h = w.h AND p.id = w.id
  WHERE p.seq = w.seq AND p.state = 0 AND p.deadline > @now FOR UPDATE;
UPDATE (:wanted) w STRAIGHT_JOIN {lines} l ON l.h = w.h
  SET l.deadline = GREATEST(l.deadline, @now + w.t), l.ttl = GREATEST(l.ttl, w.t)
  WHERE l.id = w.id AND l.seq = w.seq AND l.deadline > @now AND NOT @absurd;
UPDATE (:wanted) w STRAIGHT_JOIN {places} p ON p.h = w.h AND p.id = w.id
  SET p.deadline = GREATEST(p.deadline, @now + w.t), p.ttl = GREATEST(p.ttl, w.t)
  WHERE p.seq = w.seq AND p.state = 0 AND p.deadline > @now AND NOT @absurd;
