-- Commits only in time: the database may hang, and come to a commit when its caller was told long ago that the call failed.

-- Called in front of a commit. The clock that took the transaction's beginning decides, so that those of other machines do not matter.
create procedure require_time_left(milliseconds int) language plpgsql as $$
begin
  if clock_timestamp() - transaction_timestamp() > milliseconds * interval '1 ms' then
    raise exception 'the time of the transaction has run out' using errcode = 'query_canceled';
  end if;
end $$;
