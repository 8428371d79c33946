// Notifications of the calling user.
import * as db from '../../db/records/notifications.ts';
import { clockedObjects } from '../../domain/objects/sla-conditions.ts';
import { scopesOfKinds } from '../../domain/records/notifications.ts';
import { isVisible } from '../../domain/records/reading.ts';
import { notFound } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { readPage } from '../../runtime/paging.ts';

/** Counting unread notifications stops here. */
const maxUnread = 100;

export const listNotifications: Handler<'listNotifications'> = async (call) => {
  const { unread = false } = call.request.query;
  const viewer = await buildViewer(call);
  const { sql } = call.db;
  const [{ rows, ...rest }, unreadCount] = await Promise.all([
    readPage(
      call,
      ['notifications', viewer.userId, unread],
      (after, limit) => db.listNotifications(sql, viewer, unread, after, limit),
      (last: db.NotificationRow) => [last.createdAt.toISOString(), last.id] as const,
    ),
    db.countUnread(sql, viewer, maxUnread),
  ]);
  const notifications = rows.map((row) => ({
    id: row.id,
    kind: row.kind,
    title: row.title,
    object: row.object,
    record_id: row.recordId,
    subject_id: row.subjectId,
    created_at: row.createdAt.toISOString(),
    read_at: row.readAt?.toISOString() ?? null,
  }));
  return { status: 200, data: { notifications, unread_count: unreadCount, ...rest } };
};

export const markNotifications: Handler<'markNotifications'> = async (call) => {
  const { body } = call.request;
  const { sql } = call.db;
  const viewer = await buildViewer(call);
  const ids = 'ids' in body ? [...new Set(body.ids?.map((id) => id.toLowerCase()))] : undefined;
  if (ids && (await db.findShownNotifications(sql, viewer, ids)).length < ids.length) throw notFound();
  const marked = await db.markNotifications(sql, viewer, ids, call.now);
  if (marked > 0) call.db.record({ action: 'notification.read', object: 'notifications', metadata: { marked } });
  return { status: 200, data: { marked } };
};

function getUserId({ caller }: Pick<Call, 'caller'>): string {
  if (caller.userId === null) throw new Error('the document asks for a user');
  return caller.userId;
}

/** Returns what the caller may see: an app by its scopes, a person by the roles of the user. */
async function buildViewer(call: Pick<Call, 'caller' | 'services'>): Promise<db.NotificationViewer> {
  const { caller } = call;
  const { companyId, actor, userId, modules } = caller;
  const { grants, computeReach = () => caller.reach } = caller.kind === 'session' ? (caller.ofUser ?? caller) : caller;
  const workspace = await call.services.loadWorkspace();
  const isAdmin = caller.kind !== 'oauth_client' && caller.scopes.includes('Company_Admin');
  const kinds = Object.entries(scopesOfKinds).filter(([, scope]) => grants.allows(scope));
  return {
    scope: { companyId, testMode: false, actor, userId },
    userId: getUserId(call),
    objects: [...clockedObjects]
      .filter((object) => isVisible(object, workspace, { grants, modules }))
      .map((object) => ({ object, reach: computeReach([`${object}:view`]) })),
    kinds: [...kinds.map(([kind]) => kind), ...(isAdmin ? ['key_expiring'] : [])],
  };
}
