-- Breaks exactly the hold that an operator looked at. Follows purge.sql. A waiter believes in nothing, so there is
-- nothing to wait for; its next attempt is refused.
--
-- :h  the key     :id :seq  the place     :gently  1 for at the end of its lease, 0 for at once
--
-- One row: 0 if there is no such place, 1 if it will be free, 2 if it is.
SET @hit = (SELECT COUNT(*) FROM {places} WHERE h = :h AND id = :id AND seq = :seq AND state < 2);
SET @stop = @hit AND :gently AND (SELECT {holds} FROM {places} WHERE h = :h AND state < 2 AND seq <= :seq);
UPDATE {places} SET deadline = IF(@stop, deadline, @now + ttl), state = IF(@stop, 1, 3)
  WHERE h = :h AND id = :id AND seq = :seq AND state < 2;
SELECT IF(@hit, IF(@stop, 1, 2), 0);
