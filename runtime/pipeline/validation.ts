// Converts validation errors into field problems, and selects the error code and status.

import type { IncomingHttpHeaders } from 'node:http';
import type { ErrorObject } from 'ajv';
import { findClosest } from '../../domain/objects/suggestions.ts';
import { sendAtLeastOneOf, sendOneOf, sendOnlyOneOf } from '../../domain/service/messages.ts';
import {
  ApiError,
  buildProblem,
  type FieldProblem,
  type FieldProblemCode,
  notFound,
  validationFailed,
} from '../errors.ts';
import type { Operation, ParameterType } from '../openapi/document.ts';

/** Validated parameters: converted to their types, with defaults. */
export interface Parameters {
  path: Record<string, string>;
  query: Record<string, unknown>;
  /** By their names in the OpenAPI document. */
  header: Record<string, string>;
}

/**
 * Validates path, query and declared headers. Converts types and fills in defaults.
 * @param headers as Node provides them, with lowercase names
 * @throws ApiError 404 for a malformed path parameter, 400 with all problems of the query
 */
export function checkParameters(
  operation: Operation,
  path: Record<string, string>,
  queryText: string,
  headers: IncomingHttpHeaders,
): Parameters {
  if (queryText === '' && !operation.takesParameters) return { path, query: {}, header: {} };
  for (const name of Object.keys(path)) if (path[name]?.includes('\0')) throw notFound();
  const problems: FieldProblem[] = [];
  const query: Record<string, unknown> = Object.create(null);
  if (queryText !== '') {
    for (const [name, value] of new URLSearchParams(queryText)) {
      if (name in query) problems.push(buildProblem(name, 'DUPLICATE', `${name} must be sent only once`));
      if (value.includes('\0'))
        problems.push(buildProblem(name, 'INVALID_FORMAT', `${name} must not contain the NUL character`));
      query[name] = value;
    }
  }
  for (const { name, type } of operation.typedParameters)
    if (name in query) query[name] = parseCanonical(query[name] as string, type);
  const header: Record<string, string> = {};
  const lowerCase: Record<string, string> = {};
  for (const name of operation.headerParameters) {
    const value = headers[name.toLowerCase()];
    if (typeof value === 'string') header[name] = lowerCase[name.toLowerCase()] = value;
  }
  const parameters = { path, query, header: lowerCase, cookie: {} };
  const { validateParameters: validate } = operation;
  if (!validate(parameters)) {
    const errors = validate.errors ?? [];
    const inHeader = (error: ErrorObject) => error.instancePath.startsWith('/header');
    problems.push(...toProblems(errors.filter(inHeader), '/header'));
    const found = toProblems(
      errors.filter((error) => !inHeader(error)),
      '/query',
    );
    if (errors.some((error) => error.instancePath.startsWith('/path'))) throw notFound();
    for (const each of found) {
      if (each.code === 'UNKNOWN_FIELD') {
        each.message = `${each.field} is not a query parameter of this operation.`;
        each.allowed = operation.queryParameters.slice(0, 50);
        const meant = findClosest(each.field, operation.queryParameters);
        if (meant !== undefined) each.did_you_mean = meant;
      }
      problems.push(each);
    }
  }
  // A number with hundreds of digits parses as Infinity.
  for (const name of Object.keys(query)) {
    if (query[name] === Number.POSITIVE_INFINITY || query[name] === Number.NEGATIVE_INFINITY)
      problems.push(buildProblem(name, 'OUT_OF_RANGE', `${name} is too large`));
  }
  if (problems.length > 0) throw toValidationError(operation, problems, 'query');
  return { path, query, header };
}

/**
 * Parses a query parameter in its canonical form. Other forms stay strings, which the validator
 * rejects.
 */
function parseCanonical(text: string, type: ParameterType): unknown {
  if (type === 'integer') return /^-?\d+$/.test(text) ? Number(text) : text;
  return text === 'true' || (text === 'false' ? false : text);
}

