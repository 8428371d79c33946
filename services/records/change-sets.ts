// Tries out the operations of change sets, and applies them once a person has approved them.
import { v7 as uuidv7 } from 'uuid';
import type {
  ChangeSetFailure,
  ChangeSetRow,
  ChangeSetStatus,
  ChangeSetSummaryRow,
  ChangeSetViewer,
  Pin,
  StoredOperation,
} from '../../db/records/change-sets.ts';
import {
  findSameProposal,
  hashJson,
  insertChangeSet,
  releaseProposal,
  withdrawPending,
} from '../../db/records/change-sets.ts';
import { findRecordsBeyondReach, lockRecords } from '../../db/records/records.ts';
import { getScopeModule, moduleActions } from '../../domain/access/scopes.ts';
import { toUuid } from '../../domain/objects/field-values.ts';
import { putIds, readRefs } from '../../domain/records/change-set-refs.ts';
import { ApiError, conflict } from '../../runtime/errors.ts';
import type { Call, Change, NestedOperation, NestedOutcome, Proposal } from '../../runtime/handler.ts';

/** An operation of a set before its trial. */
interface Proposed extends Pick<StoredOperation, 'method' | 'path'> {
  body?: StoredOperation['body'] | undefined;
  if_version?: number | undefined;
  ref?: string | undefined;
}
type Caller = Call['caller'];
type Succeeded = Exclude<NestedOutcome, { error: ApiError }>;
type Working = Pick<Call, 'caller' | 'db' | 'services' | 'now'>;

/** Returns a session token's user with the permissions of their roles, and other callers as they are. */
export function toPerson(caller: Caller): Caller {
  const { ofUser } = caller;
  if (!ofUser || caller.kind !== 'session') return caller;
  const scopes = ['change_sets:view'];
  return { ...caller, ...ofUser, kind: 'person', reach: ofUser.computeReach(scopes) };
}

/**
 * Returns the caller as a reader of change sets.
 * @param needsView false if the scope of the operation suffices
 * @throws ApiError 403 if the caller cannot view change sets
 */
export async function toViewer(
  { services }: Pick<Call, 'services'>,
  caller: Caller,
  needsView = true,
): Promise<ChangeSetViewer> {
  if (needsView && !caller.grants.allows('change_sets:view'))
    throw new ApiError('FORBIDDEN_SCOPE', 'This operation requires the scope change_sets:view.', {
      required_scopes: ['change_sets:view'],
    });
  const modules = await findModules(services);
  const { companyId, testMode, actor, userId } = caller;
  const reach = caller.computeReach?.(['change_sets:view']) ?? caller.reach;
  const viewable = [...modules].filter((module) => caller.grants.allows(`${module}:view`));
  return { companyId, testMode, reach, actor, userId, viewable };
}

/** Returns the modules of the API and of the workspace's own objects. */
async function findModules(services: Call['services']): Promise<string[]> {
  const { objects } = await services.loadWorkspace();
  return [...new Set([...Object.keys(moduleActions), ...objects.keys()])];
}

/** @throws ApiError 409 if the set is decided or has expired */
export function requirePending({ status, expiresAt }: ChangeSetSummaryRow, now: Date): void {
  if (status === 'expired' || (status === 'pending' && expiresAt <= now))
    throw conflict('expired', 'The change set has expired. Propose the changes again.');
  if (status !== 'pending') throw conflict('already_decided', `The change set is already ${status}.`, { status });
}

type EventVerb = 'submitted' | 'approved' | 'applied' | 'rejected' | 'failed';

/** Records what happened to a set, with its events. */
export function recordChangeSet(
  { db, now }: Pick<Call, 'db' | 'now'>,
  row: ChangeSetSummaryRow,
  action: 'submit' | 'approve' | 'reject' | 'withdraw',
  ...events: EventVerb[]
): void {
  const data = {
    change_set_id: row.id,
    title: row.title,
    operation_count: row.operationCount,
    occurred_at: now.toISOString(),
  };
  const [event, ...furtherEvents] = events.map((verb) => ({ name: `change_set.${verb}`, data }));
  db.record({
    action: `change_set.${action}`,
    metadata: { change_set_id: row.id, proposed_by: toProposer(row) },
    ...(event ? { event, furtherEvents } : {}),
  });
}

