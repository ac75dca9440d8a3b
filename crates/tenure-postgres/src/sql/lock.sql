  -- Whoever does anything to the line of a key does it alone, until its transaction ends. (A condition is evaluated
  -- at a third of what a statement costs; this one is never true.)
  IF pg_advisory_xact_lock(hashtextextended(encode(p_key, 'hex'), '@places'::regclass::oid::bigint)) IS NULL THEN
    RETURN NULL;
  END IF;
