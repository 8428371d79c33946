// API keys of the workspace. A key is shown once, after it is created.
import type { PageResponse } from '../../runtime/http/page-routes.ts';
import { type Html, html, isolateText } from '../../runtime/pages/html.ts';
import { getTimeZone, startDay } from '../../runtime/pages/time-zone.ts';
import {
  badge,
  doneMessage,
  emptyState,
  factList,
  formatTime,
  nextPageLink,
  table,
  tabs,
} from '../pages/components.ts';
import { errorSummary, field, form, parseNumber, splitLines, submitOrShowAgain, type Typed } from '../pages/forms.ts';
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
import { formKey, type Made, makeOnce, showOnce } from '../pages/shown-once.ts';
import { presetLinks, readScopes, scopeFields } from './scope-choice.ts';

type ApiKey = Data<'getApiKey'>['api_key'];

const home = '/console/api-keys';
const keyTones = { active: 'good', expired: 'warning', revoked: 'bad' } as const;
const keyBadge = (status: ApiKey['status']): Html => badge(status, keyTones[status]);
const doneMessages = {
  revoked: 'The API key is revoked. Requests with it are rejected from now on.',
  saved: 'The write mode is saved. It applies from the next request with the API key.',
};
const statuses = { '': 'All', active: 'Active', expired: 'Expired', revoked: 'Revoked' };
const environments = { live: 'Live', test: 'Test' };
const writeModes = { direct: 'Make changes', propose: 'Propose changes, which a person approves' };

export const showKeys: Show = async (parts, request) => {
  const [status, cursor] = [request.query.get('status') ?? '', request.query.get('cursor') ?? ''];
  const { api_keys: keys, next_cursor: next } = await ask(parts, toLiveMode(request), 'listApiKeys', {
    query: { status, cursor, limit: '50' },
  });
  const rows = keys.map((key) => [
    html`<a href="${buildAddress(`${home}/${key.id}`, request.testMode)}">${isolateText(key.name)}</a>`,
    html`<code>${key.prefix}…${key.last4}</code>`,
    keyBadge(key.status),
    formatTime(key.last_used_at, 'never'),
    formatTime(key.expires_at, 'never'),
  ]);
  const body = html`${doneMessage(request, doneMessages)}
<p><a class="button" href="${buildAddress(`${home}/new`, request.testMode)}">Create API key</a></p>
${tabs(request, { path: home, parameter: 'status', shown: statuses, current: status })}
${keys.length === 0 ? emptyState('No API keys.') : table('API keys', ['Name', 'Key', 'Status', 'Last used', 'Expires'], rows)}
${nextPageLink(buildAddress(home, request.testMode, { status, cursor: next ?? '' }), next)}`;
  return consolePage(request, 200, 'API keys', body);
};

export const newKey: Show = async (_, request) => newKeyPage(request, 200);

function newKeyPage(request: PersonalRequest, status: number, typed: Typed = {}): PageResponse {
  const fields = html`${formKey()}
${field('name', 'Name', typed, { required: true, maxlength: 100, hint: 'Shown in lists and in the audit log.' })}
${field('environment', 'Environment', typed, { choices: environments, value: request.testMode ? 'test' : 'live' })}
${scopeFields(request, typed)}
${field('ip_allowlist', 'IP allowlist', typed, { long: true, hint: 'One IP address or network per line, such as 203.0.113.0/24. Leave empty to allow any address.' })}
${field('expires_at', 'Expires on', typed, { type: 'date', hint: `At the start of this day in ${getTimeZone()}. Leave empty for no expiry.` })}
${field('rate_limit_per_minute', 'Requests per minute and endpoint', typed, { type: 'number', value: '60', min: 1, max: 6000 })}
${field('rate_limit_per_hour', 'Requests per hour', typed, { type: 'number', value: '1000', min: 1, max: 200_000 })}
${field('description', 'Description', typed, { maxlength: 1000 })}
${field('write_mode', 'Write mode', typed, { choices: writeModes, value: 'direct' })}
<button>Create</button>`;
  return consolePage(
    request,
    status,
    'Create API key',
    html`${errorSummary(typed)}${presetLinks(request, `${home}/new`)}${form(request, `${home}/new`, fields)}`,
  );
}

export const mintKey: Show = (parts, request) => {
  const given = request.form as URLSearchParams;
  const expires = given.get('expires_at') ?? '';
  const body = {
    name: given.get('name') ?? '',
    environment: given.get('environment') ?? '',
    scopes: readScopes(given),
    ip_allowlist: splitLines(given.get('ip_allowlist')),
    expires_at: expires === '' ? null : (startDay(expires) ?? expires),
    rate_limit_per_minute: parseNumber(given.get('rate_limit_per_minute')),
    rate_limit_per_hour: parseNumber(given.get('rate_limit_per_hour')),
    description: given.get('description') || null,
    write_mode: given.get('write_mode') ?? 'direct',
  };
  return submitOrShowAgain(
    () =>
      makeOnce(parts, request, secrets, async () =>
        madeBy(await ask(parts, toLiveMode(request), 'createApiKey', { body })),
      ),
    async (refused) => newKeyPage(request, refused.status, { form: given, refused }),
  );
};

const secrets = `${home}/secret`;
const madeBy = ({ api_key: key, key: secret }: Data<'createApiKey'>): Made => ({ id: key.id, secret });