const toProposer = (row: ChangeSetSummaryRow) => ({
  kind: row.createdByKind,
  id: row.createdById,
  name: row.createdByName,
});

interface Target {
  path: string;
  data: Record<string, unknown>;
  version: string;
}

/** Returns the path that reads what an operation changes; undefined if there is none. */
function findTargetPath(
  { services: { nested } }: Working,
  { method, path, body }: { method: string; path: string; body?: unknown },
): string | undefined {
  const operation = nested.find(method, path);
  if (!operation?.isWrite) return undefined;
  const segments = path.split('/');
  // The other record of a merge stays, and is the one that its If-Match is about.
  const { into_id: intoId } = (body ?? {}) as { into_id?: unknown };
  if (operation.operationId === 'mergeRecord' && typeof intoId === 'string')
    segments.splice(-2, 1, encodeURIComponent(intoId));
  // An action of a resource, such as /v1/leads/{id}/status, changes the resource.
  const candidate = (method === 'POST' ? segments.slice(0, -1) : segments)
    .join('/')
    .replace(/^\/v1\/(leads|deals|customers)\/([^/]+)$/, '/v1/objects/$1/records/$2');
  const reader = nested.find('GET', candidate);
  return reader?.isRead && reader.template.endsWith('}') ? candidate : undefined;
}

/** Members of settings and users that change without an edit. */
const unversioned = ['last_sign_in_at'];

/** Reads a target as a caller; undefined if it is not there for them. */
async function readTarget(
  { services: { nested } }: Working,
  caller: Caller,
  path: string,
): Promise<Target | undefined> {
  const outcome = await nested.run({ method: 'GET', path, caller });
  if ('error' in outcome) return undefined;
  const data = outcome.data as Record<string, unknown>;
  return { path, data, version: outcome.etag ?? hashJson(data, unversioned) };
}

interface Problem {
  index: number;
  status: number;
  error: { code: string; message: string; details?: Record<string, unknown> };
}

const toProblem = (index: number, { status, code, message, details }: ApiError): Problem => ({
  index,
  status,
  error: { code, message, ...(details ? { details } : {}) },
});

/** Returns true if an operation can change the configuration that later ones read. */
const changesConfiguration = ({ template }: NestedOperation): boolean =>
  /^\/v1\/(settings|link-types|objects)/.test(template) && !template.includes('/records');

/**
 * Tries out the operations, and stores the set.
 * @throws ApiError 422 for operations that fail, 409 for versions that have passed
 */
export async function proposeChangeSet(call: Call<'createChangeSet'>): Promise<ChangeSetRow> {
  const { title, reason = null, atomic = true, operations, expires_in_hours: hours } = call.request.body;
  const tried = await tryOut(call, () => tryOperations(call, operations));
  const stored = await store(call, { title, reason, atomic, hours, proposalDigest: null }, tried);
  if (!stored) throw new Error('a set that was put together on purpose is always new');
  return stored;
}

interface Tried {
  operations: StoredOperation[];
  /** The records that each operation recorded changes of. */
  touched: Touched[][];
  /** The versions of these records after the operations. */
  versions: ReadonlyMap<string, number>;
  /** The modules that they need. */
  modules: string[];
}

/** Returns the operations of a set that ends without being applied. */
export const toSkipped = ({ operations }: ChangeSetRow): StoredOperation[] =>
  operations.map((operation) => ({ ...operation, status: 'skipped' }));

/** Runs work in a part of the transaction that is rolled back. */
async function tryOut<T>({ db: { sql }, services: { nested } }: Working, work: () => Promise<T>): Promise<T> {
  nested.forget();
  await sql`savepoint trial`;
  const found = await work();
  await sql`rollback to savepoint trial`;
  await sql`release savepoint trial`;
  nested.forget();
  return found;
}

/** Adds to each operation the versions of the records that it changed. Those that it added are gone now. */
async function pin(call: Working, { operations, touched, versions }: Tried): Promise<StoredOperation[]> {
  const before = await readVersions(call, touched.flat());
  return operations.map((operation, index) => ({
    ...operation,
    pins: (touched[index] ?? []).flatMap(({ object, id }) => {
      const name = buildPinKey({ object, id });
      const version = before.get(name);
      // A new note of a record, for instance, does not change it.
      return version === undefined || version === versions.get(name) ? [] : [{ object, id, version }];
    }),
  }));
}

