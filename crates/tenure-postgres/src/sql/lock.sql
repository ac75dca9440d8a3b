  -- Whoever does anything to the line of a key does it alone, until its transaction ends.
  PERFORM pg_advisory_xact_lock(hashtextextended(encode(p_key, 'hex'), '@places'::regclass::oid::bigint));
