// The API keys of a workspace: create, read, change, rotate and revoke.
import { v7 as uuidv7 } from 'uuid';
import * as db from '../../db/access/api-keys.ts';
import { getScopeModule, isGrantable } from '../../domain/access/scopes.ts';
import { configurationLimits } from '../../domain/service/request-limits.ts';
import type { components } from '../../generated/api.ts';
import type { Caller } from '../../runtime/caller.ts';
import { newApiKey } from '../../runtime/credentials/secrets.ts';
import { buildProblem, conflict, type FieldProblem, isValidSoFar, orNotFound } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { readPage } from '../../runtime/paging.ts';
import { toTenantTime } from '../../runtime/test-time.ts';

type ApiKey = components['schemas']['ApiKey'];

const hourMilliseconds = 3_600_000;
const dayMilliseconds = 24 * hourMilliseconds;
/** Days of usage that are returned by default. */
const defaultDays = 30;

export const createApiKey: Handler<'createApiKey'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const reach = await checkReach(call);
  const problems = [
    ...(await findScopeProblems(call)),
    ...findExpiryProblems(call, call.request.body.environment),
    ...reach.problems,
  ];
  if (call.request.problems.length + problems.length > 0) throw call.request.rejection([], problems);
  const expiresAt = parseTime(body.expires_at);
  await assertBelowLimit(call);
  const made = newApiKey(body.environment);
  const key = {
    id: uuidv7(),
    name: body.name,
    description: body.description ?? null,
    environment: body.environment,
    prefix: made.prefix,
    last4: made.last4,
    scopes: body.scopes,
    perMinute: body.rate_limit_per_minute,
    perHour: body.rate_limit_per_hour,
    perDay: body.rate_limit_per_day ?? null,
    ipAllowlist: body.ip_allowlist ?? [],
    reachKind: reach.kind,
    reachId: reach.id,
    writeMode: body.write_mode,
    expiresAt: expiresAt ?? null,
    ...createdBy(caller, now),
  };
  await db.insertApiKey(sql, caller.companyId, key, made.hash);
  call.db.record({
    action: 'api_key.create',
    object: 'api_keys',
    recordId: key.id,
    metadata: { name: key.name, environment: key.environment, scopes: key.scopes, last4: key.last4 },
  });
  return { status: 201, data: { api_key: toApiKeyResponse({ ...initialState, ...key }, call), key: made.key } };
};

export const listApiKeys: Handler<'listApiKeys'> = async (call) => {
  const { caller, now } = call;
  const { query } = call.request;
  const { sql } = call.db;
  const { environment, status } = query;
  const { rows, ...rest } = await readPage(
    call,
    ['API keys', environment, status],
    (after, limit) =>
      db.listApiKeys(sql, caller.companyId, { environment, status, after }, limit, {
        live: now,
        test: readKeyTime(call, 'test'),
      }),
    (last: db.ApiKeyRow) => [last.createdAt.toISOString(), last.id],
  );
  return { status: 200, data: { api_keys: rows.map((row) => toApiKeyResponse(row, call)), ...rest } };
};

export const getApiKey: Handler<'getApiKey'> = async (call) => {
  const {
    caller,
    request: { path },
    db: { sql },
  } = call;
  const row = orNotFound(await db.findApiKey(sql, caller.companyId, path.id));
  return { status: 200, data: { api_key: toApiKeyResponse(row, call) } };
};

export const getApiKeyUsage: Handler<'getApiKeyUsage'> = async ({
  caller,
  now,
  request: { path, query },
  db: { sql },
}) => {
  const { days: count = defaultDays } = query;
  const dates = Array.from({ length: count }, (_, index) =>
    new Date(now.getTime() - (count - 1 - index) * dayMilliseconds).toISOString().slice(0, 10),
  );
  const [key, counted] = await Promise.all([
    db.findApiKey(sql, caller.companyId, path.id),
    db.countCallsOfKey(sql, caller.companyId, path.id, dates[0] ?? ''),
  ]);
  const days = dates.map((date) => ({ date, calls: counted.get(date) ?? 0 }));
  const calls = days.reduce((sum, day) => sum + day.calls, 0);
  return { status: 200, data: { usage: { api_key_id: orNotFound(key).id, calls, days } } };
};