type Touched = Pick<Pin, 'object' | 'id'>;

const buildPinKey = ({ object, id }: Touched): string => `${object}/${id}`;

/** Returns the records that an operation changed or added, each once. */
function listTouched({ changes }: Succeeded): Touched[] {
  const found = new Map<string, Touched>();
  for (const { object, recordId } of changes) {
    const id = recordId === undefined ? undefined : toUuid(recordId);
    if (object === undefined || id === undefined) continue;
    found.set(buildPinKey({ object, id }), { object, id });
  }
  return [...found.values()];
}

/** Returns the versions of the records that exist, also of those that the caller cannot see. */
async function readVersions(call: Working, touched: readonly Touched[]): Promise<Map<string, number>> {
  const { objects } = await call.services.loadWorkspace();
  const versions = new Map<string, number>();
  for (const [object, ids] of groupByObject(touched)) {
    // Users, settings and other things are no records.
    if (!objects.has(object)) continue;
    for (const { id, version } of await findRecordsBeyondReach(call.db.sql, call.caller, object, ids))
      versions.set(buildPinKey({ object, id }), version);
  }
  return versions;
}

/** Returns the IDs by object. The objects are in order, so that locks are taken in one order. */
function groupByObject(touched: readonly Touched[]): [string, string[]][] {
  const idsByObject = new Map<string, Set<string>>();
  for (const { object, id } of touched) idsByObject.set(object, (idsByObject.get(object) ?? new Set()).add(id));
  return [...idsByObject].sort(([one], [other]) => (one < other ? -1 : 1)).map(([object, ids]) => [object, [...ids]]);
}

/**
 * Returns a digest of what an operation did to which of its items: the approver may be able to do
 * more than the proposer, and records that match an item may have been added.
 */
function digestResult({ status, data }: Succeeded): string {
  const { created, deleted, ...items } = (data ?? {}) as Record<string, unknown>;
  return hashJson([status, ...[items, created, deleted].map(listItems)]);
}

/** Returns the items of a batch that succeeded and those that failed. */
function listItems(batch: unknown): unknown[] {
  const { succeeded, failed } = (batch ?? {}) as Record<string, unknown>;
  return [succeeded, failed].map((items) =>
    Array.isArray(items) ? items.map((item) => [item?.index, item?.created, item?.already_linked]) : null,
  );
}

interface Described {
  title: string;
  reason: string | null;
  atomic: boolean;
  /** Until it expires; 72 by default. */
  hours: number | undefined;
  proposalDigest: string | null;
}

/** @returns undefined if the credential has a pending set for the same proposal */
async function store(
  call: Working,
  { title, reason, atomic, hours = 72, proposalDigest }: Described,
  tried: Tried,
): Promise<ChangeSetRow | undefined> {
  const { caller, now } = call;
  // Without objects that the set itself adds: nobody could see the set before it is applied.
  const known = new Set(await findModules(call.services));
  const modules = tried.modules.filter((module) => known.has(module));
  const expiresAt = new Date(now.getTime() + hours * 3_600_000);
  const id = uuidv7();
  const operations = await pin(call, tried);
  const digest = hashJson([id, title, reason, atomic, operations]);
  const set = { id, title, reason, atomic, operations, modules, digest, proposalDigest, expiresAt };
  return insertChangeSet(call.db.sql, caller, set, now);
}

/**
 * Keeps a write of a caller that only proposes changes as a set of one operation.
 * @returns the set, and true if it was already pending
 * @throws ApiError the error of the write, if it fails
 */
export async function proposeWrite(call: Call, proposal: Proposal): Promise<{ row: ChangeSetRow; isPending: boolean }> {
  const { caller, now } = call;
  const { sql } = call.db;
  const { title, method, path, body, ifMatch, problems } = proposal;
  const proposalDigest = hashJson([method, path, body, ifMatch]);
  // A body with problems is tried out, so that the operation rejects it.
  const known = problems.length > 0 ? undefined : await findSameProposal(sql, caller, proposalDigest);
  if (known && known.expiresAt <= now) await releaseProposal(sql, caller, known.id);
  else if (known && (await findStale(call, caller, known.operations)).length === 0)
    return { row: known, isPending: true };
  else if (known && (await withdrawPending(sql, caller, known.id, toSkipped(known))))
    recordChangeSet(call, known, 'withdraw');
  const tried = await tryOut(call, () =>
    tryOperations(call, [{ method, path, body: body as StoredOperation['body'] }], { ifMatch, problems }),
  );
  const row = await store(call, { title, reason: null, atomic: true, hours: undefined, proposalDigest }, tried);
  if (row) return { row, isPending: false };
  // A concurrent call has just made the same proposal.
  const other = await findSameProposal(sql, caller, proposalDigest);
  if (!other) throw conflict('already_decided', 'The same proposal was decided a moment ago. Try again.');
  return { row: other, isPending: true };
}

