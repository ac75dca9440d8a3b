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
  freed bigint := 0;
BEGIN
-- [level.sql]
-- [lock.sql]
-- [clock.sql]
  DELETE FROM @places AS place WHERE key = p_key AND id = p_id
    RETURNING state, (life <> v_life OR v_now < deadline) AS alive,
      EXISTS (SELECT FROM @places AS other WHERE other.key = p_key AND other.id <> p_id) AS others
    INTO mine;
  IF FOUND THEN
    IF mine.state <= 1 AND mine.alive THEN
      freed := 1;
    END IF;
    IF NOT mine.others AND NOT p_doubt THEN
      RETURN freed;
    END IF;
  END IF;
  IF p_doubt THEN
    INSERT INTO @places (key, seq, id, mode, take, total, state, holds, ttl, deadline, taken, life, client, note)
      VALUES (p_key, nextval('@numbers'), p_id, 0, 0, 0, 2, false, p_ttl, v_now + p_ttl, v_now, v_life, '', '');
  END IF;
  PERFORM @v_purge(p_key, NULL, v_now, v_life);
  PERFORM @v_settle(p_key, NULL, v_life);
  RETURN freed;
END
$tenure$;
