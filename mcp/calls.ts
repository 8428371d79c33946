// Turns the arguments of a tool into calls of operations, and their responses into a tool result.
import { randomUUID } from 'node:crypto';
import { ApiError, buildProblem, type FieldProblem } from '../runtime/errors.ts';
import type { ProgramCall, ProgramRequest } from '../runtime/http/program-routes.ts';
import type { Performed } from '../runtime/pipeline/in-process.ts';
import {
  type Failure,
  findShorterPage,
  getData,
  getFailure,
  pickFields,
  type ToolResult,
  toErrorResult,
  toResult,
} from './results.ts';
import { type DescribedTool, defaultPageSize, type ToolOperation } from './schemas.ts';
import type { Data } from './shrink.ts';
import type { ToolWording } from './wording.ts';

type Arguments = Record<string, unknown>;

/** A tool call, resolved to the operations that it performs. */
export interface Plan {
  described: DescribedTool;
  args: Arguments;
  calls: readonly [ProgramCall, ...ProgramCall[]];
  /**
   * The fields to keep in the result. undefined: the operation selects fields itself, or keeps all.
   */
  fields: readonly string[] | undefined;
}

/**
 * Plans the operations of a tool call. The operations themselves validate values against the
 * OpenAPI document.
 * @throws ApiError that names the wrong arguments
 */
export function planCall(described: DescribedTool, given: unknown): Plan {
  if (given !== undefined && (given === null || typeof given !== 'object' || Array.isArray(given)))
    throw invalidArguments([buildProblem('arguments', 'INVALID_TYPE', 'arguments must be an object.')]);
  const args = (given ?? {}) as Arguments;
  const { properties } = described.listed.inputSchema;
  const names = Object.keys(properties);
  const unknown = Object.keys(args).filter((name) => !Object.hasOwn(properties, name));
  if (unknown.length > 0)
    throw invalidArguments(
      unknown.map((name) =>
        buildProblem(name, 'UNKNOWN_FIELD', `${name} is not an argument of this tool.`, { allowed: names }),
      ),
    );
  const [first, ...others] = selectOperations(described, args);
  return {
    described,
    args,
    calls: [buildCall(first, args, described), ...others.map((each) => buildCall(each, args, described))],
    fields: first.places.get('fields') === 'own' ? splitNames(args.fields) : undefined,
  };
}

/** Performs a plan. It counts as one call, however many operations it consists of. */
export async function callTool(plan: Plan, request: ProgramRequest, wording: ToolWording): Promise<ToolResult> {
  const { described, calls } = plan;
  try {
    await request.admit(calls[0].operationId, calls[0].path);
  } catch (error) {
    if (error instanceof ApiError) return toErrorResult(await explainMissing(error, plan, request), wording);
    throw error;
  }
  const data = await perform(plan, request);
  if ('status' in data) return toErrorResult(await explainMissing(getFailure(data), plan, request), wording);
  const proposal = findProposal(plan, data.shown);
  if (proposal) return toResult(proposal, { ...described.tool, hint: waitsForPerson(proposal, request) });
  return isPage(plan, data.shown) ? showPage(plan, data.shown, request, wording) : toResult(data.shown, described.tool);
}

/**
 * Performs the operations of a plan.
 * @returns the first failed response, or the joined data of all responses
 */
async function perform({ calls, fields }: Plan, request: ProgramRequest): Promise<Performed | { shown: Data }> {
  let data: Data = {};
  for (const call of calls) {
    const performed = await request.perform(call);
    if (performed.status >= 400) return performed;
    data = { ...data, ...getData(performed) };
  }
  return { shown: fields === undefined ? data : pickFields(data, fields) };
}

interface ProposalResult extends Data {
  proposed: true;
  change_set: Data & { id: string };
}

/**
 * Returns the change set that a write became because the credential only proposes changes;
 * undefined if it took effect. The values before and after are left out: the caller knows what it
 * asked for.
 */