/**
 * @param single set for a single write, whose error is thrown as it is
 * @throws ApiError 422 for operations that fail, 409 for versions that have passed
 */
async function tryOperations(
  call: Working,
  proposed: readonly Proposed[],
  single?: Pick<Proposal, 'ifMatch' | 'problems'>,
): Promise<Tried> {
  const { caller } = call;
  const { nested } = call.services;
  const targets = await readTargets(call, caller, proposed);
  const isStale = proposed.flatMap(({ if_version: wanted }, index) =>
    wanted !== undefined && targets.get(index)?.version !== `"${wanted}"` ? [index] : [],
  );
  if (isStale.length > 0) throw stale(isStale);
  const ids = new Map<string, string>();
  const problems: Problem[] = [];
  const operations: StoredOperation[] = [];
  const modules = new Set<string>();
  const touched: Touched[][] = [];
  for (const [index, { method, path, body, ref }] of proposed.entries()) {
    const made = fillIn({ path, body }, ids);
    if ('error' in made) {
      problems.push(toProblem(index, made.error));
      continue;
    }
    const operation = nested.find(method, made.path);
    if (!operation?.isWrite) {
      problems.push(toProblem(index, operation ? unsupported() : noOperation()));
      continue;
    }
    if (operation.takesPassword && body && 'password' in body && body.password !== undefined) {
      if (single) throw passwordInSet();
      problems.push(toProblem(index, passwordInSet()));
      continue;
    }
    if (operation.takesDryRun && body && 'dry_run' in body && body.dry_run === true) {
      problems.push(toProblem(index, dryRunInSet()));
      continue;
    }
    for (const module of operation.modules) modules.add(module);
    const targetPath = findTargetPath(call, { method, ...made });
    const before = targetPath === undefined ? undefined : await readTarget(call, caller, targetPath);
    const outcome = await nested.run({
      method,
      path: made.path,
      body: made.body,
      ifMatch: single?.ifMatch,
      problems: single?.problems,
      caller,
      reloads: changesConfiguration(operation),
    });
    if ('error' in outcome) {
      if (single) throw outcome.error;
      problems.push(toProblem(index, outcome.error));
      continue;
    }
    const createdId = findId(outcome);
    if (ref !== undefined && createdId !== undefined) ids.set(ref, createdId);
    const isNew = outcome.status === 201;
    const after =
      method === 'DELETE' || operation.hasSecret
        ? undefined
        : isNew || targetPath === undefined
          ? (outcome.data as Record<string, unknown>)
          : // A restored record was not there, and the path of a record in the trash does not read it.
            ((await readTarget(call, caller, targetPath))?.data ?? (outcome.data as Record<string, unknown>));
    const pinned = isNew ? undefined : targets.get(index);
    touched.push(listTouched(outcome));
    for (const scope of outcome.scopes) modules.add(getScopeModule(scope));
    operations.push({
      method,
      path,
      body: body ?? null,
      ref: ref ?? null,
      target: pinned?.path ?? null,
      version: pinned?.version ?? null,
      scopes: [...outcome.scopes],
      pins: [],
      result: digestResult(outcome),
      before: isNew ? null : (before?.data ?? null),
      after: after ?? null,
      status: 'pending',
      error: null,
    });
  }
  if (problems.length > 0)
    throw new ApiError(
      'VALIDATION_ERROR',
      `${problems.length} of ${proposed.length} operations failed, so nothing was proposed.`,
      { reason: 'operations_failed', operations: problems },
      { status: 422 },
    );
  return { operations, modules: [...modules], touched, versions: await readVersions(call, touched.flat()) };
}