/**
 * Validates a body and fills in defaults.
 * @param path of the body in the request; empty if it is the whole body
 * @returns all problems; empty if the body is valid
 */
export function checkBody(operation: Operation, body: unknown, path = ''): FieldProblem[] {
  const validate = operation.validateBody;
  if (!validate || validate({ requestBody: body })) return [];
  return toProblems(validate.errors ?? [], '/requestBody', path);
}

const structural = new Set<FieldProblemCode>(['UNKNOWN_FIELD', 'READ_ONLY', 'IMMUTABLE', 'INVALID_TYPE', 'NOT_FOUND']);

/**
 * Returns the error for a list of problems. Code and status depend on the problems and the
 * operation.
 */
export function toValidationError(operation: Operation, problems: FieldProblem[], part: 'query' | 'body'): ApiError {
  const status =
    operation.answer !== 'oauth' &&
    part === 'body' &&
    (operation.validationStatus === 422 || problems.some((each) => structural.has(each.code)))
      ? 422
      : 400;
  const failure = validationFailed(problems, status);
  if (!operation.singleKindCodes || status === 422) return failure;
  // An empty body is not a single missing field.
  const single = problems.every((each) => each.code === 'REQUIRED' && each.field !== '')
    ? 'MISSING_REQUIRED_FIELD'
    : problems.every((each) => each.code === 'INVALID_FORMAT')
      ? 'INVALID_FIELD_FORMAT'
      : undefined;
  return single ? new ApiError(single, failure.message, failure.details) : failure;
}

/**
 * Returns the error for a body with problems from both the OpenAPI document and the tenant's
 * configuration.
 * @param found problems from the configuration; they replace the document's problem of the same
 * field, because they are more specific
 */
export function toJoinedError(
  operation: Operation,
  documented: readonly FieldProblem[],
  found: readonly FieldProblem[],
): ApiError {
  const named = new Set(found.map((each) => each.field));
  const problems = [...found, ...documented.filter((each) => !named.has(each.field))];
  // An unknown name of a configured item is not a malformed value.
  if (found.some((each) => each.code === 'INVALID_OPTION')) return validationFailed(problems, 422);
  return toValidationError(operation, problems, 'body');
}

/** @param path of the root in the request; empty if it is the whole body or query */
function toProblems(errors: ErrorObject[], root: string, path = ''): FieldProblem[] {
  // anyOf and oneOf report errors of each branch too. Only the branch of the value's type is useful
  // to the caller. If the types do not single out a branch, the choice itself is reported.
  const choices = errors.filter((error) => error.keyword === 'anyOf' || error.keyword === 'oneOf');
  const meant = new Map(choices.map((choice) => [choice, branchOfType(choice)]));
  const tooShort = new Set(errors.flatMap((error) => (error.keyword === 'minLength' ? [error.instancePath] : [])));
  const problems = new Map<string, FieldProblem>();
  for (const error of errors) {
    if (meant.get(error) !== undefined) continue;
    // An empty string is reported as too short only, not also as blank.
    if (error.keyword === 'pattern' && tooShort.has(error.instancePath)) continue;
    const hidden = choices.some((choice) => {
      const branch = meant.get(choice);
      return (
        choice !== error &&
        error.schemaPath.startsWith(`${choice.schemaPath}/`) &&
        (branch === undefined || !error.schemaPath.startsWith(`${choice.schemaPath}/${branch}/`))
      );
    });
    if (hidden) continue;
    const found = toProblem(error, toFieldPath(error.instancePath, root, path));
    if (found && !problems.has(`${found.field} ${found.code}`)) problems.set(`${found.field} ${found.code}`, found);
  }
  return [...problems.values()];
}

/**
 * Returns the index of the only branch besides null, or of the only branch for an array if the
 * value is an array, or for an object if it is an object.
 */
