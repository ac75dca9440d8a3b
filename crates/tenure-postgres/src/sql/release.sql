-- Makes a claim neither hold nor wait, touches no other, and tells those who now hold. If an attempt of the claim may
-- still be on its way, its id is refused for one lease.
--
-- 1 if it had a place, 0 if not.
CREATE OR REPLACE FUNCTION @v_release(p_key bytea, p_id uuid, p_ttl bigint, p_doubt boolean) RETURNS bigint
LANGUAGE plpgsql AS $tenure$
DECLARE
  v_now bigint;
  v_life bigint;
  mine record;
  alone boolean := false;
  freed bigint := 0;
BEGIN
-- [level.sql]
-- [lock.sql]
-- [clock.sql]
  DELETE FROM @places WHERE key = p_key AND slot > 0 AND id = p_id
    RETURNING state, life, deadline INTO mine;
  IF NOT FOUND THEN
    SELECT state, life, deadline, many INTO mine FROM @places
      WHERE key = p_key AND slot = 0 AND id = p_id AND state < 4;
    IF FOUND THEN
      UPDATE @places SET state = 4, holds = false WHERE key = p_key AND slot = 0;
      alone := NOT mine.many;
    END IF;
  END IF;
  IF mine.state <= 1 AND (mine.life <> v_life OR v_now < mine.deadline) THEN
    freed := 1;
  END IF;
  IF alone AND NOT p_doubt THEN
    RETURN freed;
  END IF;
  IF p_doubt THEN
    INSERT INTO @places (key, slot, seq, id, mode, take, total, state, holds, many, ttl, deadline, taken, life, client, note)
      VALUES (p_key, 0, 0, p_id, 0, 0, 0, 4, false, true, 0, 0, v_now, v_life, '', '')
      ON CONFLICT (key, slot) DO UPDATE SET many = true;
    INSERT INTO @places (key, slot, seq, id, mode, take, total, state, holds, ttl, deadline, taken, life, client, note)
      SELECT p_key, number, number, p_id, 0, 0, 0, 2, false, p_ttl, v_now + p_ttl, v_now, v_life, '', ''
        FROM nextval('@numbers') AS number;
  END IF;
  PERFORM @v_purge(p_key, NULL, v_now, v_life);
  PERFORM @v_settle(p_key, NULL, v_life);
  RETURN freed;
END
$tenure$;
