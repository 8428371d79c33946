// From the arguments of a tool to calls of operations, and from their answers to a result.
import { randomUUID } from 'node:crypto';
import type { EntranceOrder, EntranceRequest } from '../runtime/entrances.ts';
import { ApiError, type FieldProblem, problem } from '../runtime/errors.ts';
import type { Performed } from '../runtime/in-process.ts';
import { dataOf, failed, pick, refused, succeeded, type ToolResult } from './results.ts';
import { type DescribedTool, type ToolOperation, usualPage } from './schemas.ts';

type Arguments = Record<string, unknown>;

/** A call of a tool as the operations that it stands for. */
export interface Plan {
  described: DescribedTool;
  orders: readonly [EntranceOrder, ...EntranceOrder[]];
  /** What is shown of the answer, where the operation does not choose itself. */
  fields: readonly string[] | undefined;
}

/**
 * Finds out what a call of a tool asks for.
 * @throws ApiError naming the arguments that are wrong; values are held against the document by the operations themselves
 */
export function planCall(described: DescribedTool, given: unknown): Plan {
  if (given !== undefined && (given === null || typeof given !== 'object' || Array.isArray(given)))
    throw wrong([problem('arguments', 'INVALID_TYPE', 'arguments must be an object')]);
  const args = (given ?? {}) as Arguments;
  const { properties } = described.listed.inputSchema;
  const names = Object.keys(properties);
  const unknown = Object.keys(args).filter((name) => !Object.hasOwn(properties, name));
  if (unknown.length > 0)
    throw wrong(unknown.map((name) => problem(name, 'UNKNOWN_FIELD', `${name} is no argument`, { allowed: names })));
  const [first, ...others] = chosen(described, args);
  return {
    described,
    orders: [orderOf(first, args, described), ...others.map((each) => orderOf(each, args, described))],
    fields: first.places.get('fields') === 'own' ? namesIn(args.fields) : undefined,
  };
}

/** Performs what was planned: one call, whatever it consists of. */
export async function carryOut({ described, orders, fields }: Plan, request: EntranceRequest): Promise<ToolResult> {
  const { tool, listed } = described;
  try {
    await request.admit(orders[0].operationId, orders[0].path);
  } catch (error) {
    if (error instanceof ApiError) return refused(error);
    throw error;
  }
  let data: Record<string, unknown> = {};
  for (const order of orders) {
    const performed: Performed = await request.perform(order);
    if (performed.status >= 400) return failed(performed);
    data = { ...data, ...dataOf(performed) };
  }
  const shown = fields === undefined ? data : pick(data, fields);
  return succeeded(shown, tool.hint, Object.hasOwn(listed.inputSchema.properties, 'limit'));
}

/** The operations that a call is for. @throws ApiError where the arguments do not tell */
function chosen({ tool, operations }: DescribedTool, args: Arguments): [ToolOperation, ...ToolOperation[]] {
  const { calls } = tool;
  const all = [...operations.values()] as [ToolOperation, ...ToolOperation[]];
  if (typeof calls === 'string' || 'all' in calls) return all;
  if ('by' in calls) {
    const { by, of } = calls;
    const value = args[by];
    if (typeof value === 'string' && Object.hasOwn(of, value))
      return [operations.get(of[value] as ToolOperation['id']) as ToolOperation];
    const allowed = Object.keys(of);
    throw wrong([
      value === undefined
        ? problem(by, 'REQUIRED', `${by} is required`, { allowed })
        : problem(by, 'INVALID_OPTION', `${by} must be one of those allowed`, { allowed }),
    ]);
  }
  const choices = Object.keys(calls.given);
  const name = choices.find((each) => args[each] !== undefined && args[each] !== null);
  if (name === undefined)
    throw wrong(choices.map((each) => problem(each, 'REQUIRED', `One of ${choices.join(', ')} is required`)));
  return [operations.get(calls.given[name] as ToolOperation['id']) as ToolOperation];
}

function orderOf({ id, places, required }: ToolOperation, args: Arguments, { tool }: DescribedTool): EntranceOrder {
  const { calls } = tool;
  const chooser = typeof calls === 'object' && 'by' in calls ? calls.by : undefined;
  const problems: FieldProblem[] = [];
  for (const name of Object.keys(args))
    if (args[name] !== null && !places.has(name) && name !== chooser)
      problems.push(problem(name, 'UNKNOWN_FIELD', `${name} does not go with the other arguments`));
  const path: Record<string, string> = {};
  const query: Record<string, string> = {};
  let body: Arguments | undefined;
  let idempotencyKey: string | undefined;
  for (const [name, place] of places) {
    const value = name === 'limit' ? (args[name] ?? usualPage) : args[name];
    if (place === 'body' || place === 'whole_body') body ??= {};
    // Some clients send null for what is left out; in a body it may mean something.
    if (value === undefined || (value === null && place !== 'body')) {
      if (required.includes(name) && place !== 'body') problems.push(problem(name, 'REQUIRED', `${name} is required`));
    } else if (place === 'body') (body as Arguments)[name] = value;
    else if (place === 'whole_body') {
      if (typeof value === 'object' && !Array.isArray(value)) body = value as Arguments;
      else problems.push(problem(name, 'INVALID_TYPE', `${name} must be an object`));
    } else if (typeof value === 'object' && !(place === 'query' && (name === 'filter' || Array.isArray(value))))
      problems.push(problem(name, 'INVALID_TYPE', `${name} must be a text, a number or a boolean`));
    else if (place === 'idempotency_key') idempotencyKey = String(value);
    else if (place === 'path') path[name] = String(value);
    else if (place === 'query')
      query[name] = typeof value === 'object' && !Array.isArray(value) ? JSON.stringify(value) : String(value);
  }
  if (problems.length > 0) throw wrong(problems);
  if (places.has('idempotency_key')) idempotencyKey ??= randomUUID();
  return {
    ...{ operationId: id, path, query },
    ...(body === undefined ? {} : { body }),
    ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
  };
}

const namesIn = (fields: unknown): string[] | undefined =>
  fields === undefined
    ? undefined
    : String(fields)
        .split(',')
        .map((name) => name.trim());

const wrong = (fields: FieldProblem[]): ApiError =>
  new ApiError('VALIDATION_ERROR', 'The arguments of this tool are wrong.', { fields });