/** Reads the targets that exist before the set, by the index of the operation. */
async function readTargets(
  call: Working,
  caller: Caller,
  proposed: readonly Pick<Proposed, 'method' | 'path' | 'body'>[],
): Promise<Map<number, Target>> {
  const read = new Map<string, Target | undefined>();
  const found = new Map<number, Target>();
  for (const [index, operation] of proposed.entries()) {
    const path = findTargetPath(call, operation);
    if (path === undefined || readRefs(path).length > 0) continue;
    if (!read.has(path)) read.set(path, await readTarget(call, caller, path));
    const target = read.get(path);
    if (target) found.set(index, target);
  }
  return found;
}

/** Puts the IDs of earlier operations in place of references. */
function fillIn(
  { path, body }: { path: string; body?: StoredOperation['body'] | undefined },
  ids: ReadonlyMap<string, string>,
): { path: string; body: unknown } | { error: ApiError } {
  const missing = [...readRefs(path), ...readRefs(body)].find((name) => !ids.has(name));
  if (missing !== undefined)
    return {
      error: new ApiError(
        'VALIDATION_ERROR',
        `No earlier operation that succeeds has the ref ${missing}.`,
        { reason: 'unknown_ref' },
        { status: 422 },
      ),
    };
  return { path: putIds(path, ids) as string, body: putIds(body ?? undefined, ids) };
}

/** Returns the ID of what an operation created or changed. */
function findId(outcome: Succeeded): string | undefined {
  const members = Object.values((outcome.data ?? {}) as Record<string, unknown>);
  const thing = members.find(
    (each): each is { id: string } => typeof (each as { id?: unknown } | null)?.id === 'string',
  );
  return thing?.id;
}

const stale = (operations: readonly number[]) =>
  conflict('stale', 'Records have changed since. Read them again, and propose the changes again.', { operations });
const noOperation = () => new ApiError('NOT_FOUND', 'There is no such operation.');
const unsupported = () =>
  new ApiError('VALIDATION_ERROR', 'This operation has no dry run, so it cannot be in a change set.', {
    reason: 'dry_run_unsupported',
  });

const passwordInSet = () =>
  new ApiError(
    'VALIDATION_ERROR',
    'A change set cannot contain a password. Leave it out; the user then sets one by "Forgot password".',
    { reason: 'password_not_allowed' },
  );

const dryRunInSet = () =>
  new ApiError(
    'VALIDATION_ERROR',
    'An operation with dry_run changes nothing, so it cannot be in a change set. Leave dry_run out: the set shows the result.',
    { reason: 'dry_run_in_set' },
    { status: 422 },
  );

export interface Application {
  status: Extract<ChangeSetStatus, 'applied' | 'failed'>;
  operations: StoredOperation[];
  error: ChangeSetFailure | null;
}

/**
 * Checks that a person has the scopes that the operations declare, and those that their trial needed.
 * @throws ApiError 403 with the missing scopes
 */
export function requireScopes({ services: { nested } }: Working, person: Caller, { operations }: ChangeSetRow): void {
  for (const { method, path, scopes } of operations) nested.authorize({ method, path, scopes, caller: person });
}

/**
 * Applies a set as the person who approves it. What its operations recorded names the set.
 * @throws ApiError 403 if the person lacks a scope; 409 if a target has changed since the trial
 */
export async function applyChangeSet(call: Working, approver: Caller, row: ChangeSetRow): Promise<Application> {
  const { sql } = call.db;
  call.services.nested.forget();
  await requireFresh(call, approver, row);
  await sql`savepoint application`;
  const applied = await runApproved(call, approver, row);
  if (applied.error && (row.atomic || applied.operations.every(({ status }) => status !== 'applied'))) {
    await sql`rollback to savepoint application`;
    await sql`release savepoint application`;
    call.services.nested.forget();
    const operations = applied.operations.map((each) => ({
      ...each,
      status: each.status === 'failed' ? ('failed' as const) : ('skipped' as const),
    }));
    return { status: 'failed', operations, error: applied.error };
  }
  await sql`release savepoint application`;
  for (const change of applied.changes) call.db.record(nameSet(change, row));
  for (const work of applied.callbacks) call.db.afterCommit(work);
  return { status: 'applied', operations: applied.operations, error: applied.error };
}

const nameSet = (change: Change, row: ChangeSetRow): Change => ({
  ...change,
  metadata: { ...change.metadata, change_set_id: row.id, proposed_by: toProposer(row) },
});

