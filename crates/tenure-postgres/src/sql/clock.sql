  -- After the wait, and never now(), which is when the transaction began.
  v_now := date_part('epoch', clock_timestamp()) * 1000000;
  v_life := date_part('epoch', pg_postmaster_start_time()) * 1000000;
