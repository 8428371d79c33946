// The request log: which calls arrived, why they failed, and what each of them caused.
import { type Html, html, isolateText } from '../../runtime/pages/html.ts';
import { getTimeZone, toPeriod } from '../../runtime/pages/time-zone.ts';
import {
  badge,
  emptyState,
  factList,
  formatSecond,
  nextPageLink,
  type Tone,
  table,
  tabs,
} from '../pages/components.ts';
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
import { findTarget } from './change-set-names.ts';
import { buildKey } from './change-set-values.ts';
import { loadRecordNames, recordLink } from './record-names.ts';

type LoggedRequest = Data<'getRequest'>['request'];
type RequestSummary = Data<'listRequests'>['requests'][number];

const home = '/console/requests';
const filters = ['operation', 'error_code', 'path', 'actor_id', 'from', 'to'] as const;
/** Parts of the list by the status that they ask for. */
const statuses = { '': 'All', '4xx': 'Rejected (4xx)', '5xx': 'Failed (5xx)' };

export const showRequests: Show = (parts, request) =>
  submitOrShowAgain(
    () => listPage(parts, request),
    async (refused) => {
      const typed = { form: request.query, refused };
      return consolePage(
        request,
        refused.status,
        'Requests',
        html`${errorSummary(typed)}${filterForm(request, buildFilters(request.query, typed))}`,
      );
    },
  );

async function listPage(parts: ConsoleParts, request: PersonalRequest) {
  const { query, testMode } = request;
  const wanted = readFilters(query, filters);
  const status = query.get('status')?.trim() ?? '';
  const cursor = query.get('cursor') ?? '';
  const { requests, next_cursor: next } = await ask(parts, request, 'listRequests', {
    query: { ...wanted, ...toPeriod(wanted), status, cursor, limit: '50' },
  });
  const rows = requests.map((each) => [
    formatSecond(each.at),
    html`<a href="${buildAddress(`${home}/${each.id}`, testMode)}">${each.method} ${each.path}</a>`,
    renderStatus(each),
    isolateText(each.actor.name ?? each.actor.id),
    `${each.duration_ms} ms`,
  ]);
  const nothing = next === null ? 'No matching requests.' : 'No matching requests so far. There are older requests.';
  const body = html`<p class="note">Calls of API keys and apps in the last 30 days. A request is listed two seconds after its response.</p>
${tabs(request, { path: home, parameter: 'status', shown: statuses, current: status, kept: wanted })}
${filterForm(request, buildFilters(query, { form: query }))}
${rows.length === 0 ? emptyState(nothing) : table('Requests', ['Time', 'Request', 'Status', 'Caller', 'Duration'], rows)}
${nextPageLink(buildAddress(home, testMode, { ...wanted, status, cursor: next ?? '' }), next)}`;
  return consolePage(request, 200, 'Requests', body);
}

/** Returns the chosen part of the list, or the whole list for a status that no tab has. */
function readStatus(query: URLSearchParams): string {
  const given = query.get('status')?.trim() ?? '';
  return Object.hasOwn(statuses, given) || /^[1-5]\d\d$/.test(given) ? given : '';
}

function renderStatus({ status, error_code: code }: Pick<RequestSummary, 'status' | 'error_code'>): Html {
  const tone: Tone = status >= 500 ? 'bad' : status >= 400 ? 'warning' : 'good';
  return html`${badge(`${status}`, tone)}${code === null ? null : html` <code>${code}</code>`}`;
}

const buildFilters = (query: URLSearchParams, typed: Typed): Filters => ({
  path: home,
  names: filters,
  kept: { status: readStatus(query) },
  fields: html`${field('operation', 'Operation', typed, { hint: 'For example createLead.' })}
${field('error_code', 'Error code', typed, { hint: 'For example VALIDATION_ERROR.' })}
${field('path', 'Path begins with', typed, { hint: 'For example /v1/leads.' })}
${field('actor_id', 'Actor id', typed, { hint: 'The id of an API key, user or app.' })}
${field('from', 'From', typed, { type: 'date', hint: `First day, in ${getTimeZone()}.` })}
${field('to', 'To', typed, { type: 'date', hint: `Last day, in ${getTimeZone()}.` })}`,
});

export const showRequest: Show = async (parts, request) => {
  const { testMode, path } = request;
  const { request: logged } = await ask(parts, request, 'getRequest', { path: { id: path.id ?? '' } });
  const record = await linkToRecord(parts, request, logged);
  const body = html`${factList({
    Status: renderStatus(logged),
    Time: formatSecond(logged.at),
    Duration: `${logged.duration_ms} ms`,
    Operation: html`<code>${logged.operation}</code>`,
    Record: record,
    Caller: isolateText(logged.actor.name ?? logged.actor.id),
    Address: logged.ip,
    Program: logged.user_agent === null ? null : isolateText(logged.user_agent),
    'Request id': html`<code>${logged.id}</code>`,
    Replay: logged.idempotent_replay
      ? 'yes: the stored response of an earlier request with this Idempotency-Key'
      : null,
  })}
${renderError(logged)}
${logged.request_body === null ? null : html`<h2>Body</h2><pre tabindex="0">${logged.request_body}</pre>`}
${renderEffects(logged, testMode)}
<p><a href="${buildAddress(home, testMode)}">Back to requests</a></p>`;
  return consolePage(request, 200, html`${logged.method} ${isolateText(logged.path)}`, body);
};

/** Links to the record in the path of a request; null if there is none that the person can see. */
async function linkToRecord(
  parts: ConsoleParts,
  request: PersonalRequest,
  logged: LoggedRequest,
): Promise<Html | null> {
  const { object, id } = findTarget(parts.findOperation, logged) ?? {};
  if (object === undefined || id === undefined) return null;
  const name = (await loadRecordNames(parts, request, [{ object, id }])).get(buildKey(object, id));
  return name === undefined ? null : recordLink({ object, id }, name, request.testMode);
}

function renderError({ error }: LoggedRequest): Html | null {
  if (error === null) return null;
  const details = error.details === undefined || error.details === null ? null : error.details;
  return html`<h2>Error</h2>
<p><code>${error.code}</code> ${isolateText(error.message)}</p>
${details === null ? null : html`<pre tabindex="0">${JSON.stringify(details, null, 1)}</pre>`}`;
}

/** What the request caused: nothing if it was a read, or was rejected. */
function renderEffects({ id, audit_logs: logs, events, deliveries }: LoggedRequest, testMode: boolean): Html {
  if (logs.length + events.length + deliveries.length === 0)
    return html`<h2>Effects</h2><p>The request changed nothing.</p>`;
  const changes = html`<a href="${buildAddress('/console/audit-log', testMode, { request_id: id })}">${countItems(logs.length, 'entry', 'entries')}</a>`;
  return html`<h2>Effects</h2>
${factList({
  'Audit log': logs.length === 0 ? 'none' : changes,
  Events: `${events.length}`,
  'Webhook deliveries': `${deliveries.length}`,
})}`;
}

const countItems = (count: number, one: string, many: string): string => `${count} ${count === 1 ? one : many}`;