/** The only page that shows a key. */
export const showNewKey = showOnce(async (parts, request, { id, secret }) => {
  const { api_key: key } = await ask(parts, toLiveMode(request), 'getApiKey', { path: { id } });
  const body = html`<p role="status">Copy this API key now. It is shown only once.</p>
<p><code class="secret" tabindex="0">${secret}</code></p>
${renderFacts(key)}
<p><a href="${buildAddress(home, request.testMode)}">Back to API keys</a></p>`;
  return consolePage(request, 200, html`API key ${isolateText(key.name)}`, body);
}, secretGone);

function secretGone(request: PersonalRequest, id: string | null): PageResponse {
  const where =
    id === null
      ? html`See the <a href="${buildAddress(home, request.testMode)}">list of API keys</a> for the keys that exist.`
      : html`If you did not copy it, rotate or revoke <a href="${buildAddress(`${home}/${id}`, request.testMode)}">the API key</a>.`;
  const body = html`<p role="alert">An API key is shown only once, right after it is created. ${where}</p>`;
  return consolePage(request, 410, 'The API key is no longer shown', body);
}

export const showKey: Show = (parts, request) => keyPage(parts, request, 200);

async function keyPage(
  parts: ConsoleParts,
  request: PersonalRequest,
  status: number,
  typed: Typed = {},
): Promise<PageResponse> {
  const { id = '' } = request.path;
  const { api_key: key } = await ask(parts, toLiveMode(request), 'getApiKey', { path: { id } });
  const mode = html`<h2>Write mode</h2>
${form(request, `${home}/${id}/write-mode`, html`${field('write_mode', 'Write mode', typed, { choices: writeModes, value: key.write_mode })}<button>Save</button>`)}`;
  const rotate = html`<h2>Rotate</h2>
<p>Creates a new API key with the same settings. The current key keeps working for the given number of hours, and then expires.</p>
${form(request, `${home}/${id}/rotate`, html`${formKey()}${field('overlap_hours', 'Hours until the current key expires', typed, { type: 'number', value: '24', min: 0, max: 168 })}<button>Rotate</button>`)}`;
  const revoke = html`<h2>Revoke</h2>
<p>Requests with this API key are rejected immediately. This cannot be undone.</p>
${form(request, `${home}/${id}/revoke`, html`${field('reason', 'Reason', typed, { maxlength: 200 })}<button class="danger">Revoke</button>`)}`;
  const body = html`${doneMessage(request, doneMessages)}${errorSummary(typed)}
${renderFacts(key)}
${key.status === 'revoked' ? null : mode}
${key.status === 'active' ? rotate : null}
${key.status === 'revoked' ? null : revoke}`;
  return consolePage(request, status, html`API key ${isolateText(key.name)}`, body);
}

const renderFacts = (key: ApiKey): Html =>
  factList({
    Key: html`<code>${key.prefix}…${key.last4}</code>`,
    Status: keyBadge(key.status),
    Environment: key.environment,
    Scopes: html`<code>${key.scopes.join(' ')}</code>`,
    'IP allowlist': key.ip_allowlist.length === 0 ? 'any address' : key.ip_allowlist.join(' '),
    Reach: key.reach.kind,
    'Write mode': writeModes[key.write_mode],
    'Rate limits': `${key.rate_limit_per_minute} requests per minute and endpoint, ${key.rate_limit_per_hour} per hour`,
    Created: html`${formatTime(key.created_at)}${key.created_by.full_name === null ? null : html` by ${isolateText(key.created_by.full_name)}`}`,
    Expires: formatTime(key.expires_at, 'never'),
    'Last used': formatTime(key.last_used_at, 'never'),
    'Total requests': `${key.total_requests}`,
    Revoked: formatTime(key.revoked_at),
    Reason: key.revoke_reason === null ? null : isolateText(key.revoke_reason),
    Description: key.description === null ? null : isolateText(key.description),
  });

export const rotateKey: Show = (parts, request) => {
  const given = request.form as URLSearchParams;
  const { id = '' } = request.path;
  const body = { overlap_hours: parseNumber(given.get('overlap_hours')) };
  return submitOrShowAgain(
    () =>
      makeOnce(parts, request, secrets, async () =>
        madeBy(await ask(parts, toLiveMode(request), 'rotateApiKey', { path: { id }, body })),
      ),
    (refused) => keyPage(parts, request, refused.status, { form: given, refused }),
  );
};

export const saveWriteMode: Show = (parts, request) => {
  const given = request.form as URLSearchParams;
  const { id = '' } = request.path;
  return submitOrShowAgain(
    async () => {
      const body = { write_mode: given.get('write_mode') ?? '' };
      await ask(parts, toLiveMode(request), 'updateApiKey', { path: { id }, body });
      return { redirect: buildAddress(`${home}/${id}`, request.testMode, { done: 'saved' }) };
    },
    (refused) => keyPage(parts, request, refused.status, { form: given, refused }),
  );
};

export const revokeKey: Show = (parts, request) => {
  const given = request.form as URLSearchParams;
  const { id = '' } = request.path;
  return submitOrShowAgain(
    async () => {
      const body = { reason: given.get('reason') || null };
      await ask(parts, toLiveMode(request), 'revokeApiKey', { path: { id }, body });
      return { redirect: buildAddress(home, request.testMode, { done: 'revoked' }) };
    },
    (refused) => keyPage(parts, request, refused.status, { form: given, refused }),
  );
};
