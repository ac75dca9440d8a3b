-- The line rule: lets in those at the front who now hold, and tells them; all but one, who learns it anyway. Notes if
-- nobody is left.
CREATE OR REPLACE FUNCTION @v_settle(p_key bytea, p_silent uuid, p_life bigint) RETURNS void
LANGUAGE plpgsql AS $tenure$
DECLARE
  front record;
  place record;
BEGIN
  SELECT count(*) AS holders, max(mode) AS mode, max(total) AS total, coalesce(sum(take), 0)::bigint AS taken
    INTO front FROM @places WHERE key = p_key AND holds;
  FOR place IN
    SELECT slot, seq, id, mode, take, total, client FROM @places
    WHERE key = p_key AND NOT holds AND state <= 1 ORDER BY slot
  LOOP
    EXIT WHEN front.holders > 0 AND NOT (
      (front.mode = 1 AND place.mode = 1)
      OR (front.mode = 2 AND place.mode = 2 AND front.total = place.total AND front.taken + place.take <= front.total));
    front.holders := front.holders + 1;
    front.mode := place.mode;
    front.total := place.total;
    front.taken := front.taken + place.take;
    UPDATE @places SET holds = true WHERE key = p_key AND slot = place.slot;
    IF place.client <> '' AND place.id IS DISTINCT FROM p_silent THEN
      PERFORM pg_notify(place.client, 'H ' || place.id || ' ' || place.seq || ' ' || p_life);
    END IF;
  END LOOP;
  IF front.holders = 0 THEN
    UPDATE @places SET many = false WHERE key = p_key AND slot = 0 AND many
      AND NOT EXISTS (SELECT FROM @places WHERE key = p_key AND slot > 0);
  END IF;
END
$tenure$;