/** @throws ApiError 409 if a target is not the version that the trial found, or out of sight */
async function requireFresh(call: Working, approver: Caller, { operations }: ChangeSetRow): Promise<void> {
  await lockTargets(call, approver, operations);
  const passed = await findStale(call, approver, operations);
  if (passed.length > 0) throw stale(passed);
}

/** Returns the indexes of operations whose records have changed since the trial. */
async function findStale(call: Working, caller: Caller, operations: readonly StoredOperation[]): Promise<number[]> {
  const current = new Map<string, string | undefined>();
  const pinned = await readVersions(
    call,
    operations.flatMap(({ pins }) => pins),
  );
  const passed: number[] = [];
  for (const [index, { target, version, pins }] of operations.entries()) {
    if (target !== null && !current.has(target)) current.set(target, (await readTarget(call, caller, target))?.version);
    const isTargetStale = target !== null && current.get(target) !== version;
    if (isTargetStale || pins.some((each) => pinned.get(buildPinKey(each)) !== each.version)) passed.push(index);
  }
  return passed;
}

/** Locks the records among the targets and those that the trial changed, so that nothing changes them before the operations do. */
async function lockTargets(
  { db: { sql }, services }: Working,
  approver: Caller,
  operations: readonly StoredOperation[],
): Promise<void> {
  const scope = { ...approver, reach: { kind: 'company' } } as const;
  const { objects } = await services.loadWorkspace();
  const touched = operations.flatMap(({ target, pins }) => {
    const [, object, id] = target?.match(/^\/v1\/objects\/([^/]+)\/records\/([0-9a-f-]{36})$/i) ?? [];
    return object === undefined || id === undefined ? pins : [...pins, { object, id: id.toLowerCase() }];
  });
  for (const [object, ids] of groupByObject(touched))
    if (objects.has(object)) await lockRecords(sql, scope, object, ids);
}

interface Applied {
  operations: StoredOperation[];
  changes: Change[];
  callbacks: (() => void)[];
  /** The first failure. */
  error: ChangeSetFailure | null;
}

async function runApproved(call: Working, approver: Caller, row: ChangeSetRow): Promise<Applied> {
  const { nested } = call.services;
  const ids = new Map<string, string>();
  const touched = new Set<string>();
  const applied: Applied = { operations: [], changes: [], callbacks: [], error: null };
  for (const [index, stored] of row.operations.entries()) {
    if (applied.error && row.atomic) {
      applied.operations.push({ ...stored, status: 'skipped' });
      continue;
    }
    const made = fillIn(stored, ids);
    const outcome = 'error' in made ? made : await runOne(made.path, made.body, stored);
    if ('error' in outcome) {
      const { error } = outcome;
      if (error.code === 'FORBIDDEN_SCOPE' || error.code === 'MODULE_DISABLED') throw error;
      if (error.details?.reason === 'version_mismatch') throw stale([index]);
      const failure = { index, status: error.status, code: error.code, message: error.message };
      applied.error ??= failure;
      applied.operations.push({ ...stored, status: 'failed', error: failure });
      continue;
    }
    if (stored.result !== null && digestResult(outcome) !== stored.result) throw stale([index]);
    const createdId = findId(outcome);
    if (stored.ref !== null && createdId !== undefined) ids.set(stored.ref, createdId);
    for (const { recordId } of outcome.changes) if (recordId !== undefined) touched.add(recordId.toLowerCase());
    applied.changes.push(...outcome.changes);
    applied.callbacks.push(...outcome.callbacks);
    applied.operations.push({ ...stored, status: 'applied' });
  }
  return applied;

  async function runOne(
    path: string,
    body: unknown,
    { method, target, version }: StoredOperation,
  ): Promise<NestedOutcome> {
    const operation = nested.find(method, path);
    if (!operation?.isWrite) return { error: noOperation() };
    // The operation locks the record and compares. What the set itself changed has another version.
    const isUntouched = target !== null && !touched.has(target.slice(target.lastIndexOf('/') + 1).toLowerCase());
    const ifMatch = operation.takesIfMatch && isUntouched && version?.startsWith('"') ? version : undefined;
    return nested.run({ method, path, body, ifMatch, caller: approver, reloads: changesConfiguration(operation) });
  }
}
