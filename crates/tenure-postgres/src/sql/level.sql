  IF current_setting('transaction_isolation') <> 'read committed' THEN
    -- A snapshot from before the wait for the key would show a line of the past.
    RAISE EXCEPTION 'tenure needs the isolation level read committed' USING ERRCODE = 'invalid_transaction_state';
  END IF;
