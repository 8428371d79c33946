// Records of every object, read only: search, the newest ones, and one record with its timeline.
import { listPendingAbout } from '../../db/records/change-sets.ts';
import { moduleActions } from '../../domain/access/scopes.ts';
import { getModuleState } from '../../domain/billing/plans.ts';
import { getKindScope, type TimelineKind, timelineKinds } from '../../domain/records/timeline.ts';
import { ApiError } from '../../runtime/errors.ts';
import { type Html, html, isolateText } from '../../runtime/pages/html.ts';
import { toTenantTime } from '../../runtime/test-time.ts';
import { isEmpty, isThing, showValue, type Thing, toLabel } from '../pages/changes.ts';
import {
  badge,
  emptyState,
  factList,
  formatAge,
  formatNumber,
  formatTime,
  pageLinks,
  table,
  tabs,
} from '../pages/components.ts';
import { errorSummary, field, submitOrShowAgain, type Typed } from '../pages/forms.ts';
import { canSeeWholeWorkspace, consolePage, viewScopes } from '../pages/layout.ts';
import {
  act,
  ask,
  buildAddress,
  type ConsoleParts,
  type Data,
  type PersonalRequest,
  type Show,
} from '../pages/requests.ts';
import { buildKey, findReferenced, formatAmount, users } from './change-set-values.ts';
import { channelNames } from './message-drafts.ts';
import { findName, loadRecordNames, type RecordReference, recordLink } from './record-names.ts';

type ListedObject = Data<'listObjects'>['objects'][number];
type SchemaField = Data<'getObjectSchema'>['schema']['fields'][number];
type TimelineItem = Data<'listRecordTimeline'>['timeline'][number];

const home = '/console/records';
const pageSize = 25;

export const showRecords: Show = async (parts, request) => {
  const { query } = request;
  const { objects } = await ask(parts, request, 'listObjects');
  if (objects.length === 0)
    throw new ApiError('FORBIDDEN_SCOPE', 'You cannot view records.', { required_scopes: viewScopes });
  return submitOrShowAgain(
    async () => {
      const found = isSearch(query)
        ? await searchResults(parts, request, objects)
        : await newestRecords(parts, request, objects);
      return consolePage(request, 200, 'Records', html`${searchForm(request, objects, { form: query })}${found}`);
    },
    async (refused) => {
      const typed = { form: query, refused };
      const body = html`${errorSummary(typed)}${searchForm(request, objects, typed)}`;
      return consolePage(request, refused.status, 'Records', body);
    },
  );
};

const isSearch = (query: URLSearchParams): boolean => (query.get('q')?.trim() ?? '') !== '';

/** Builds the form of the search. It is sent with GET, so that a search has an address. */
function searchForm({ testMode }: PersonalRequest, objects: readonly ListedObject[], typed: Typed): Html {
  const choices = { '': 'All objects', ...Object.fromEntries(objects.map(({ object, plural }) => [object, plural])) };
  return html`<form method="get" action="${home}" class="inline" role="search">
${testMode ? html`<input type="hidden" name="mode" value="test">` : null}
${field('q', 'Search', typed, { hint: 'Part of a name, an email address, a phone number or another text.', maxlength: 100 })}
${field('object', 'In', typed, { choices })}
<button>Search</button>
</form>`;
}

async function searchResults(
  parts: ConsoleParts,
  request: PersonalRequest,
  objects: readonly ListedObject[],
): Promise<Html> {
  const { query, testMode } = request;
  const object = query.get('object') ?? '';
  const limit = object === '' ? 5 : pageSize;
  const { groups } = await ask(parts, request, 'searchRecords', {
    query: { q: query.get('q')?.trim() ?? '', objects: object, limit: String(limit) },
  });
  const clear = html`<p><a href="${buildAddress(home, testMode, { object })}">Clear the search</a></p>`;
  if (groups.length === 0) return html`${emptyState('No matching records.')}${clear}`;
  return html`${groups.map((group) => {
    const { plural = group.label } = objects.find((each) => each.object === group.object) ?? {};
    const rows = group.hits.map(({ id, label, matched_field: matched, record }) => [
      recordLink({ object: group.object, id }, label ?? `${group.label} without a name`, testMode),
      matched === 'full_name' ? 'Full name' : toLabel(matched),
      formatTime(record.created_at),
    ]);
    const hits = { q: query.get('q') ?? '', object: group.object };
    const more =
      group.hits.length === group.total
        ? null
        : object === ''
          ? html`<p><a href="${buildAddress(home, testMode, hits)}">More matches: ${plural}</a></p>`
          : html`<p class="note">The best ${group.hits.length} matches. Search for more of the text to narrow them down.</p>`;
    return html`<h2>${plural}: ${countMatches(group)}</h2>
${table(`Matches: ${plural}`, ['Name', 'Found in', 'Created'], rows)}${more}`;
  })}${clear}`;
}

