// The audit log: who did what and when, and everything that one request did.
import { findBuiltinObject } from '../../domain/objects/builtin.ts';
import { type Html, html, isolateText } from '../../runtime/pages/html.ts';
import { getTimeZone, toDay, toPeriod } from '../../runtime/pages/time-zone.ts';
import { changesTable } from '../pages/changes.ts';
import { emptyState, formatDay, formatTime, nextPageLink, table } from '../pages/components.ts';
import {
  errorSummary,
  type Filters,
  field,
  filterForm,
  readFilters,
  submitOrShowAgain,
  type Typed,
} from '../pages/forms.ts';
import { consolePage } from '../pages/layout.ts';
import { ask, buildAddress, type ConsoleParts, type Data, type PersonalRequest, type Show } from '../pages/requests.ts';
import { buildKey } from './change-set-values.ts';
import { loadRecordNames, type RecordReference, recordLink } from './record-names.ts';

type AuditLog = Data<'listAuditLogs'>['audit_logs'][number];

const home = '/console/audit-log';
const filters = ['request_id', 'record_id', 'actor_id', 'action', 'object', 'from', 'to'] as const;

export const showAuditLog: Show = (parts, request) =>
  submitOrShowAgain(
    () => auditPage(parts, request),
    async (refused) => {
      const typed = { form: request.query, refused };
      return consolePage(
        request,
        refused.status,
        'Audit log',
        html`${errorSummary(typed)}${filterForm(request, buildFilters(typed))}`,
      );
    },
  );

async function auditPage(parts: ConsoleParts, request: PersonalRequest) {
  const { query, testMode } = request;
  const wanted = readFilters(query, filters);
  const cursor = query.get('cursor') ?? '';
  const { audit_logs: logs, next_cursor: next } = await ask(parts, request, 'listAuditLogs', {
    query: { ...wanted, ...toPeriod(wanted), cursor, limit: '50' },
  });
  const names = await loadRecordNames(
    parts,
    request,
    logs.flatMap((log) => findRecord(log) ?? []),
  );
  const nothing = next === null ? 'No matching entries.' : 'No matching entries so far. There are older entries.';
  const body = html`${filterForm(request, buildFilters({ form: query }))}
${logs.length === 0 ? emptyState(nothing) : listByDay(logs, names, testMode)}
${nextPageLink(buildAddress(home, testMode, { ...wanted, cursor: next ?? '' }), next)}`;
  return consolePage(request, 200, 'Audit log', body);
}

/** Builds a table of each day. */
function listByDay(logs: readonly AuditLog[], names: ReadonlyMap<string, string>, testMode: boolean): Html[] {
  const days = Map.groupBy(logs, ({ occurred_at: at }) => toDay(at));
  return [...days].map(([day, entries]) => {
    const rows = entries.map((log) => [
      formatTime(log.occurred_at),
      isolateText(log.actor.name ?? log.actor.id),
      html`<code>${log.action}</code>${renderDetails(log, testMode)}`,
      renderRecord(log, names, testMode),
    ]);
    return html`<h2>${formatDay(day)}</h2>${table(`Audit log of ${day}`, ['Time', 'Actor', 'Action', 'Record'], rows)}`;
  });
}

/** Returns the record of an entry that has a page. */
function findRecord({ object, record_id: id }: AuditLog): RecordReference | undefined {
  if (object === null || id === null || !(findBuiltinObject(object) || object.startsWith('object:'))) return undefined;
  return { object, id };
}

/** Shows the record of an entry by its name, if the person can see it, and by its ID, which leads to its entries. */
function renderRecord(log: AuditLog, names: ReadonlyMap<string, string>, testMode: boolean): Html | string | null {
  const { object, record_id: id } = log;
  if (id === null) return object;
  const record = findRecord(log);
  const name = record && names.get(buildKey(record.object, record.id));
  const link = record && name !== undefined ? html` ${recordLink(record, name, testMode)}` : null;
  return html`${object}${link} <a class="id" href="${buildAddress(home, testMode, { record_id: id })}"><code>${id}</code></a>`;
}

function renderDetails({ changes, metadata, request_id: request, ip }: AuditLog, testMode: boolean): Html {
  const changed = changes === null ? null : changesTable('Changed fields', changes);
  const more = metadata === null ? null : html`<pre tabindex="0">${JSON.stringify(metadata, null, 1)}</pre>`;
  return html`<details><summary>Details</summary>
${changed}${more}
<p class="note">From ${ip || 'this server'}. <a href="${buildAddress(home, testMode, { request_id: request })}">All entries of this request</a></p></details>`;
}

const buildFilters = (typed: Typed): Filters => ({
  path: home,
  names: filters,
  fields: html`${field('request_id', 'Request id', typed, { hint: 'The X-Request-Id header of a response.' })}
${field('record_id', 'Record id', typed, { hint: 'The id of a record, user or API key.' })}
${field('actor_id', 'Actor id', typed, { hint: 'The id of a user, API key or app.' })}
${field('action', 'Action', typed, { hint: 'For example lead.create.' })}
${field('object', 'Object', typed, { hint: 'For example leads.' })}
${field('from', 'From', typed, { type: 'date', hint: `First day, in ${getTimeZone()}.` })}
${field('to', 'To', typed, { type: 'date', hint: `Last day, in ${getTimeZone()}.` })}`,
});
