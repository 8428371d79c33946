// Notifications of users, and which of them a caller can see.
import type { Fragment } from 'postgres';
import { v7 as uuidv7 } from 'uuid';
import type { NotificationKind } from '../../domain/records/notifications.ts';
import type { Sql } from '../client/pool.ts';
import { type DueRow, removeByCompany } from '../client/sweeping.ts';
import { isVisibleTo, type Reach, type Scope } from '../client/visibility.ts';
import { getRecordTable } from './columns.ts';

export interface NewNotification {
  userId: string;
  kind: NotificationKind;
  title: string;
  object?: string;
  recordId?: string;
  /** The import, webhook endpoint or API key. */
  subjectId?: string;
}

/** Notifies users. Users who are not active get no notification. */
export async function insertNotifications(
  sql: Sql,
  companyId: string,
  notifications: readonly NewNotification[],
  now: Date,
): Promise<void> {
  if (notifications.length === 0) return;
  const rows = notifications.map((notification) => ({ id: uuidv7(), ...notification }));
  await sql`
    insert into notifications (company_id, id, user_id, kind, title, object, record_id, subject_id, created_at)
    select u.company_id, n.id, u.id, n.kind, n.title, n.object, n."recordId", n."subjectId", ${now}
    from jsonb_to_recordset(${sql.json(rows as never)}) as n(id uuid, "userId" uuid, kind text, title text, object text,
      "recordId" uuid, "subjectId" uuid)
    join users u on u.company_id = ${companyId} and u.id = n."userId" and u.status = 'active'`;
}

/** The user whose notifications are read, and what the caller may see of them. */
export interface NotificationViewer {
  scope: Omit<Scope, 'reach'>;
  userId: string;
  /** The objects whose records the caller can view. */
  objects: readonly { object: string; reach: Reach }[];
  /** The kinds that the caller can view, of notifications that are not about a record. */
  kinds: readonly string[];
}

export interface NotificationRow {
  id: string;
  kind: NotificationKind;
  title: string;
  object: string | null;
  recordId: string | null;
  subjectId: string | null;
  createdAt: Date;
  readAt: Date | null;
}

/** Returns the condition that a notification `n` is one of the user that the caller can see. */
function isShown(sql: Sql, { scope, userId, objects, kinds }: NotificationViewer): Fragment {
  const { companyId } = scope;
  const aboutRecords = objects.reduce<Fragment>((all, { object, reach }) => {
    const table = getRecordTable(object);
    return sql`${all} or n.object = ${object} and exists (
      select from ${sql(table.name)} r
      where r.company_id = ${companyId} and r.test_mode = false and r.id = n.record_id
        and ${isVisibleTo(sql, { ...scope, reach }, table.assigned, sql`r.`)}
    )`;
  }, sql``);
  return sql`n.company_id = ${companyId} and n.user_id = ${userId}
    and (n.record_id is null and n.kind = any(${[...kinds]}::text[]) ${aboutRecords})`;
}

/** Returns a page of notifications, newest first. */
export async function listNotifications(
  sql: Sql,
  viewer: NotificationViewer,
  isUnread: boolean,
  after: readonly [string, string] | undefined,
  limit: number,
): Promise<NotificationRow[]> {
  return sql<NotificationRow[]>`
    select n.id, n.kind, n.title, n.object, n.record_id, n.subject_id, n.created_at, n.read_at
    from notifications n
    where ${isShown(sql, viewer)} ${isUnread ? sql`and n.read_at is null` : sql``}
      ${after ? sql`and (n.created_at, n.id) < (${after[0]}::timestamptz, ${after[1]}::uuid)` : sql``}
    order by n.created_at desc, n.id desc
    limit ${limit}`;
}

/** Returns the number of unread notifications that the caller can see, at most the limit. */
export async function countUnread(sql: Sql, viewer: NotificationViewer, limit: number): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from (
      select from notifications n where ${isShown(sql, viewer)} and n.read_at is null limit ${limit}
    ) unread`;
  return row?.count ?? 0;
}

/** Returns which of the ids are notifications that the caller can see. */
export async function findShownNotifications(
  sql: Sql,
  viewer: NotificationViewer,
  ids: readonly string[],
): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select n.id from notifications n
    where ${isShown(sql, viewer)} and n.id = any(${[...ids]}::uuid[])`;
  return rows.map(({ id }) => id);
}

/**
 * Marks notifications that the caller can see as read.
 * @param ids undefined: all
 * @returns how many were unread
 */
export async function markNotifications(
  sql: Sql,
  viewer: NotificationViewer,
  ids: readonly string[] | undefined,
  now: Date,
): Promise<number> {
  const marked = await sql`
    update notifications n set read_at = ${now}
    where ${isShown(sql, viewer)} and n.read_at is null
      ${ids ? sql`and n.id = any(${[...ids]}::uuid[])` : sql``}`;
  return marked.count;
}

/** Days for which notifications are kept. */
const keptDays = 90;

/**
 * Removes expired notifications.
 * @returns how many, at most the limit
 */
export async function sweepNotifications(sql: Sql, limit: number, now: Date): Promise<number> {
  const before = new Date(now.getTime() - keptDays * 86_400_000);
  const due = await sql<DueRow[]>`
    select company_id, id from notifications where created_at < ${before} order by created_at limit ${limit}`;
  return removeByCompany(due, async (companyId, rows) => {
    const removed = await sql`
      delete from notifications
      where company_id = ${companyId} and id = any(${rows.map(({ id }) => id)}::uuid[])`;
    return removed.count;
  });
}
