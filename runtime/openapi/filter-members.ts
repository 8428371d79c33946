// Finds the members of a JSON body that are filters, whose nesting has a limit of its own.
import type { OpenAPIV3_1 } from 'openapi-types';

/**
 * The members of an object that are filters or contain filters, at any depth. Arrays are
 * transparent.
 */
export type FilterMembers = ReadonlyMap<string, FilterMembers | 'filter'>;

interface Schema {
  'x-filter'?: boolean;
  properties?: Record<string, Schema>;
  items?: Schema;
}

/** Returns the members with `x-filter` of a JSON body; undefined if there are none. */
export function findFilterMembers(body: OpenAPIV3_1.RequestBodyObject | undefined): FilterMembers | undefined {
  return findMembers(body?.content['application/json']?.schema as Schema | undefined, 0);
}

/** @param depth of the schema. A body cannot be deeper, and a schema can contain itself. */
function findMembers(schema: Schema | undefined, depth: number): FilterMembers | undefined {
  if (!schema || depth > 5) return undefined;
  if (schema.items) return findMembers(schema.items, depth + 1);
  const found = new Map<string, FilterMembers | 'filter'>();
  for (const [name, inner] of Object.entries(schema.properties ?? {})) {
    const members = inner['x-filter'] ? 'filter' : findMembers(inner, depth + 1);
    if (members) found.set(name, members);
  }
  return found.size > 0 ? found : undefined;
}
