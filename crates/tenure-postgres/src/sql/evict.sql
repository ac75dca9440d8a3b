-- Breaks exactly the hold that an operator looked at, and tells its owner.
--
-- 2 if the place is free, 1 if it will be at its deadline, 0 if there is no such place.
CREATE OR REPLACE FUNCTION @v_evict(p_key bytea, p_id uuid, p_seq bigint, p_at_once boolean) RETURNS bigint
LANGUAGE plpgsql AS $tenure$
DECLARE
  v_now bigint;
  v_life bigint;
  place record;
  answer bigint := 0;
BEGIN
-- [level.sql]
-- [lock.sql]
-- [clock.sql]
  PERFORM @v_purge(p_key, NULL, v_now, v_life);
  SELECT slot, holds, client INTO place FROM @places
    WHERE key = p_key AND slot IN (0, p_seq) AND seq = p_seq AND id = p_id AND state <= 1;
  IF FOUND THEN
    IF place.client <> '' THEN
      PERFORM pg_notify(place.client, 'L ' || p_id || ' ' || p_seq || ' ' || v_life);
    END IF;
    IF place.holds AND NOT p_at_once THEN
      UPDATE @places SET state = 1 WHERE key = p_key AND slot = place.slot;
      answer := 1;
    ELSE
      -- A waiter believes in nothing, so there is nothing to wait for; its next attempt is refused.
      UPDATE @places SET state = 3, holds = false, take = 0, deadline = v_now + ttl, client = '', note = ''
        WHERE key = p_key AND slot = place.slot;
      PERFORM @v_settle(p_key, NULL, v_life);
      answer := 2;
    END IF;
  END IF;
  RETURN answer;
END
$tenure$;
