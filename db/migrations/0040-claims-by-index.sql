-- Each connection keeps the plan of a claim from its first uses. One that was made while no answer was kept would read all that are kept later,
-- with each claim, until PostgreSQL analyses the table.
alter function claim_key(uuid, boolean, text, text, bigint, bigint) set enable_seqscan = off;
