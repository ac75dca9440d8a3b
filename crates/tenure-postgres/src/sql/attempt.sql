-- Tries once: takes a place or keeps the one it has, refreshes its lease, and says whether it holds.
--
-- {1, number, life}  it holds
-- {0, number or -1, life, how many ahead, blocker's mode or -1, take, total, when the first lease ends}  it does not
-- {-1} evicted    {-2} released before    {-3} the line is full
CREATE OR REPLACE FUNCTION @v_attempt(
  p_key bytea, p_id uuid, p_mode smallint, p_take bigint, p_total bigint, p_ttl bigint, p_waits boolean, p_client text,
  p_note bytea
) RETURNS bigint[]
LANGUAGE plpgsql AS $tenure$
DECLARE
  v_now bigint;
  v_life bigint;
  mine record;
  front record;
  fits boolean := true;
  number bigint := -1;
  v_mode smallint := p_mode;
  v_take bigint := p_take;
  v_total bigint := p_total;
  ahead record;
  blocker record;
BEGIN
-- [level.sql]
-- [lock.sql]
-- [clock.sql]
  -- Numbers are drawn here, where nobody else can draw one for this key. A key without rows is nobody's.
  INSERT INTO @places (key, slot, seq, id, mode, take, total, state, holds, ttl, deadline, taken, life, client, note)
    SELECT p_key, 0, nextval('@numbers'), p_id, p_mode, p_take, p_total, 0, true, p_ttl, v_now + p_ttl, v_now, v_life,
      p_client, p_note
    WHERE NOT EXISTS (SELECT FROM @places WHERE key = p_key AND slot = 0)
    RETURNING seq INTO number;
  IF FOUND THEN
    RETURN ARRAY[1, number, v_life];
  END IF;
  number := -1;
  PERFORM @v_purge(p_key, p_id, v_now, v_life);
  SELECT slot, seq, mode, take, total, state, holds INTO mine FROM @places
    WHERE key = p_key AND id = p_id AND state < 4;
  IF FOUND THEN
    IF mine.state <> 0 THEN
      RETURN ARRAY[CASE mine.state WHEN 2 THEN -2 ELSE -1 END];
    END IF;
    UPDATE @places SET ttl = greatest(ttl, p_ttl), deadline = greatest(deadline, v_now + p_ttl)
      WHERE key = p_key AND slot = mine.slot;
    IF mine.holds THEN
      RETURN ARRAY[1, mine.seq, v_life];
    END IF;
    number := mine.seq;
    v_mode := mine.mode;
    v_take := mine.take;
    v_total := mine.total;
  ELSE
    SELECT count(*) AS places, count(*) FILTER (WHERE holds) AS holders,
        max(mode) FILTER (WHERE holds) AS mode, max(total) FILTER (WHERE holds) AS total,
        coalesce(sum(take) FILTER (WHERE holds), 0)::bigint AS taken
      INTO front FROM @places WHERE key = p_key AND state <= 1;
    fits := front.places = front.holders AND (
      front.holders = 0
      OR (front.mode = 1 AND p_mode = 1)
      OR (front.mode = 2 AND p_mode = 2 AND front.total = p_total AND front.taken + p_take <= p_total));
    IF front.places >= 10000 AND (fits OR p_waits) THEN
      RETURN ARRAY[-3];
    END IF;
  END IF;
  IF number < 0 AND (fits OR p_waits) THEN
    number := nextval('@numbers');
    UPDATE @places SET seq = number, id = p_id, mode = p_mode, take = p_take, total = p_total, state = 0, holds = true,
        ttl = p_ttl, deadline = v_now + p_ttl, taken = v_now, life = v_life, client = p_client, note = p_note, turn = 0
      WHERE key = p_key AND slot = 0 AND state = 4 AND front.places = 0;
    IF NOT FOUND THEN
      UPDATE @places SET many = true WHERE key = p_key AND slot = 0 AND NOT many;
      INSERT INTO @places (key, slot, seq, id, mode, take, total, state, holds, ttl, deadline, taken, life, client, note)
        VALUES (p_key, number, number, p_id, p_mode, p_take, p_total, 0, fits, p_ttl, v_now + p_ttl, v_now, v_life,
          p_client, p_note);
    END IF;
    IF fits THEN
      RETURN ARRAY[1, number, v_life];
    END IF;
  END IF;
  SELECT count(*) AS places, min(deadline) AS ends INTO ahead FROM @places
    WHERE key = p_key AND state <= 1 AND (number < 0 OR seq < number);
  SELECT mode, take, total INTO blocker FROM @places
    WHERE key = p_key AND state <= 1 AND (number < 0 OR seq < number)
      AND NOT ((mode = 1 AND v_mode = 1) OR (mode = 2 AND v_mode = 2 AND total = v_total AND take + v_take <= total))
    ORDER BY seq DESC LIMIT 1;
  RETURN ARRAY[0, number, v_life, ahead.places, coalesce(blocker.mode, -1), coalesce(blocker.take, 0),
    coalesce(blocker.total, 0), greatest(0, coalesce(ahead.ends, v_now) - v_now)];
END
$tenure$;