function countMatches({ total, total_capped: isCapped }: { total: number; total_capped: boolean }): string {
  const count = `${formatNumber(total)}${isCapped ? ' or more' : ''}`;
  return total === 1 && !isCapped ? '1 match' : `${count} matches`;
}

/** Fields that say most about a record, in the order of the columns. */
const telling = [
  ...['email', 'lead_status', 'stage', 'amount_minor', 'status', 'activity_type', 'task_type', 'phone'],
  ...['scheduled_at', 'performed_at', 'expected_close_date', 'industry', 'city'],
];
/** Columns between the name and the time. */
const maxColumns = 3;
/** Fields that are part of the name of a record. */
const nameFields = new Set(['name', 'title', 'first_name', 'last_name', 'summary']);

async function newestRecords(
  parts: ConsoleParts,
  request: PersonalRequest,
  objects: readonly ListedObject[],
): Promise<Html> {
  const { query, testMode } = request;
  const wanted = query.get('object') ?? '';
  const object = wanted === '' ? (objects[0]?.object ?? '') : wanted;
  const [{ schema }, { records, next_cursor: next }] = await Promise.all([
    ask(parts, request, 'getObjectSchema', { path: { object } }),
    ask(parts, request, 'listRecords', {
      path: { object },
      query: { cursor: query.get('cursor') ?? '', limit: String(pageSize) },
    }),
  ]);
  const fields = chooseColumns(schema.fields);
  const rows = records.map((record) => [
    recordLink({ object, id: record.id }, findName(record) ?? `${schema.label} without a name`, testMode),
    ...fields.map((each) => (isEmpty(record[each.name]) ? null : renderValue(each, record))),
    formatTime(record.created_at),
  ]);
  const shown = Object.fromEntries(objects.map((each) => [each.object, each.plural]));
  const columns = ['Name', ...fields.map(({ label }) => label), 'Created'];
  return html`${tabs(request, { path: home, parameter: 'object', shown, current: object })}
${rows.length === 0 ? emptyState(`No ${schema.plural.toLowerCase()} yet.`) : table(schema.plural, columns, rows)}
${pageLinks(request, home, { object }, next)}`;
}

function chooseColumns(fields: readonly SchemaField[]): SchemaField[] {
  const known = telling.flatMap((name) => fields.find((each) => each.name === name) ?? []);
  const others = fields.filter(
    ({ name, type, custom }) => custom && type !== 'textarea' && !nameFields.has(name) && !telling.includes(name),
  );
  return [...known, ...others].slice(0, maxColumns);
}

/** Renders a value that is not empty by the type of its field. */
function renderValue({ name, type, options }: SchemaField, record: Thing): Html | string {
  const value = record[name];
  if (type === 'date' && typeof value === 'string') return html`<time datetime="${value}">${value}</time>`;
  if (type === 'currency' && typeof value === 'number') return formatAmount(value, record);
  if (type === 'number' && typeof value === 'number') return formatNumber(value);
  const option = options?.find((each) => each.value === value);
  return option ? isolateText(option.label) : showValue(value);
}

export const showRecord: Show = async (parts, request) => {
  const { object = '', id = '' } = request.path;
  const path = { object, id };
  const { schema } = await ask(parts, request, 'getObjectSchema', { path: { object } });
  const expand = [
    ...schema.fields.flatMap(({ name }) => (name === 'assigned_to' ? name : [])),
    ...(object === 'leads' || object === 'customers' ? ['tags'] : []),
  ].join(',');
  const [{ record }, timeline, drafts, sets] = await Promise.all([
    ask(parts, request, 'getRecord', { path, query: { expand } }),
    loadTimeline(parts, request),
    listWaitingDrafts(parts, request),
    listWaitingSets(parts, request, schema.module),
  ]);
  const references = schema.fields
    .filter(({ name }) => name !== 'assigned_to')
    .flatMap((each) => findReference(each, record, object) ?? []);
  const names = await loadRecordNames(parts, request, references);
  const body = html`${showFields(schema.fields, record, { request, names, object })}
${showWaiting(drafts, sets, request)}
${timeline}
<p><a href="${buildAddress(home, request.testMode, { object })}">Back to ${schema.plural}</a></p>`;
  return consolePage(request, 200, isolateText(findName(record) ?? `${schema.label} without a name`), body);
};

