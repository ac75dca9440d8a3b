-- Whether a claim still holds, in the transaction of whoever asks: the last statement before its COMMIT. Every verb
-- locks the key's row first, so from here to the end of the transaction nobody else is granted the key, and nobody can
-- evict the hold. Shared, so that readers who hold beside each other do not wait for each other.
--
-- Who is alone is not looked for among the places: a row that is not there would be locked with its neighbourhood.
-- Locking reads see what was committed last, at every isolation level, and the time is asked for after the wait for
-- the rows: SYSDATE says how long it took, in whichever time zone, and UTC_TIMESTAMP when it began.
--
-- Bytes that a driver sends as text are still bytes.
--
-- ? the SHA-256 of the key     ? claim id     ? number of the place
--
-- One row: 1 if it holds, 0 if not.
SELECT COUNT(*)
  FROM (SELECT CAST(? AS BINARY(32)) AS h, CAST(? AS BINARY(16)) AS id, ? AS seq) w STRAIGHT_JOIN {lines} l ON l.h = w.h
    LEFT JOIN {places} p ON p.h = IF(l.id = w.id, NULL, w.h) AND p.id = w.id
  WHERE IF(l.id = w.id, l.seq = w.seq, p.seq = w.seq AND p.state = 0)
    AND IF(l.id = w.id, l.deadline, p.deadline)
      > TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))
        + TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6))
  LOCK IN SHARE MODE
