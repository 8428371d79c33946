-- Commits only in time: the database may hang and come to a commit when its caller was told long ago that the call failed.

-- Asked in front of a commit. The same clock that took the transaction's beginning decides, so that clocks of other machines do not matter.
create function require_time_left(allowed interval) returns void language plpgsql as $$
begin
  if clock_timestamp() - transaction_timestamp() > allowed then
    raise exception 'the time of the transaction has run out' using errcode = 'query_canceled';
  end if;
end $$;
