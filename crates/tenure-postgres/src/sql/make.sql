  -- The key's row: made, or locked. Between the two it may have gone.
  LOOP
    INSERT INTO @keys (key) VALUES (p_key) ON CONFLICT DO NOTHING;
    fresh := FOUND;
    EXIT WHEN fresh;
    PERFORM 1 FROM @keys WHERE key = p_key FOR UPDATE;
    EXIT WHEN FOUND;
    tries := tries + 1;
    IF tries > 100 THEN
      RAISE EXCEPTION 'the row of the key comes and goes' USING ERRCODE = 'serialization_failure';
    END IF;
  END LOOP;
