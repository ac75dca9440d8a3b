-- Tries once: takes a place or keeps the one it has, refreshes its lease, and says whether it holds. Follows create.sql,
-- spill.sql and purge.sql.
--
-- :h  the key     :id  claim     :mode :take :total  how it wishes to hold     :ttl
-- :queue  1 to wait, 0 not to         :floor  the least number               :who :label  note     :bell  its doorbell
--
-- One row: 1 if the floor is absurd, what its row's state was (NULL if it had none), 1 if it takes a place now,
-- number, clock, how many are ahead, 1 if it holds, when the first lease ahead ends, the blocker's mode, take and total
SELECT
    MAX(IF(id = :id, state, NULL)), MAX(IF(id = :id, seq, NULL)), COUNT(IF(state < 2, 1, NULL)),
    MIN(IF(state < 2, mode, NULL)), MAX(IF(state < 2, mode, NULL)),
    MIN(IF(state < 2, total, NULL)), MAX(IF(state < 2, total, NULL)), SUM(IF(state < 2, take, 0))
  INTO @state, @seq, @places, @mode, @mode_too, @total, @total_too, @taken
  FROM {places} WHERE h = :h FOR UPDATE;
SET @absurd = :floor > @now + 86400000000,
    @fits = @places = 0 OR (@mode = @mode_too AND @mode = :mode AND (:mode = 1 OR (:mode = 2
      AND @total = @total_too AND @total = :total AND @taken + :take <= :total)));
SET @new = @state IS NULL AND NOT @absurd AND @places < 10000 AND (:queue OR @fits);
UPDATE {lines} SET last = GREATEST(last + 1, @now, :floor) WHERE h = :h AND @new;
SET @seq = IF(@new, (SELECT last FROM {lines} WHERE h = :h), @seq);
INSERT INTO {places} (h, id, seq, mode, take, total, ttl, deadline, taken, state, who, label, bell)
  SELECT :h, :id, @seq, :mode, :take, :total, :ttl, @now + :ttl, @now, 0, :who, :label, :bell FROM DUAL
    WHERE @new OR @state = 0
  ON DUPLICATE KEY UPDATE ttl = GREATEST(ttl, :ttl), deadline = GREATEST(deadline, @now + :ttl), bell = :bell;
SET @me = COALESCE(@seq, 9223372036854775807);
SELECT @absurd, @state, @new, @seq, @now,
    COUNT(IF(seq < @me, 1, NULL)),
    {holds},
    MIN(IF(seq < @me, deadline, NULL)),
    (SELECT CONCAT_WS(' ', mode, take, total) FROM {places}
      WHERE h = :h AND state < 2 AND seq < @me
        AND NOT (mode = :mode AND (:mode = 1 OR (:mode = 2 AND total = :total AND take + :take <= :total)))
      ORDER BY seq DESC LIMIT 1)
  FROM {places} WHERE h = :h AND state < 2 AND seq <= @me FOR UPDATE;
