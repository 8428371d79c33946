// Figures about records: reports in groups, and the pipeline.
import type { Fragment } from 'postgres';
import type { Field } from '../../domain/objects/workspace.ts';
import type { Report } from '../../domain/reports/reports.ts';
import { markUnprepared, type Sql } from '../client/pipeline.ts';
import type { TenantScope } from '../client/tenant.ts';
import type { Scope } from '../client/visibility.ts';
import { type Column, getRecordTable, type RecordTable } from '../records/columns.ts';
import { buildFilterCondition } from '../records/filter.ts';
import { findVisibleRecords } from '../records/reached.ts';

interface Figure {
  value: number | string | null;
  count: number;
}

export interface ReportFigures {
  /** Each with a key for each field that the report groups by. */
  groups: (Figure & { keys: (string | null)[] })[];
  total: Figure;
  rowsScanned: number;
  isTruncated: boolean;
}

/** Characters of a text that determine its group. */
const keyCharacters = 255;

/** Runs a report over the newest rows. */
export async function runReport(
  sql: Sql,
  scope: Scope,
  object: string,
  question: Report,
  maxRows: number,
): Promise<ReportFigures> {
  const table = getRecordTable(object);
  const { metric, field, groupBy, bucket, filter } = question;
  const source = await findVisibleRecords(sql, scope, table);
  const measure = field ? selectMeasure(sql, table, field, metric) : sql`null::numeric`;
  const none = { text: sql`null::text`, order: sql`null::numeric` };
  // There are always two keys. Without a field, all records have the same one.
  const [first = none, second = none] = groupBy.map((each) =>
    each.isMultiple ? none : selectGroup(sql, table, each, bucket),
  );
  const newest = sql`
      newest as (
        select r.id, ${first.text} as key, ${first.order} as place, ${second.text} as other, ${second.order} as other_place, ${measure} as measure, row_number() over (order by r.created_at desc, r.id desc) as number
        from ${source.rows}
        where ${source.where}
          ${filter ? sql`and ${buildFilterCondition(sql, scope, table, filter)}` : sql``}
        order by r.created_at desc, r.id desc
        limit ${maxRows + 1}
      )`;
  const figures = sql`${selectFigure(sql, metric, field)} as value, count(*) as count`;
  const seenRows = sql`(select count(*) from newest) as seen`;
  const order = sql`place nulls last, key collate "C" nulls last, other_place nulls last, other collate "C" nulls last`;
  const byFields = sql`
      with ${newest}
      select key, other, ${figures}, grouping(key) = 1 as is_total, ${seenRows}
      from newest
      where number <= ${maxRows}
      group by grouping sets ((key, place, other, other_place), ())
      order by grouping(key), ${order}`;
  const { companyId, testMode } = scope;
  const isFirst = groupBy[0]?.isMultiple;
  // A record counts once in the group of each of its tags, and once in the total.
  const byTags = sql`
      with ${newest}, tagged as (
        select ${isFirst ? sql`tag.name` : sql`n.key`} as key, n.place, ${isFirst ? sql`n.other` : sql`tag.name`} as other, n.other_place, n.measure
        from newest n
        left join record_tags t
          on t.company_id = ${companyId} and t.test_mode = ${testMode} and t.object = ${object} and t.record_id = n.id
        left join tags tag on tag.company_id = ${companyId} and tag.id = t.tag_id
        where n.number <= ${maxRows}
      )
      select * from (
        select key, place, other, other_place, ${figures}, false as is_total, ${seenRows}
        from tagged
        group by key, place, other, other_place
        union all
        select null, null, null, null, ${figures}, true, ${seenRows} from newest where number <= ${maxRows}
      ) counted
      order by is_total, ${order}`;
  const isByTags = groupBy.some(({ isMultiple }) => isMultiple);
  const rows = await markUnprepared(
    sql<
      (Figure & { key: string | null; other: string | null; isTotal: boolean; seen: number })[]
    >`${isByTags ? byTags : byFields}`,
  );
  const groups = rows
    .filter((row) => !row.isTotal)
    .map(({ key, other, value, count }) => ({ keys: [key, other].slice(0, groupBy.length), value, count }));
  const total = rows.find((row) => row.isTotal);
  const { value = null, count = 0, seen = 0 } = total ?? {};
  return { groups, total: { value, count }, rowsScanned: Math.min(seen, maxRows), isTruncated: seen > maxRows };
}

