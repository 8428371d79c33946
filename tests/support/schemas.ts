// The schemas of the spec for walks: resolved references, bodies and examples.
import { randomUUID } from 'node:crypto';
import { type DeclaredOperation, resolve } from './document.ts';

/** The keywords that the walks follow. */
export interface Schema {
  $ref?: string;
  type?: string | string[];
  enum?: unknown[];
  const?: unknown;
  example?: unknown;
  format?: string;
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  multipleOf?: number;
  minItems?: number;
  maxItems?: number;
  uniqueItems?: boolean;
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  propertyNames?: Schema;
  minProperties?: number;
  maxProperties?: number;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  readOnly?: boolean;
  'x-immutable'?: boolean;
}

export interface QueryParameter {
  name: string;
  required: boolean;
  schema: Schema;
  description: string;
  example: unknown;
}

interface Media {
  schema?: Schema;
  example?: unknown;
  examples?: Record<string, { value?: unknown }>;
}

/** Resolves all references, and merges allOf into one schema. */
export function plain(schema: Schema): Schema {
  let found = schema;
  while (found.$ref) {
    const { $ref, ...beside } = found;
    found = { ...(resolve($ref) as Schema), ...beside };
  }
  if (!found.allOf) return found;
  const { allOf, ...joined } = found;
  for (const part of allOf.map(plain)) {
    const properties = { ...joined.properties, ...part.properties };
    const required = [...(joined.required ?? []), ...(part.required ?? [])];
    Object.assign(joined, part, { properties, required });
  }
  return joined;
}

function bodyMedia(operation: DeclaredOperation): Media | undefined {
  const body = operation.declared.requestBody as { $ref?: string; content?: Record<string, Media> } | undefined;
  const followed = body?.$ref ? (resolve(body.$ref) as typeof body) : body;
  return followed?.content?.['application/json'];
}

/** Returns the schema of an operation's body, or undefined if it has none. */
export function bodySchema(operation: DeclaredOperation): Schema | undefined {
  const schema = bodyMedia(operation)?.schema;
  return schema && plain(schema);
}

/** Returns true if the operation requires a body. */
export function bodyIsRequired(operation: DeclaredOperation): boolean {
  const body = operation.declared.requestBody as { $ref?: string; required?: boolean } | undefined;
  const followed = body?.$ref ? (resolve(body.$ref) as typeof body) : body;
  return followed?.required === true;
}

/** Returns true if the body may be an array. */
export function takesArray(operation: DeclaredOperation): boolean {
  const schema = bodySchema(operation);
  return [schema, ...(schema?.anyOf ?? []), ...(schema?.oneOf ?? [])].some(
    (shape) => shape && plain(shape).type === 'array',
  );
}

/** Returns the spec's examples of an operation's body. */
export function bodyExamples(operation: DeclaredOperation): unknown[] {
  const media = bodyMedia(operation);
  if (!media) return [];
  if (media.example !== undefined) return [media.example];
  const examples = Object.values(media.examples ?? {}).map((example) => example.value);
  if (examples.length === 0) throw new Error(`${operation.id} has a body and no example of it`);
  return examples;
}

/** Returns true if the body is a form with a file, and cannot be JSON. */
export function takesUpload(operation: DeclaredOperation): boolean {
  const body = operation.declared.requestBody as { content?: Record<string, Media> } | undefined;
  return body?.content?.['multipart/form-data'] !== undefined && bodyMedia(operation) === undefined;
}

/** Returns the query parameters of an operation. */
export function queryParameters(operation: DeclaredOperation): QueryParameter[] {
  const declared = (operation.declared.parameters ?? []) as (Partial<QueryParameter> & {
    $ref?: string;
    in?: string;
  })[];
  return declared
    .map((each) => (each.$ref ? (resolve(each.$ref) as typeof each) : each))
    .filter((each) => each.in === 'query')
    .map((each) => ({
      name: each.name ?? '',
      required: each.required === true,
      schema: plain(each.schema ?? {}),
      description: each.description ?? '',
      example: each.example,
    }));
}

/** Returns a string of an exact length that fits the other rules of the schema, if one is known. */
export function textOfLength(schema: Schema, length: number): string {
  const padded = (before: string, after: string): string =>
    before + 'a'.repeat(Math.max(0, length - before.length - after.length)) + after;
  // With a random name, because some operations accept an email only once.
  if (schema.format === 'email')
    return padded(randomUUID().slice(0, Math.max(0, length - 12)), '@example.com').slice(-length);
  if (schema.format === 'uri') return padded('https://example.com/', '');
  if (!schema.pattern) return 'a'.repeat(length);
  const pattern = new RegExp(schema.pattern, 'u');
  const candidates = ['a', 'A', '1'].map((letter) => letter.repeat(length)).concat(padded('https://example.com/', ''));
  return candidates.find((text) => text.length === length && pattern.test(text)) ?? 'a'.repeat(length);
}