export const updateApiKey: Handler<'updateApiKey'> = async (call) => {
  const { caller, now } = call;
  const { body, path } = call.request;
  const { sql } = call.db;
  const problems = [...(await findScopeProblems(call)), ...findExpiryProblems(call, 'live')];
  if (call.request.problems.length + problems.length > 0) throw call.request.rejection([], problems);
  const expiresAt = parseTime(body.expires_at);
  const row = orNotFound(await db.lockApiKey(sql, caller.companyId, path.id));
  if (row.revokedAt) throw alreadyRevoked();
  const settings: db.ApiKeySettings = {
    name: body.name ?? row.name,
    description: body.description === undefined ? row.description : body.description,
    scopes: body.scopes ?? row.scopes,
    perMinute: body.rate_limit_per_minute ?? row.perMinute,
    perHour: body.rate_limit_per_hour ?? row.perHour,
    perDay: body.rate_limit_per_day === undefined ? row.perDay : body.rate_limit_per_day,
    ipAllowlist: body.ip_allowlist ?? row.ipAllowlist,
    writeMode: body.write_mode ?? row.writeMode,
    expiresAt: expiresAt === undefined ? row.expiresAt : expiresAt,
  };
  const before = toApiKeyResponse(row, call);
  const after = toApiKeyResponse({ ...row, ...settings }, call);
  const changes = findChanges(before, after);
  if (Object.keys(changes).length > 0) {
    if (before.status === 'expired' && after.status === 'active') await assertBelowLimit(call);
    await db.updateApiKey(sql, caller.companyId, row.id, settings, now);
    call.db.record({ action: 'api_key.update', object: 'api_keys', recordId: row.id, changes });
  }
  return { status: 200, data: { api_key: after } };
};

export const revokeApiKey: Handler<'revokeApiKey'> = async (call) => {
  const { caller, now } = call;
  const { body, path } = call.request;
  const { sql } = call.db;
  const reason = body?.reason ?? null;
  if (await db.revokeApiKey(sql, caller.companyId, path.id, caller.actor.id, reason, now))
    call.db.record({ action: 'api_key.revoke', object: 'api_keys', recordId: path.id, metadata: { reason } });
  const row = orNotFound(await db.findApiKey(sql, caller.companyId, path.id));
  return { status: 200, data: { api_key: toApiKeyResponse(row, call) } };
};

export const rotateApiKey: Handler<'rotateApiKey'> = async (call) => {
  const { caller, now } = call;
  const { body, path } = call.request;
  const { sql } = call.db;
  const row = orNotFound(await db.lockApiKey(sql, caller.companyId, path.id));
  const { status } = toApiKeyResponse(row, call);
  if (status === 'revoked') throw alreadyRevoked();
  if (status === 'expired') throw conflict('key_expired', 'This API key has expired. Create a new one.');
  const ungrantable = row.scopes.filter((scope) => !isGrantable(scope));
  if (ungrantable.length > 0) {
    const message = 'This API key has scopes that can no longer be granted to keys. Create a new one.';
    throw conflict('scope_not_grantable', message, { scopes: ungrantable });
  }
  const end = new Date(readKeyTime(call, row.environment).getTime() + (body?.overlap_hours ?? 24) * hourMilliseconds);
  const expiresAt = row.expiresAt && row.expiresAt < end ? row.expiresAt : end;
  await db.endReplacedKey(sql, caller.companyId, row.id, expiresAt, now);
  await assertBelowLimit(call);
  const made = newApiKey(row.environment);
  const key = { ...row, id: uuidv7(), prefix: made.prefix, last4: made.last4, ...createdBy(caller, now) };
  await db.insertApiKey(sql, caller.companyId, key, made.hash);
  const overlap = { from: row.expiresAt?.toISOString() ?? null, to: expiresAt.toISOString() };
  call.db.record({
    action: 'api_key.rotate',
    object: 'api_keys',
    recordId: row.id,
    changes: { expires_at: overlap },
    metadata: { replaced_by: key.id, last4: key.last4 },
  });
  return { status: 201, data: { api_key: toApiKeyResponse({ ...key, ...initialState }, call), key: made.key } };
};

const alreadyRevoked = () =>
  conflict('key_revoked', 'This API key was revoked, which cannot be undone. Create a new one.');

/** @throws ApiError 409 if the workspace has the maximum number of active keys */
async function assertBelowLimit({ caller, arrivedAt, db: { sql } }: Call): Promise<void> {
  const active = await db.lockActiveKeyCount(sql, caller.companyId, arrivedAt);
  if (active < configurationLimits.activeApiKeys) return;
  const message = `A workspace can have at most ${configurationLimits.activeApiKeys} active API keys. Revoke one first.`;
  throw conflict('key_limit', message, { limit: configurationLimits.activeApiKeys });
}

type WritingCall = Call<'createApiKey'> | Call<'updateApiKey'>;

/** Checks every scope that is a string, even if other parts of the body are invalid. */
async function findScopeProblems(call: WritingCall): Promise<FieldProblem[]> {
  const { problems } = call.request;
  const { scopes } = call.request.body;
  if (!Array.isArray(scopes)) return [];
  // Disabled objects count, too: their grants take effect when they are enabled again.
  const { customObjects } = (await call.services.loadWorkspace()).rows;
  const modules = new Set(customObjects.map(({ slug }) => `object:${slug}`));
  return scopes.flatMap((scope, index) => {
    const field = `scopes[${index}]`;
    if (!isValidSoFar(problems, field)) return [];
    const module = getScopeModule(scope);
    const isKnown = !module.startsWith('object:') || modules.has(module) || !isValidSoFar(problems, 'scopes');
    if (isGrantable(scope) && isKnown) return [];
    if (isGrantable(scope))
      return buildProblem(field, 'NOT_FOUND', `There is no object ${module}`, {
        allowed: [...modules],
        hint: 'Create the object first, or use * for all objects.',
      });
    return buildProblem(field, 'INVALID_OPTION', `${scope} is not a scope that can be granted to API keys`, {
      hint: 'Scopes have the form module:action, e.g. leads:view. module:* grants all actions of a module, and * grants everything.',
    });
  });
}

