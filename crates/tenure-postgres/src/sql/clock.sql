  -- After the wait, and never now(), which is when the transaction began.
  v_now := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
  v_life := (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint;
