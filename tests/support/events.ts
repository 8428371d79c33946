// Emitted events, pending or with a position.
import type { PendingQuery, Row, Sql } from 'postgres';

/**
 * Returns a subquery to select from instead of a table.
 * @param recordId only of this record. Without it, name a company: the table has the events of all tests
 */
export function recordedEvents(sql: Sql, recordId?: string): PendingQuery<Row[]> {
  return sql`(
    select company_id, id, test_mode, event, occurred_at, actor, request_id, data
    from outbox_events
    ${recordId === undefined ? sql`` : sql`where data ->> 'record_id' = ${recordId}`}
    union all
    select company_id, id, test_mode, event, occurred_at, actor, request_id,
      data || jsonb_strip_nulls(jsonb_build_object('object', object, 'record_id', record_id,
        'occurred_at', to_char(occurred_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))) as data
    from feed_events
    ${recordId === undefined ? sql`` : sql`where record_id = ${recordId}`}
  ) recorded`;
}