function findProposal({ described: { tool } }: Plan, data: Data): ProposalResult | undefined {
  if (tool.effect === 'reads' || data.change_set === undefined) return undefined;
  const { id, status, title, expires_at } = data.change_set as Data & { id: string };
  return { proposed: true, change_set: { id, status, title, expires_at } };
}

function waitsForPerson({ change_set: { id } }: ProposalResult, { findAccessError }: ProgramRequest): string {
  const waits =
    'Proposed, not done: nothing has changed yet. It waits for a person, who approves or rejects it in the CRM.';
  const canRead = findAccessError('getChangeSet', {}) === undefined;
  return canRead ? `${waits} To see the decision, call get_change_set with id ${id}.` : waits;
}

/** Returns true if the data are a page whose length the argument `limit` sets. */
const isPage = ({ described, calls: [{ operationId }] }: Plan, data: Data): boolean =>
  'next_cursor' in data &&
  described.operations.get(operationId as ToolOperation['id'])?.places.get('limit') === 'query';

/**
 * Returns a page that fits the token limit of a result. If the page is too long, it is read again
 * with a smaller limit, so that its cursor continues after the last returned item. Both reads count
 * as one call.
 */
async function showPage(plan: Plan, page: Data, request: ProgramRequest, wording: ToolWording): Promise<ToolResult> {
  const { tool } = plan.described;
  let shown = page;
  let cut: string | undefined;
  for (;;) {
    const limit = await findShorterPage(shown, tool);
    if (limit === undefined) return toResult(shown, tool, cut);
    const [first] = plan.calls;
    const shorter: Plan = { ...plan, calls: [{ ...first, query: { ...first.query, limit: String(limit) } }] };
    const answer = await perform(shorter, request);
    if ('status' in answer) return toErrorResult(getFailure(answer), wording);
    shown = answer.shown;
    cut = `This page was shortened to ${limit} items because more would be too long.`;
    if (tool.takes.includes('fields')) cut += ' Request fewer fields to get longer pages.';
  }
}

/** Arguments that name an object. `objects` names several. */
const objectArguments = ['object', 'objects'];
/** Arguments that identify a record or another item. */
const identifying = /(^|_)(id|ids|email)$/;

/**
 * Explains a 404 in terms of the arguments. Operations do not say whether the object or the record
 * is missing.
 * @returns the unchanged failure if it is not about something missing
 */
async function explainMissing(failure: Failure, { args }: Plan, request: ProgramRequest): Promise<Failure> {
  const problems = failure.details?.fields as FieldProblem[] | undefined;
  if (problems?.some(isUnknownObject)) {
    const allowed = await listObjectNames(request);
    const fields = problems.map((each) => (isUnknownObject(each) ? { ...each, allowed } : each));
    return { code: failure.code, message: failure.message, details: { ...failure.details, fields } };
  }
  if (failure.code !== 'NOT_FOUND') return failure;
  const details = failure.details === undefined ? {} : { details: failure.details };
  const asked = objectArguments.flatMap((name) => (typeof args[name] === 'string' ? args[name].split(',') : []));
  const names = asked.length === 0 ? [] : await listObjectNames(request);
  const unknown = asked.map((name) => name.trim()).filter((name) => !names.includes(name));
  if (names.length > 0 && unknown.length > 0) {
    const message = `There is no object ${unknown.join(', ')} that this credential can see. Objects: ${names.join(', ')}.`;
    return { code: failure.code, message, ...details };
  }
  const given = Object.keys(args).filter((name) => identifying.test(name) && args[name] !== null);
  const checked = given.length === 0 ? 'the arguments' : given.join(', ');
  const message = `Nothing that this credential can see was found by ${checked}.`;
  return { code: failure.code, message, ...details };
}

const isUnknownObject = ({ field, code }: FieldProblem): boolean => field === 'object' && code === 'NOT_FOUND';

