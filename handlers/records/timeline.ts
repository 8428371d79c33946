// The timeline of a record: what happened on it, of all kinds, in one list.
import { listStatusChanges } from '../../db/access/audit-logs.ts';
import { toActor } from '../../db/client/created-by.ts';
import { listMessages } from '../../db/messaging/messages.ts';
import { listAttachments } from '../../db/records/attachments.ts';
import { listLinks } from '../../db/records/links.ts';
import { listNotes } from '../../db/records/notes.ts';
import { listRecords } from '../../db/records/records.ts';
import { listActivitiesAbout } from '../../db/sales/record-activities.ts';
import { listBookingsAbout } from '../../db/scheduling/bookings.ts';
import { toAuditLog } from '../../domain/access/audit-view.ts';
import { getModuleState } from '../../domain/billing/plans.ts';
import { toMessageResponse } from '../../domain/messaging/messages.ts';
import type { Filter } from '../../domain/objects/filter.ts';
import { isSystem } from '../../domain/objects/relations.ts';
import type { Workspace } from '../../domain/objects/workspace.ts';
import { toAttachmentResponse } from '../../domain/records/attachments.ts';
import { toNoteResponse } from '../../domain/records/notes.ts';
import { showTask } from '../../domain/records/tasks.ts';
import {
  getKindScope,
  parseKinds,
  type TimelineKind,
  timelineKinds,
  toSummary,
} from '../../domain/records/timeline.ts';
import { showActivity } from '../../domain/sales/activities.ts';
import { statusField } from '../../domain/sales/status-moves.ts';
import { toBookingResponse } from '../../domain/scheduling/booking-view.ts';
import type { components } from '../../generated/api.ts';
import { orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { listVisibleRelations, type SeenLink, toLinkResponses } from '../../services/records/link-writes.ts';
import { readRecordPage } from '../../services/records/open-record.ts';

type TimelineCall = Call<'listRecordTimeline'>;
type Item = components['schemas']['TimelineItem'];

/** Time and id of the last item of the page before; ids differ between kinds too. */
type Place = readonly [at: string, id: string];

/** An item; of a link, the label of the other record is looked up later, for the page alone. */
type Entry = Item | { kind: 'link'; id: string; at: string; link: SeenLink };

export const listRecordTimeline: Handler<'listRecordTimeline'> = async (call) => {
  const workspace = await call.services.loadWorkspace();
  const { object } = call.request.path;
  orNotFound(workspace.objects.get(object));
  const { kinds: asked, problems } = parseKinds(call.request.query.kinds);
  if (problems.length > 0) throw validationFailed(problems, 400);
  for (const kind of asked ?? []) {
    const scope = getKindScope(kind);
    if (scope !== null) call.authorize(scope);
  }
  const kinds = asked ?? timelineKinds.filter((kind) => isOpen(call, kind));
  const { rows, ...rest } = await readRecordPage(
    call,
    `timeline ${asked?.join(',') ?? ''}`,
    async (after: Place | undefined, limit) => {
      // Reads a whole page of every kind at the same time. The newest of them are the newest of all.
      const entries = await Promise.all(
        kinds.map((kind) => readers[kind](applyKindVisibility(call, kind), workspace, after, limit)),
      );
      return entries.flat().sort(newestFirst).slice(0, limit);
    },
    ({ at, id }): Place => [at, id],
  );
  return { status: 200, data: { timeline: await complete(call, workspace, rows), ...rest } };
};

/** Returns the call with the visibility that the operation of the kind would have. */
function applyKindVisibility(call: TimelineCall, kind: TimelineKind): TimelineCall {
  const { caller, request } = call;
  const scope = getKindScope(kind);
  if (scope === null || !caller.computeReach) return call;
  return { ...call, caller: { ...caller, reach: caller.computeReach([`${request.path.object}:view`, scope]) } };
}

function isOpen({ caller: { grants, modules } }: TimelineCall, kind: TimelineKind): boolean {
  const scope = getKindScope(kind);
  if (scope === null) return true;
  const [module = ''] = scope.split(':');
  return grants.allows(scope) && getModuleState(module, modules) === 'on';
}

function newestFirst(a: Entry, b: Entry): number {
  if (a.at !== b.at) return a.at < b.at ? 1 : -1;
  return a.id < b.id ? 1 : -1;
}

type Read = (
  call: TimelineCall,
  workspace: Workspace,
  after: Place | undefined,
  limit: number,
) => Promise<readonly Entry[]>;

/**
 * By kind, a function that reads the newest items after a place, in the order of the list of that
 * kind.
 */
const readers: Readonly<Record<TimelineKind, Read>> = {
  note: async ({ caller, request: { path }, db: { sql } }, _workspace, after, limit) =>
    (await listNotes(sql, caller, path, after, limit)).map((row) => {
      const details = toNoteResponse(row, toActor(row));
      const { id, created_at: at, created_by: actor } = details;
      return { kind: 'note', id, at, title: 'Note', summary: toSummary(row.content), actor, details };
    }),

  activity: async ({ caller, request: { path }, db: { sql } }, workspace, after, limit) =>
    (await listActivitiesAbout(sql, caller, path, after, limit)).map(({ record }) => {
      const details = showActivity(record, caller.testMode, workspace);
      const { id, performed_at: at, created_by: actor, activity_type: title } = details;
      return {
        kind: 'activity',
        id,
        at,
        title,
        summary: toSummary(details.summary ?? details.details),
        actor,
        details,
      };
    }),

  task: async ({ caller, now, request: { path }, db: { sql } }, workspace, after, limit) => {
    const conditions: Filter[] = [
      { field: 'object', op: 'eq', value: path.object },
      { field: 'record_id', op: 'eq', value: path.id },
    ];
    const sort = [{ field: 'created_at', descending: true }];
    const tasks = await listRecords(sql, caller, 'tasks', { sort, filter: { and: conditions }, after, limit });
    return tasks.map(({ record }) => {
      const details = showTask(record, workspace, now);
      const { id, created_at: at, title } = details;
      const { values } = record;
      const actor = toActor({
        createdByKind: values._created_by_kind as components['schemas']['Actor']['kind'],
        createdById: values._created_by_id as string,
        createdByName: values._created_by_name as string | null,
      });
      return { kind: 'task', id, at, title, summary: toSummary(details.description), actor, details };
    });
  },

  message: async ({ caller, request: { path }, db: { sql } }, _workspace, after, limit) =>
    (await listMessages(sql, caller, path, after, limit)).map((row) => {
      const details = toMessageResponse(row);
      const { id, occurred_at: at } = details;
      const title = toSummary(details.subject) ?? channelNames[details.channel];
      return { kind: 'message', id, at, title, summary: toSummary(details.preview), actor: null, details };
    }),

  booking: async ({ caller, request: { path }, db: { sql } }, _workspace, after, limit) =>
    (await listBookingsAbout(sql, caller, path, after, limit)).map((row) => {
      const details = toBookingResponse(row, toActor(row), caller.testMode);
      const { id, start_at: at, meeting_title: title, created_by: actor } = details;
      return { kind: 'booking', id, at, title, summary: toSummary(details.meeting_description), actor, details };
    }),

  stage_change: async ({ caller, request: { path }, db: { sql } }, _workspace, after, limit) => {
    const { object } = path;
    if (object !== 'leads' && object !== 'deals') return [];
    return (await listStatusChanges(sql, caller, { object, id: path.id }, after, limit)).map((row) => {
      const details = toAuditLog(row);
      const { id, occurred_at: at, actor } = details;
      const { from, to } = row.changes?.[statusField[object]] ?? { from: null, to: null };
      const title = [from, to].flatMap((name) => (typeof name === 'string' ? name : [])).join(' → ');
      const { reason } = row.metadata ?? {};
      return {
        kind: 'stage_change',
        id,
        at,
        title,
        summary: typeof reason === 'string' ? reason : null,
        actor,
        details,
      };
    });
  },

  attachment: async ({ caller, request: { path }, db: { sql } }, _workspace, after, limit) =>
    (await listAttachments(sql, caller, path, after, limit)).map((row) => {
      const details = toAttachmentResponse(row, toActor(row), caller.testMode);
      const { id, created_at: at, file_name: title, uploaded_by: actor } = details;
      return { kind: 'attachment', id, at, title, summary: null, actor, details };
    }),

  link: async ({ caller, request: { path }, db: { sql } }, workspace, after, limit) => {
    // References are fields of records: they have no id, no creator and no time of their own.
    const relations = listVisibleRelations(path.object, workspace, caller).filter(({ type }) => !isSystem(type));
    return (await listLinks(sql, caller, path, relations, after, limit)).flatMap(({ linkTypeId, side, ...link }) => {
      const relation = relations.find(({ type, ...each }) => type.id === linkTypeId && each.side === side);
      if (!relation || link.id === null) return [];
      const { name } = relation;
      return { kind: 'link' as const, id: link.id, at: link.createdAt.toISOString(), link: { ...link, name } };
    });
  },
};

const channelNames = { sms: 'SMS', email: 'Email', whatsapp: 'WhatsApp message' } as const;

/** Returns the items of a page, with the labels of linked records. */
async function complete(call: TimelineCall, workspace: Workspace, entries: readonly Entry[]): Promise<Item[]> {
  const links = entries.flatMap((entry) => ('link' in entry ? entry.link : []));
  const responses = new Map(
    (await toLinkResponses(call, workspace, links)).flatMap((link) => (link?.id ? [[link.id, link] as const] : [])),
  );
  return entries.flatMap((entry) => {
    if (!('link' in entry)) return entry;
    const details = responses.get(entry.id);
    if (!details) return [];
    const { kind, id, at } = entry;
    const title = toSummary(details.record_label) ?? details.link_type;
    return { kind, id, at, title, summary: details.link_type, actor: details.created_by, details };
  });
}