/** Returns the record or user that a field refers to; undefined if it refers to none. */
function findReference({ name }: SchemaField, record: Thing, object: string): RecordReference | undefined {
  const id = record[name];
  const referenced = name === 'created_by' ? users : findReferenced(name, object, record);
  return typeof id === 'string' && referenced !== undefined ? { object: referenced, id } : undefined;
}

interface Shown {
  request: PersonalRequest;
  /** Names of the records that the record refers to, by `buildKey`. */
  names: ReadonlyMap<string, string>;
  object: string;
}

function showFields(fields: readonly SchemaField[], record: Thing, { request, names, object }: Shown): Html {
  const { testMode, person } = request;
  const expanded = isThing(record.expanded) ? record.expanded : {};
  const facts: Record<string, Html | string | number | null> = {};
  const empty: string[] = [];
  const add = (label: string, name: string, value: Html | string): void => {
    // Two fields can have the same label.
    facts[Object.hasOwn(facts, label) ? `${label} (${name})` : label] = value;
  };
  const known = new Set(fields.map(({ name }) => name));
  for (const each of fields) {
    const { name, label } = each;
    // The ID of a setting, such as `stage_id`, is next to its name.
    if (name.endsWith('_id') && known.has(name.slice(0, -'_id'.length))) continue;
    const reference = findReference(each, record, object);
    if (isEmpty(record[name])) empty.push(label);
    else if (reference) {
      const value = renderReference(reference, expanded[name], names, testMode);
      if (value !== null) add(label, name, value);
    } else if (name === 'object' || name === 'entity_type') continue;
    else add(label, name, renderValue(each, record));
  }
  const tags = Array.isArray(expanded.tags) ? expanded.tags.filter(isThing) : [];
  if (tags.length > 0)
    facts.Tags = html`${tags.map((tag) => html`<span class="badge quiet">${isolateText(String(tag.name))}</span> `)}`;
  const logs = person.caller.grants.allows('settings:view')
    ? html`<a href="${buildAddress('/console/audit-log', testMode, { record_id: String(record.id) })}">Changes in the audit log</a>`
    : null;
  return html`${factList({ ...facts, Created: formatTime(String(record.created_at)), Updated: formatTime(String(record.updated_at)) })}
${empty.length === 0 ? null : html`<p class="note">Empty: ${empty.join(', ')}.</p>`}
${logs === null ? null : html`<p>${logs}</p>`}`;
}

/** @returns null for a user that cannot be found, such as the ID of an API key */
function renderReference(
  { object, id }: RecordReference,
  expanded: unknown,
  names: ReadonlyMap<string, string>,
  testMode: boolean,
): Html | null {
  const name = findName(expanded) ?? names.get(buildKey(object, id));
  if (object === users) return name === undefined ? null : isolateText(name);
  return name === undefined
    ? html`<span class="none">a record that you cannot see, or that was deleted</span>`
    : recordLink({ object, id }, name, testMode);
}

/** Messages and change sets that wait, as far as the page of a record lists them. */
const maxWaiting = 5;

type Drafts = Pick<Data<'listMessageDrafts'>, 'drafts' | 'has_more'>;

/** Returns the messages about a record that wait for approval; none if the person may not see messages. */
async function listWaitingDrafts(parts: ConsoleParts, request: PersonalRequest): Promise<Drafts> {
  const { object = '', id = '' } = request.path;
  const { caller } = request.person;
  if (!caller.grants.allows('inbox:view') || getModuleState('inbox', caller.modules) !== 'on')
    return { drafts: [], has_more: false };
  const query = { object, record_id: id, status: 'draft', limit: String(maxWaiting) };
  return ask(parts, request, 'listMessageDrafts', { query });
}

type WaitingSets = Awaited<ReturnType<typeof listPendingAbout>>;

const setScopes = ['change_sets:view'];

/** Returns the change sets about a record that wait for a decision; none if the person may not see them. */
async function listWaitingSets(parts: ConsoleParts, request: PersonalRequest, module: string): Promise<WaitingSets> {
  const { grants } = request.person.caller;
  if (!grants.allows('change_sets:view') || !canSeeWholeWorkspace(request.person.caller, setScopes)) return [];
  const viewable = [...Object.keys(moduleActions), module].filter((each) => grants.allows(`${each}:view`));
  return act(parts, request, setScopes, ({ caller, now, db: { sql } }) =>
    listPendingAbout(sql, { ...caller, viewable }, request.path.id ?? '', maxWaiting + 1, now),
  );
}

