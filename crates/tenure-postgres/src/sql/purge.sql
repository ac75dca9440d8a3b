-- Removes what has lapsed, but the key's own row, and tells those who now hold. A place that another clock wrote (in another life of the
-- server, or before the clock was set back) gets a whole lease instead: a holder may believe as long, and no longer.
CREATE OR REPLACE FUNCTION @v_purge(p_key bytea, p_silent uuid, p_now bigint, p_life bigint) RETURNS void
LANGUAGE plpgsql AS $tenure$
DECLARE
  strange bigint;
  lapsed bigint;
BEGIN
  SELECT count(*) FILTER (WHERE life <> p_life OR deadline > p_now + ttl + 1000000),
      count(*) FILTER (WHERE life = p_life AND deadline <= p_now)
    INTO strange, lapsed FROM @places WHERE key = p_key AND state < 4;
  IF strange > 0 THEN
    UPDATE @places SET deadline = p_now + ttl, life = p_life
      WHERE key = p_key AND state < 4 AND (life <> p_life OR deadline > p_now + ttl + 1000000);
  END IF;
  IF lapsed > 0 THEN
    DELETE FROM @places WHERE key = p_key AND slot > 0 AND deadline <= p_now;
    UPDATE @places SET state = 4, holds = false WHERE key = p_key AND slot = 0 AND state < 4 AND deadline <= p_now;
    PERFORM @v_settle(p_key, p_silent, p_life);
  END IF;
END
$tenure$;