/** Lists the names of the objects that the caller can see. Empty if the list cannot be read. */
async function listObjectNames(request: ProgramRequest): Promise<string[]> {
  const answer = await request.perform({ operationId: 'listObjects', path: {} });
  if (answer.status !== 200) return [];
  return (getData(answer).objects as { object: string }[]).map(({ object }) => object);
}

/** Selects the operations of a call. @throws ApiError if the arguments do not select one */
function selectOperations({ tool, operations }: DescribedTool, args: Arguments): [ToolOperation, ...ToolOperation[]] {
  const { calls } = tool;
  const all = [...operations.values()] as [ToolOperation, ...ToolOperation[]];
  if (typeof calls === 'string' || 'all' in calls) return all;
  if ('by' in calls) {
    const { by, of } = calls;
    const value = args[by];
    if (typeof value === 'string' && Object.hasOwn(of, value))
      return [operations.get(of[value] as ToolOperation['id']) as ToolOperation];
    const allowed = Object.keys(of);
    throw invalidArguments([
      value === undefined
        ? buildProblem(by, 'REQUIRED', `${by} is required.`, { allowed })
        : buildProblem(by, 'INVALID_OPTION', `${by} must be one of the allowed values.`, { allowed }),
    ]);
  }
  const choices = Object.keys(calls.given);
  const name = choices.find((each) => args[each] !== undefined && args[each] !== null);
  if (name === undefined)
    throw invalidArguments(choices.map((each) => buildProblem(each, 'REQUIRED', `Send one of ${choices.join(', ')}.`)));
  return [operations.get(calls.given[name] as ToolOperation['id']) as ToolOperation];
}

function buildCall({ id, places, required }: ToolOperation, args: Arguments, { tool }: DescribedTool): ProgramCall {
  const { calls } = tool;
  const chooser = typeof calls === 'object' && 'by' in calls ? calls.by : undefined;
  const problems: FieldProblem[] = [];
  for (const name of Object.keys(args))
    if (args[name] !== null && !places.has(name) && name !== chooser)
      problems.push(buildProblem(name, 'UNKNOWN_FIELD', `${name} is not allowed together with the other arguments.`));
  const path: Record<string, string> = {};
  const query: Record<string, string> = {};
  let body: Arguments | undefined;
  let idempotencyKey: string | undefined;
  for (const [name, place] of places) {
    const value = name === 'limit' ? (args[name] ?? defaultPageSize) : args[name];
    if (place === 'body' || place === 'whole_body') body ??= {};
    // Some clients send null for an omitted argument. In a body, null can be a value.
    if (value === undefined || (value === null && place !== 'body')) {
      if (required.includes(name) && place !== 'body')
        problems.push(buildProblem(name, 'REQUIRED', `${name} is required.`));
    } else if (place === 'body') (body as Arguments)[name] = value;
    else if (place === 'whole_body') {
      if (typeof value === 'object' && !Array.isArray(value)) body = value as Arguments;
      else problems.push(buildProblem(name, 'INVALID_TYPE', `${name} must be an object.`));
    } else if (typeof value === 'object' && !(place === 'query' && (name === 'filter' || Array.isArray(value))))
      problems.push(buildProblem(name, 'INVALID_TYPE', `${name} must be a string, a number or a boolean.`));
    else if (place === 'idempotency_key') idempotencyKey = String(value);
    else if (place === 'path') path[name] = String(value);
    else if (place === 'query')
      query[name] = typeof value === 'object' && !Array.isArray(value) ? JSON.stringify(value) : String(value);
  }
  if (problems.length > 0) throw invalidArguments(problems);
  if (places.has('idempotency_key')) idempotencyKey ??= randomUUID();
  return {
    operationId: id,
    path,
    query,
    ...(body === undefined ? {} : { body }),
    ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
  };
}

const splitNames = (fields: unknown): string[] | undefined =>
  fields === undefined
    ? undefined
    : String(fields)
        .split(',')
        .map((name) => name.trim());

const invalidArguments = (fields: FieldProblem[]): ApiError =>
  new ApiError('VALIDATION_ERROR', 'The arguments of this tool are invalid.', { fields });
