// Tries out the operations of change sets, and rolls them back.
import type { StoredOperation } from '../../db/records/change-sets.ts';
import { getScopeModule } from '../../domain/access/scopes.ts';
import { toUuid } from '../../domain/objects/field-values.ts';
import { readRefs } from '../../domain/records/change-set-refs.ts';
import { ApiError } from '../../runtime/errors.ts';
import type { NestedOperation, Proposal } from '../../runtime/handler.ts';
import {
  type Caller,
  canChangeConfiguration,
  digestResult,
  fillIn,
  findId,
  noOperation,
  type Succeeded,
  type Working,
} from './change-set-operations.ts';
import {
  buildPinKey,
  findTargetPath,
  readTarget,
  readVersions,
  stale,
  type Target,
  type Touched,
} from './change-set-versions.ts';

/** An operation of a set before its trial. */
interface Proposed extends Pick<StoredOperation, 'method' | 'path'> {
  body?: StoredOperation['body'] | undefined;
  if_version?: number | undefined;
  ref?: string | undefined;
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

export interface Tried {
  operations: StoredOperation[];
  /** The records that each operation recorded changes of. */
  touched: Touched[][];
  /** The versions of these records after the operations. */
  versions: ReadonlyMap<string, number>;
  /** The modules that they need. */
  modules: string[];
}

/** Runs work in a part of the transaction that is rolled back. */
export async function tryOut<T>({ db: { sql }, services: { nested } }: Working, work: () => Promise<T>): Promise<T> {
  nested.forget();
  await sql`savepoint trial`;
  const found = await work();
  await sql`rollback to savepoint trial`;
  await sql`release savepoint trial`;
  nested.forget();
  return found;
}

/** Adds to each operation the versions of the records that it changed. Those that it added are gone now. */
export async function pin(call: Working, { operations, touched, versions }: Tried): Promise<StoredOperation[]> {
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

/**
 * @param single set for a single write, whose error is thrown as it is
 * @throws ApiError 422 for operations that fail, 409 for versions that have passed
 */
export async function tryOperations(call: Working, proposed: readonly Proposed[], single?: Single): Promise<Tried> {
  const targets = await readTargets(call, call.caller, proposed);
  const isStale = proposed.flatMap(({ if_version: wanted }, index) =>
    wanted !== undefined && targets.get(index)?.version !== `"${wanted}"` ? [index] : [],
  );
  if (isStale.length > 0) throw stale(isStale);
  const ids = new Map<string, string>();
  const problems: Problem[] = [];
  const tried: TriedOperation[] = [];
  for (const [index, each] of proposed.entries()) {
    const outcome = await tryOne(call, each, targets.get(index), ids, single);
    if (!('error' in outcome)) tried.push(outcome);
    else if (single) throw outcome.error;
    else problems.push(toProblem(index, outcome.error));
  }
  if (problems.length > 0)
    throw new ApiError(
      'VALIDATION_ERROR',
      `${problems.length} of ${proposed.length} operations failed, so nothing was proposed.`,
      { reason: 'operations_failed', operations: problems },
      { status: 422 },
    );
  const touched = tried.map((each) => each.touched);
  return {
    operations: tried.map(({ operation }) => operation),
    modules: [...new Set(tried.flatMap(({ modules }) => modules))],
    touched,
    versions: await readVersions(call, touched.flat()),
  };
}

/** Parts of a single write that operations of explicit sets do not have. */
type Single = Pick<Proposal, 'ifMatch' | 'problems'>;

interface TriedOperation {
  operation: StoredOperation;
  touched: Touched[];
  modules: string[];
}

/**
 * Runs one operation.
 * @param pinned its target as it was before the set
 * @param ids of what earlier operations created, by their refs; gets that of this one
 */
async function tryOne(
  call: Working,
  { method, path, body, ref }: Proposed,
  pinned: Target | undefined,
  ids: Map<string, string>,
  single: Single | undefined,
): Promise<TriedOperation | { error: ApiError }> {
  const { caller } = call;
  const { nested } = call.services;
  const made = fillIn({ path, body }, ids);
  if ('error' in made) return made;
  const operation = nested.find(method, made.path);
  if (!operation?.isWrite) return { error: operation ? unsupported() : noOperation() };
  if (operation.takesPassword && body && 'password' in body && body.password !== undefined)
    return { error: passwordInSet() };
  if (operation.takesDryRun && body && 'dry_run' in body && body.dry_run === true) return { error: dryRunInSet() };
  const targetPath = findTargetPath(call, { method, ...made });
  const read = async () =>
    targetPath === undefined
      ? undefined
      : (await readTarget(call, caller, targetPath, hasTags.test(targetPath) ? 'expand=tags' : ''))?.data;
  const before = await read();
  const outcome = await nested.run({
    method,
    path: made.path,
    body: made.body,
    ifMatch: single?.ifMatch,
    problems: single?.problems,
    caller,
    reloads: canChangeConfiguration(operation),
  });
  if ('error' in outcome) return outcome;
  const createdId = findId(outcome);
  if (ref !== undefined && createdId !== undefined) ids.set(ref, createdId);
  const isNew = outcome.status === 201;
  const isShown = method !== 'DELETE' && !operation.hasSecret;
  // A restored record was not there, and the path of a record in the trash does not read it.
  const after = isNew || !isShown ? undefined : addResults(operation, await read(), outcome);
  return {
    operation: {
      method,
      path,
      body: body ?? null,
      ref: ref ?? null,
      target: (isNew ? undefined : pinned?.path) ?? null,
      version: (isNew ? undefined : pinned?.version) ?? null,
      scopes: [...outcome.scopes],
      pins: [],
      result: digestResult(outcome),
      ...(isNew && createdId !== undefined ? { triedId: createdId } : {}),
      before: isNew ? null : (before ?? null),
      after: isShown ? (after ?? (outcome.data as Record<string, unknown> | undefined) ?? null) : null,
      status: 'pending',
      error: null,
    },
    touched: listTouched(outcome),
    modules: [...operation.modules, ...outcome.scopes.map(getScopeModule)],
  };
}

/** The paths of records with tags, which only an expansion returns. */
const hasTags = /^\/v1\/objects\/(leads|customers)\/records\//;

/** Adds the customer, account and deal of a conversion to the data of the lead. */
function addResults(
  { operationId }: NestedOperation,
  read: Record<string, unknown> | undefined,
  { data }: Succeeded,
): Record<string, unknown> | undefined {
  if (operationId !== 'convertLead' || read === undefined) return read;
  const { lead: _, ...results } = data as Record<string, unknown>;
  return { ...read, ...results };
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

const unsupported = () =>
  new ApiError('VALIDATION_ERROR', 'This operation has no dry run, so it cannot be in a change set.', {
    reason: 'dry_run_unsupported',
  });

const passwordInSet = () =>
  new ApiError(
    'VALIDATION_ERROR',
    'A change set cannot contain a password. Leave it out. The user then chooses one with “Forgot password”.',
    { reason: 'password_not_allowed' },
  );

const dryRunInSet = () =>
  new ApiError(
    'VALIDATION_ERROR',
    'An operation with dry_run changes nothing, so it cannot be in a change set. Leave dry_run out: the set shows the result.',
    { reason: 'dry_run_in_set' },
    { status: 422 },
  );
