// The audit log: who did what and when, and everything that one request did.
import { findBuiltinObject } from '../../domain/objects/builtin.ts';
import { type Html, html, isolateText } from '../../runtime/pages/html.ts';
import { getTimeZone, toDay, toPeriod } from '../../runtime/pages/time-zone.ts';
import { changesTable, showValue } from '../pages/changes.ts';
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
import {
  ask,
  buildAddress,
  type ConsoleParts,
  type Data,
  type PersonalRequest,
  type Show,
  toLiveMode,
} from '../pages/requests.ts';
import { buildKey, findReferenced } from './change-set-values.ts';
import { loadNodeNames } from './organization.ts';
import { askIfAllowed, loadRecordNames, type RecordReference, recordLink } from './record-names.ts';

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
  const names = await loadNames(parts, request, logs);
  const nothing = next === null ? 'No matching entries.' : 'No matching entries so far. There are older entries.';
  const body = html`${filterForm(request, buildFilters({ form: query }))}
${logs.length === 0 ? emptyState(nothing) : listByDay(logs, names, testMode)}
${nextPageLink(buildAddress(home, testMode, { ...wanted, cursor: next ?? '' }), next)}`;
  return consolePage(request, 200, 'Audit log', body);
}

/** Paths of the pages of what is no record, by the object of entries. */
const places: Readonly<Record<string, string>> = {
  users: '/console/people',
  branches: '/console/organization/branches',
  teams: '/console/organization/teams',
};

/** The objects whose IDs changed fields hold, besides those of records. */
const referencedPlaces: Readonly<Record<string, string>> = {
  branch_id: 'branches',
  team_id: 'teams',
  manager_id: 'users',
  manager_user_id: 'users',
};

const findReferencedObject = (name: string): string | undefined =>
  referencedPlaces[name] ?? findReferenced(name, undefined, {});

/** Lists what an entry is about and what its changed fields refer to. */
function listReferenced(log: AuditLog): RecordReference[] {
  const { object, record_id: id, changes } = log;
  const own = findRecord(log) ?? (object !== null && id !== null && object in places ? { object, id } : undefined);
  const changed = Object.entries(changes ?? {}).flatMap(([name, { from, to }]) => {
    const referenced = findReferencedObject(name);
    const ids = [from, to].filter((each): each is string => typeof each === 'string' && isUuid.test(each));
    return referenced === undefined ? [] : ids.map((each) => ({ object: referenced, id: each }));
  });
  return [...(own ? [own] : []), ...changed];
}
const isUuid = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;

/** People whose names are looked up. Others are shown with their IDs. */
const shownPeople = '100';

/** Returns the names of what entries are about, by `buildKey`, in at most one call for each object. */
async function loadNames(
  parts: ConsoleParts,
  request: PersonalRequest,
  logs: readonly AuditLog[],
): Promise<Map<string, string>> {
  const wanted = logs.flatMap(listReferenced);
  const isWanted = (...objects: string[]): boolean => wanted.some(({ object }) => objects.includes(object));
  const readPeople = () => ask(parts, toLiveMode(request), 'listUsers', { query: { limit: shownPeople } });
  const records = wanted.filter(({ object }) => !(object in places));
  const [names, nodes, people] = await Promise.all([
    loadRecordNames(parts, request, records),
    isWanted('branches', 'teams') ? loadNodeNames(parts, request) : [],
    isWanted('users') ? askIfAllowed(readPeople, { users: [] }) : { users: [] },
  ]);
  for (const [key, name] of nodes) names.set(key, name);
  for (const { id, full_name: name } of people.users) names.set(buildKey('users', id), name);
  return names;
}

/** Builds a table of each day. */
function listByDay(logs: readonly AuditLog[], names: ReadonlyMap<string, string>, testMode: boolean): Html[] {
  const days = Map.groupBy(logs, ({ occurred_at: at }) => toDay(at));
  return [...days].map(([day, entries]) => {
    const rows = entries.map((log) => [
      formatTime(log.occurred_at),
      isolateText(log.actor.name ?? log.actor.id),
      html`<code>${log.action}</code>${renderDetails(log, names, testMode)}`,
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
  const name = object === null ? undefined : names.get(buildKey(object, id));
  const link =
    name === undefined ? renderFormerName(log) : html` ${linkByName({ object: object ?? '', id }, name, testMode)}`;
  return html`${object}${link} <a class="id" href="${buildAddress(home, testMode, { record_id: id })}"><code>${id}</code></a>`;
}

const linkByName = (thing: RecordReference, name: string, testMode: boolean): Html => {
  const path = places[thing.object];
  return path === undefined
    ? recordLink(thing, name, testMode)
    : html`<a href="${buildAddress(`${path}/${thing.id}`, testMode)}">${isolateText(name)}</a>`;
};

/** Shows the name that the entry itself has, for example of what is deleted. */
function renderFormerName({ changes }: AuditLog): Html | null {
  const { from, to } = changes?.name ?? changes?.full_name ?? {};
  const name = to ?? from;
  return typeof name === 'string' && name !== '' ? html` ${isolateText(name)}` : null;
}

function renderDetails(
  { changes, metadata, request_id: request, ip }: AuditLog,
  names: ReadonlyMap<string, string>,
  testMode: boolean,
): Html {
  const show = (value: unknown, field: string): Html => {
    const object = typeof value === 'string' ? findReferencedObject(field) : undefined;
    return showValue((object === undefined ? undefined : names.get(buildKey(object, String(value)))) ?? value);
  };
  const changed = changes === null ? null : changesTable('Changed fields', changes, show);
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