function branchOfType(choice: ErrorObject): number | undefined {
  const { data } = choice;
  const values = [...((choice.schema ?? []) as { type?: unknown }[]).entries()].filter(
    ([, { type }]) => type !== 'null',
  );
  if (values.length === 1) return values[0]?.[0];
  const type = Array.isArray(data) ? 'array' : data !== null && typeof data === 'object' ? 'object' : undefined;
  const branches = ((choice.schema ?? []) as { type?: unknown }[]).flatMap((branch, index) =>
    type !== undefined && branch.type === type ? [index] : [],
  );
  return branches.length === 1 ? branches[0] : undefined;
}

function toFieldPath(instancePath: string, root: string, path: string): string {
  const parts = instancePath.slice(root.length).split('/').slice(1);
  let field = path;
  for (const part of parts) {
    const name = part.replaceAll('~1', '/').replaceAll('~0', '~');
    field += /^\d+$/.test(name) ? `[${name}]` : field === '' ? name : `.${name}`;
  }
  return field;
}

function toProblem(error: ErrorObject, field: string): FieldProblem | undefined {
  const params = error.params as Record<string, never>;
  const inside = (name: string) => (field === '' ? name : `${field}.${name}`);
  const name = field === '' ? 'The body' : field;
  switch (error.keyword) {
    case 'required':
    case 'dependentRequired': {
      const missing = inside(params.missingProperty ?? '');
      if (params.missingProperty === 'requestBody') return buildProblem('', 'REQUIRED', 'Send a JSON body.');
      return buildProblem(missing, 'REQUIRED', `${missing} is required`);
    }
    case 'additionalProperties':
    case 'unevaluatedProperties': {
      const unknown = inside(params.additionalProperty ?? params.unevaluatedProperty ?? '');
      const accepted = acceptedNames(error);
      return buildProblem(unknown, 'UNKNOWN_FIELD', `${unknown} is not a field of this request`, {
        allowed: accepted,
        did_you_mean: findClosest(params.additionalProperty ?? params.unevaluatedProperty ?? '', accepted),
      });
    }
    case 'readOnly':
      return buildProblem(field, 'READ_ONLY', `${name} is read-only`);
    case 'x-immutable':
      return buildProblem(field, 'IMMUTABLE', `${name} cannot be changed`);
    case 'type': {
      const types = ([] as string[])
        .concat(params.type ?? [])
        .map((type) => (type === 'null' ? 'null' : `${/^[aeiou]/.test(type) ? 'an' : 'a'} ${type}`));
      return buildProblem(field, 'INVALID_TYPE', `${name} must be ${types.join(' or ')}`);
    }
    case 'format':
      return buildProblem(
        field,
        'INVALID_FORMAT',
        `${name} must be ${formats[params.format ?? ''] ?? `in the format ${params.format}`}`,
      );
    case 'pattern':
      return buildProblem(field, 'INVALID_FORMAT', `${name} ${patternRule(params.pattern, error.parentSchema)}`);
    case 'minLength':
      return buildProblem(field, 'TOO_SHORT', `${name} must have at least ${counted(params.limit, 'character')}`);
    case 'maxLength':
      return buildProblem(field, 'TOO_LONG', `${name} must have at most ${counted(params.limit, 'character')}`);
    case 'minItems':
      return buildProblem(field, 'TOO_SHORT', `${name} must have at least ${counted(params.limit, 'item')}`);
    case 'maxItems':
      return buildProblem(field, 'TOO_LONG', `${name} must have at most ${counted(params.limit, 'item')}`);
    case 'minProperties':
      return buildProblem(field, 'REQUIRED', `${name} must have at least ${params.limit} of the fields`, {
        allowed: acceptedNames(error),
      });
    case 'maxProperties':
      return buildProblem(field, 'TOO_LONG', `${name} must have at most ${counted(params.limit, 'field')}`);
    case 'minimum':
    case 'maximum':
    case 'exclusiveMinimum':
    case 'exclusiveMaximum':
      return buildProblem(
        field,
        'OUT_OF_RANGE',
        `${name} must be ${comparisons[params.comparison ?? ''] ?? params.comparison} ${params.limit}`,
      );
    case 'multipleOf':
      return buildProblem(field, 'OUT_OF_RANGE', `${name} must be a multiple of ${params.multipleOf}`);
    case 'enum': {
      const allowed = (params.allowedValues as unknown as (string | number | boolean | null)[]).filter(
        (value) => value !== null,
      );
      return buildProblem(field, 'INVALID_OPTION', `${name} must be one of ${allowed.join(', ')}`, {
        allowed,
        did_you_mean: typeof error.data === 'string' ? findClosest(error.data, allowed.map(String)) : undefined,
      });
    }
    case 'const':
      return buildProblem(field, 'INVALID_OPTION', `${name} must be ${JSON.stringify(params.allowedValue)}`);
    case 'uniqueItems':
      return buildProblem(field, 'DUPLICATE', `${name} must not contain duplicates`);
    case 'anyOf':
    case 'oneOf': {
      const branches = (error.schema ?? []) as { required?: string[] }[];
      // Only an object can lack a field; other values have the wrong type.
      const isObject = error.data !== null && typeof error.data === 'object' && !Array.isArray(error.data);
      const names = isObject ? branches.flatMap((branch) => branch.required ?? []) : [];
      if (names.length > 0) {
        return params.passingSchemas
          ? buildProblem(inside(names[0] ?? ''), 'CONFLICTING_FIELDS', sendOnlyOneOf(names))
          : buildProblem(
              inside(names[0] ?? ''),
              'REQUIRED',
              error.keyword === 'oneOf' ? sendOneOf(names) : sendAtLeastOneOf(names),
            );
      }
      return buildProblem(field, 'INVALID_TYPE', `${name} has the wrong type`);
    }
    case 'propertyNames':
      return buildProblem(
        field,
        'INVALID_FORMAT',
        `${name} must not have a field named ${JSON.stringify(params.propertyName)}`,
      );
    case 'if':
      return undefined;
    default:
      return buildProblem(field, 'INVALID_FORMAT', `${name} is not valid (${error.keyword})`);
  }
}