function showWaiting(
  { drafts, has_more: hasMore }: Drafts,
  sets: WaitingSets,
  { testMode, person }: PersonalRequest,
): Html | null {
  if (drafts.length + sets.length === 0) return null;
  const mayDecide = person.caller.grants.allows('inbox:create');
  const messages = drafts.map((draft) => {
    const name = html`${channelNames[draft.channel]} to ${isolateText(draft.to)}`;
    const text = isolateText(draft.subject ?? truncate(draft.body, 100));
    return html`<li>${mayDecide ? html`<a href="${buildAddress(`/console/messages/${draft.id}`, testMode)}">${name}</a>` : name}: ${text}</li>`;
  });
  const changes = sets
    .slice(0, maxWaiting)
    .map(
      ({ id, title }) =>
        html`<li><a href="${buildAddress(`/console/change-sets/${id}`, testMode)}">Change set: ${isolateText(title)}</a></li>`,
    );
  return html`<h2>Waiting for approval</h2>
<ul>${messages}${changes}</ul>
${hasMore || sets.length > maxWaiting ? html`<p class="note">The newest ${maxWaiting} of each kind.</p>` : null}`;
}

const truncate = (text: string, length: number): string => (text.length > length ? `${text.slice(0, length)}…` : text);

const kindNames: Readonly<Record<TimelineKind, readonly [one: string, many: string]>> = {
  note: ['Note', 'Notes'],
  activity: ['Activity', 'Activities'],
  task: ['Task', 'Tasks'],
  message: ['Message', 'Messages'],
  booking: ['Meeting', 'Meetings'],
  stage_change: ['Stage', 'Stages'],
  attachment: ['File', 'Files'],
  link: ['Link', 'Links'],
};

/** Returns the kinds of items that the person may see. */
const listKinds = ({ person: { caller } }: PersonalRequest): TimelineKind[] =>
  timelineKinds.filter((kind) => {
    const scope = getKindScope(kind);
    if (scope === null) return true;
    const [module = ''] = scope.split(':');
    return caller.grants.allows(scope) && getModuleState(module, caller.modules) === 'on';
  });

async function loadTimeline(parts: ConsoleParts, request: PersonalRequest): Promise<Html> {
  const { query, testMode, person, now } = request;
  const { object = '', id = '' } = request.path;
  const here = `${home}/${object}/${id}`;
  const kinds = listKinds(request);
  const kind = kinds.find((each) => each === query.get('kind')) ?? '';
  const asked = { kinds: kind, cursor: query.get('cursor') ?? '', limit: String(pageSize) };
  const { timeline, next_cursor: next } = await ask(parts, request, 'listRecordTimeline', {
    path: { object, id },
    query: asked,
  });
  const time = toTenantTime(now, { ...person.caller, testMode });
  const shown = { '': 'All', ...Object.fromEntries(kinds.map((each) => [each, kindNames[each][1]])) };
  const items = timeline.map((item) => timelineItem(item, time, request));
  return html`<h2 id="timeline">Timeline</h2>
${tabs(request, { path: here, parameter: 'kind', shown, current: kind })}
${items.length === 0 ? emptyState(kind === '' ? 'Nothing has happened yet.' : `No ${kindNames[kind][1].toLowerCase()}.`) : html`<ol class="timeline">${items}</ol>`}
${pageLinks(request, here, { kind }, next)}`;
}

function timelineItem(
  { kind, at, title, summary, actor, details }: TimelineItem,
  now: Date,
  request: PersonalRequest,
): Html {
  const { testMode, person } = request;
  const { draft_id: draft, direction, to, from, object, record_id: recordId } = details as unknown as Thing;
  const name =
    kind === 'link' && typeof object === 'string' && typeof recordId === 'string'
      ? recordLink({ object, id: recordId }, title, testMode)
      : kind === 'message' && typeof draft === 'string' && person.caller.grants.allows('inbox:create')
        ? html`<a href="${buildAddress(`/console/messages/${draft}`, testMode)}">${isolateText(title)}</a>`
        : isolateText(title);
  const other = direction === 'inbound' ? from : to;
  const way =
    kind === 'message' && typeof other === 'string'
      ? html`, ${direction === 'inbound' ? 'from' : 'to'} ${isolateText(other)}`
      : null;
  const by = actor === null ? null : html`, ${isolateText(actor.name ?? actor.kind)}`;
  return html`<li><h3>${badge(kindNames[kind][0])} ${name}</h3>
<p class="note">${formatAge(at, now)}${way}${by}</p>
${summary === null || kind === 'link' ? null : html`<p class="text">${isolateText(summary)}</p>`}</li>`;
}
