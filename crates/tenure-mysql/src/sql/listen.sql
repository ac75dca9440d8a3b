-- Blocks until the nearest place ahead that a claim cannot hold beside is gone, by its doorbell. Locks no row (as a
-- read in SET would) and leaves nothing behind: a doorbell that was heard is passed on at once to the next who listens for it. Among permits,
-- any of several may make room, and one doorbell is not enough; then there is none to hear.
--
-- :h  the key     :seq  the claim's number     :mode :take :total  how it wishes to hold     :seconds  the longest wait
--
-- One row: 1 if there was a doorbell to wait for, 0 if not.
SELECT NOT ({holds}) INTO @blocked FROM {places} WHERE h = :h AND state < 2 AND seq <= :seq;
SELECT IF(@blocked, COALESCE(
    (SELECT bell FROM {places} WHERE h = :h AND state < 2 AND seq < :seq
        AND NOT (mode = :mode AND (:mode = 1 OR (:mode = 2 AND total = :total AND take + :take <= :total)))
      ORDER BY seq DESC LIMIT 1),
    (SELECT IF(COUNT(*) = 1, MAX(bell), NULL) FROM {places} WHERE h = :h AND state < 2 AND seq < :seq)), NULL)
  INTO @ahead;
SET @bell = LOWER(CONCAT('tenure.', HEX(@ahead)));
SET @rings = IF(@bell IS NULL, 0, NOT IS_FREE_LOCK(@bell));
SET @rung = IF(@rings, GET_LOCK(@bell, :seconds), 0);
SELECT @rings, IF(@rung = 1, RELEASE_LOCK(@bell), 0);