/** Returns the metric over the rows of a group. */
function selectFigure(sql: Sql, metric: Report['metric'], field: Field | undefined): Fragment {
  switch (metric) {
    case 'count':
      return field ? sql`count(measure)` : sql`count(*)`;
    case 'sum':
      return sql`coalesce(sum(measure), 0)`;
    case 'avg':
      return sql`half_even_mean(sum(measure), count(measure))`;
    case 'min':
      return sql`min(measure)`;
    case 'max':
      return sql`max(measure)`;
  }
}

/** Returns the measured expression: a number, or a text that sorts like the date. */
function selectMeasure(sql: Sql, table: RecordTable, field: Field, metric: Report['metric']): Fragment {
  const column = table.columns.get(field.name);
  const value = column ? sql`r.${sql(column.name)}` : sql`(r.custom ->> ${field.name}::text)`;
  if (metric === 'count') return value;
  if (field.type === 'number' || field.type === 'currency') return sql`${value}::numeric`;
  if (column?.type === 'timestamp') return formatIsoText(sql, value);
  return sql`${value}::text collate "C"`;
}

function formatIsoText(sql: Sql, value: Fragment): Fragment {
  return sql`to_char(${value} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') collate "C"`;
}

/** Returns the key of a row's group as text, and the value by which groups are sorted first. */
function selectGroup(
  sql: Sql,
  table: RecordTable,
  field: Field,
  unit: Report['bucket'],
): { text: Fragment; order: Fragment } {
  const column = table.columns.get(field.name);
  const value = column ? sql`r.${sql(column.name)}` : sql`(r.custom ->> ${field.name}::text)`;
  const none = sql`null::numeric`;
  const bucket = field.type === 'date' || field.type === 'datetime' ? unit : undefined;
  if (bucket !== undefined) {
    const time =
      field.type === 'date' ? sql`${value}::date::timestamp` : sql`(${value}::timestamptz at time zone 'UTC')`;
    const format = bucket === 'month' ? 'YYYY-MM' : 'YYYY-MM-DD';
    return { text: sql`to_char(date_trunc(${bucket}::text, ${time}), ${format}::text)`, order: none };
  }
  if (column?.names) return { text: selectName(sql, column, value), order: none };
  if (field.type === 'number' || field.type === 'currency')
    return { text: sql`${value}::text`, order: sql`${value}::numeric` };
  return { text: sql`left(${value}::text, ${keyCharacters}::int)`, order: none };
}

function selectName(sql: Sql, column: Column, value: Fragment): Fragment {
  return sql`(select named.name from ${sql(column.names as string)} named where named.company_id = r.company_id and named.id = ${value})`;
}

export interface PipelineRow {
  statusId: string | null;
  count: number;
  /** Of deals; null if no amount is known. */
  amount: number | null;
}

/**
 * Returns how many visible records are in each status.
 * @param pipelineId only deals of this pipeline
 */
export async function countByStatus(
  sql: Sql,
  scope: Scope,
  object: 'leads' | 'deals',
  pipelineId?: string,
): Promise<PipelineRow[]> {
  if (object === 'leads' && scope.reach.kind === 'company') return countLeads(sql, scope);
  const table = getRecordTable(object);
  const status = object === 'leads' ? sql`r.lead_status_id` : sql`r.stage_id`;
  const source = await findVisibleRecords(sql, scope, table);
  return sql<PipelineRow[]>`
    select ${status} as status_id, count(*) as count, ${object === 'leads' ? sql`null::bigint` : sql`sum(r.amount_minor)`} as amount
    from ${source.rows}
    where ${source.where}
      ${pipelineId === undefined ? sql`` : sql`and r.pipeline_id = ${pipelineId}::uuid`}
    group by 1`;
}

/**
 * Counts all leads in each status with an index alone. In one query over all statuses, PostgreSQL
 * would read every row, with several processes.
 */
async function countLeads(sql: Sql, { companyId, testMode }: TenantScope): Promise<PipelineRow[]> {
  const count = (isIn: Fragment) => sql`
    (select count(*) from leads r where r.company_id = ${companyId} and r.test_mode = ${testMode} and r.lead_status_id ${isIn})`;
  const rows = await sql<PipelineRow[]>`
    select s.id as status_id, ${count(sql`= s.id`)} as count, null::bigint as amount
    from statuses s
    where s.company_id = ${companyId} and s.object = 'leads'
    union all
    select null, ${count(sql`is null`)}, null`;
  return rows.filter((row) => row.count > 0);
}
