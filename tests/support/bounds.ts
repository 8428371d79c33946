// The bounds of fields and parameters in the spec, with values on both sides of each.
import type { DeclaredOperation } from './document.ts';
import { bodySchema, plain, type Schema, textOfLength } from './schemas.ts';

/** A value at a bound. */
export interface Bound {
  field: string;
  rule: string;
  /** The code of the problem beyond the bound. */
  code: 'TOO_SHORT' | 'TOO_LONG' | 'OUT_OF_RANGE' | 'REQUIRED';
  value: unknown;
  allowed: boolean;
}

/** A value at a bound of a field of bodies. */
export interface BodyBound extends Bound {
  /** Returns a copy of an accepted body with the value in its field. */
  fillIn(example: unknown): unknown;
}

type Path = (string | number)[];

/** Returns the smallest value that fits a schema. */
function sample(schema: Schema, index = 0): unknown {
  const { type, enum: options, example, const: constant } = plain(schema);
  if (constant !== undefined) return constant;
  if (options) return options[index % options.length];
  if (example !== undefined && index === 0) return example;
  const first = Array.isArray(type) ? type.find((each) => each !== 'null') : type;
  if (first === 'object') return sampleObject(plain(schema));
  if (first === 'array') return [];
  if (first === 'integer' || first === 'number') return (plain(schema).minimum ?? 0) + index;
  if (first === 'boolean') return true;
  const suffix = String(index);
  const text = textOfLength(plain(schema), Math.max(plain(schema).minLength ?? 1, 8));
  return index === 0 ? text : text.slice(0, -suffix.length) + suffix;
}

function sampleObject({ properties = {}, required = [] }: Schema): Record<string, unknown> {
  return Object.fromEntries(required.map((name) => [name, sample(properties[name] ?? {})]));
}

/**
 * Returns values below, at and above each bound of a schema, except those that another bound
 * rejects.
 */
export function listBounds(schema: Schema, field: string): Bound[] {
  const found: Bound[] = [];
  const add = (
    code: Bound['code'],
    make: (size: number) => unknown,
    least: [string, number | undefined],
    most: [string, number | undefined],
  ): void => {
    for (const [[rule, bound], outside] of [
      [least, -1],
      [most, 1],
    ] as const) {
      if (bound === undefined) continue;
      for (const size of [bound - 1, bound, bound + 1]) {
        const beyond = size === bound + outside;
        const elsewhere = size < (least[1] ?? Number.NEGATIVE_INFINITY) || size > (most[1] ?? Number.POSITIVE_INFINITY);
        if (size < 0 && code !== 'OUT_OF_RANGE') continue;
        if (elsewhere && !beyond) continue;
        const side = code === 'TOO_LONG' && outside === -1 ? 'TOO_SHORT' : code;
        found.push({ field, rule: `${rule} ${bound}, at ${size}`, code: side, value: make(size), allowed: !beyond });
      }
    }
  };
  const { minLength, maxLength, minimum, maximum, minItems, maxItems, maxProperties } = schema;
  add('TOO_LONG', (length) => textOfLength(schema, length), ['minLength', minLength], ['maxLength', maxLength]);
  add('OUT_OF_RANGE', (value) => value, ['minimum', minimum], ['maximum', maximum]);
  const items = (size: number): unknown[] =>
    Array.from({ length: size }, (_, index) => sample(schema.items ?? {}, index));
  add('TOO_LONG', items, ['minItems', minItems], ['maxItems', maxItems]);
  const values = schema.additionalProperties;
  const keys = (size: number): object =>
    Object.fromEntries(
      Array.from({ length: size }, (_, index) => [`k${index}`, sample(typeof values === 'object' ? values : {}, 0)]),
    );
  // Only for maps, because declared properties determine their own number.
  if (!schema.properties) add('TOO_LONG', keys, ['minProperties', undefined], ['maxProperties', maxProperties]);
  return found;
}

/** Returns the values at the bounds of every field of an operation's body. */
export function bodyBounds(operation: DeclaredOperation): BodyBound[] {
  const root = bodySchema(operation);
  const found: BodyBound[] = [];
  const visit = (given: Schema, path: Path, depth: number): void => {
    const schema = plain(given);
    // In a choice, the server names the choice and not the bound inside it.
    if (depth > 5 || schema.anyOf || schema.oneOf || schema.readOnly || schema['x-immutable']) return;
    for (const bound of listBounds(schema, toFieldName(path)))
      found.push({ ...bound, fillIn: (example) => withValue(example, path, bound.value) });
    for (const [name, property] of Object.entries(schema.properties ?? {})) visit(property, [...path, name], depth + 1);
    if (typeof schema.additionalProperties === 'object') visit(schema.additionalProperties, [...path, 'k'], depth + 1);
    if (schema.items) visit(schema.items, [...path, 0], depth + 1);
  };
  if (root) visit(root, [], 0);
  return found;

  function withValue(body: unknown, path: Path, value: unknown): unknown {
    if (path.length === 0) return value;
    const copy = structuredClone(body ?? {});
    let node = copy as Record<string | number, unknown>;
    let schema: Schema = plain(root ?? {});
    for (const [index, step] of path.entries()) {
      schema = plain(typeof step === 'number' ? (schema.items ?? {}) : (schema.properties?.[step] ?? {}));
      if (index === path.length - 1) node[step] = value;
      else {
        const next = path[index + 1];
        node[step] ??= typeof next === 'number' ? [] : sampleObject(schema);
        node = node[step] as Record<string | number, unknown>;
      }
    }
    return copy;
  }
}

/** Returns a path as the server names fields. */
function toFieldName(path: Path): string {
  return path.reduce<string>((field, step) => {
    if (typeof step === 'number') return `${field}[${step}]`;
    return field === '' ? step : `${field}.${step}`;
  }, '');
}