/**
 * Returns the names that a body may have here, without those that are declared only to be rejected
 * with a specific code.
 */
function acceptedNames(error: ErrorObject): string[] {
  const { properties = {} } = (error.parentSchema ?? {}) as {
    properties?: Record<string, { readOnly?: boolean; 'x-immutable'?: boolean }>;
  };
  return Object.keys(properties).filter((name) => !properties[name]?.readOnly && !properties[name]?.['x-immutable']);
}

const counted = (count: number | undefined, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`;

const comparisons: Record<string, string> = {
  '>=': 'at least',
  '<=': 'at most',
  '>': 'greater than',
  '<': 'less than',
};

/** Describes a pattern in words if possible, otherwise with the example of the OpenAPI document. */
function patternRule(pattern: string | undefined, schema: unknown): string {
  if (pattern === '\\S' || pattern === '^$|\\S') return 'must not be blank';
  const { example } = (schema ?? {}) as { example?: unknown };
  return `must match ${pattern}${typeof example === 'string' ? `, e.g. ${example}` : ''}`;
}

const formats: Record<string, string> = {
  uuid: 'a UUID',
  email: 'an email address',
  'date-time': 'an ISO 8601 time with an offset, e.g. 2026-11-20T23:55:00.000Z',
  date: 'a date, e.g. 2026-11-20',
  uri: 'a URL',
  'checkout-return-uri': 'a URL whose only braces are {CHECKOUT_SESSION_ID} in the path, query or fragment',
  'entity-tags': 'an ETag of a response with its quotes, e.g. "3", or *',
  'ip-range': 'an IP address or a CIDR range, e.g. 203.0.113.7, 10.0.0.0/8 or 2001:db8::/32',
};