/** Returns undefined if no time was sent, and null if it was cleared. */
function parseTime(text: string | null | undefined): Date | null | undefined {
  return typeof text === 'string' ? new Date(text) : text;
}

/** Returns the time by which a key expires: test keys expire by the clock of test mode. */
const readKeyTime = ({ caller, now }: Pick<Call, 'caller' | 'now'>, environment: ApiKey['environment']): Date =>
  toTenantTime(now, { ...caller, testMode: environment === 'test' });

/** @param environment of the key; live if it is not known yet, whose clock is never ahead */
function findExpiryProblems(call: WritingCall, environment: ApiKey['environment']): FieldProblem[] {
  const { body, problems } = call.request;
  if (!isValidSoFar(problems, 'expires_at')) return [];
  const expiresAt = parseTime(body.expires_at);
  if (!expiresAt || expiresAt > readKeyTime(call, environment)) return [];
  return [buildProblem('expires_at', 'OUT_OF_RANGE', 'expires_at must be in the future')];
}

async function checkReach(call: Call<'createApiKey'>): Promise<{
  kind: 'company' | 'branch' | 'team';
  id: string | null;
  problems: FieldProblem[];
}> {
  const { caller } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const kind = body.reach?.kind ?? 'company';
  const id = body.reach?.id ?? null;
  const problems: FieldProblem[] = [];
  const isUnreadable = ['reach.kind', 'reach.id'].some((field) => !isValidSoFar(call.request.problems, field));
  if (isUnreadable || call.request.problems.some(({ field }) => field === 'reach')) return { kind, id, problems };
  if (kind === 'company') {
    if (id !== null)
      problems.push(
        buildProblem('reach.id', 'CONFLICTING_FIELDS', 'reach.id is only allowed if reach.kind is branch or team'),
      );
  } else if (id === null) {
    problems.push(buildProblem('reach.id', 'REQUIRED', `reach.id is required if reach.kind is ${kind}`));
  } else if (!(await db.lockBranchOrTeam(sql, caller.companyId, kind, id))) {
    problems.push(buildProblem('reach.id', 'NOT_FOUND', `reach.id must be the id of a ${kind}`));
  }
  return { kind, id, problems };
}

function createdBy(caller: Caller, now: Date) {
  return { createdById: caller.actor.id, createdByName: caller.actor.name, createdAt: now };
}

/** The state of a new key. */
const initialState = {
  revokedAt: null,
  revokedBy: null,
  revokeReason: null,
  isLegacy: false,
  lastUsedAt: null,
  lastUsedIp: null,
  totalRequests: 0,
};

function toApiKeyResponse(row: db.ApiKeyRow, call: Pick<Call, 'caller' | 'now'>): ApiKey {
  const now = readKeyTime(call, row.environment);
  return {
    id: row.id,
    name: row.name,
    description: row.description,
    environment: row.environment,
    prefix: row.prefix,
    last4: row.last4,
    scopes: row.scopes,
    rate_limit_per_minute: row.perMinute,
    rate_limit_per_hour: row.perHour,
    rate_limit_per_day: row.perDay,
    ip_allowlist: row.ipAllowlist,
    reach: { kind: row.reachKind, id: row.reachId },
    write_mode: row.writeMode,
    expires_at: row.expiresAt?.toISOString() ?? null,
    status: row.revokedAt ? 'revoked' : row.expiresAt && row.expiresAt <= now ? 'expired' : 'active',
    created_by: { id: row.createdById, full_name: row.createdByName },
    created_at: row.createdAt.toISOString(),
    last_used_at: row.lastUsedAt?.toISOString() ?? null,
    last_used_ip: row.lastUsedIp,
    total_requests: row.totalRequests,
    revoked_at: row.revokedAt?.toISOString() ?? null,
    revoked_by: row.revokedBy,
    revoke_reason: row.revokeReason,
    is_legacy: row.isLegacy,
  };
}

function findChanges(before: ApiKey, after: ApiKey): Record<string, { from: unknown; to: unknown }> {
  const changes: Record<string, { from: unknown; to: unknown }> = {};
  for (const name of settingNames)
    if (JSON.stringify(before[name]) !== JSON.stringify(after[name]))
      changes[name] = { from: before[name], to: after[name] };
  return changes;
}

const settingNames = [
  'name',
  'description',
  'scopes',
  'rate_limit_per_minute',
  'rate_limit_per_hour',
  'rate_limit_per_day',
  'ip_allowlist',
  'write_mode',
  'expires_at',
] as const;
