-- Whether a claim holds, for a transaction that may only be committed if it does. If it says true, nobody else is
-- granted anything on the key before the caller's transaction ends, however long that takes.
--
-- The fence is the whole number that a guard has: which place it is, and in the low ten bits which turn on it. A turn
-- that was ever asked for here ends those before it.
CREATE OR REPLACE FUNCTION @v_holds(p_key bytea, p_id uuid, p_fence bigint) RETURNS boolean
LANGUAGE plpgsql AS $tenure$
DECLARE
  v_now bigint;
  v_life bigint;
  v_seq bigint := p_fence >> 10;
  v_turn smallint := p_fence & 1023;
  known smallint;
BEGIN
-- [lock.sql]
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    -- The caller's snapshot may be older than the lock. If the row has changed since, that is an error here (40001)
    -- and not a look at the past.
    PERFORM 1 FROM @places WHERE key = p_key AND slot IN (0, v_seq) AND seq = v_seq FOR UPDATE;
  END IF;
-- [clock.sql]
  -- What another life of the server wrote has not lapsed.
  SELECT turn INTO known FROM @places
    WHERE key = p_key AND slot IN (0, v_seq) AND seq = v_seq AND id = p_id AND holds AND state = 0
      AND (life <> v_life OR v_now < deadline);
  IF NOT FOUND OR known > v_turn THEN
    RETURN false;
  END IF;
  IF known < v_turn THEN
    UPDATE @places SET turn = v_turn WHERE key = p_key AND slot IN (0, v_seq) AND seq = v_seq;
  END IF;
  RETURN true;
END
$tenure$;
