// References in change sets: `$ref.<name>.id` stands for the ID that an earlier operation makes.

const ofPath = /\$ref\.([a-z][a-z0-9_]*)\.id(?=\/|$)/g;
const ofValue = /^\$ref\.([a-z][a-z0-9_]*)\.id$/;

/** Returns the names in a path, or in the values of a body. */
export function readRefs(value: unknown): string[] {
  if (typeof value === 'string' && value.startsWith('/'))
    return [...value.matchAll(ofPath)].map(([, name = '']) => name);
  if (typeof value === 'string') return value.match(ofValue)?.slice(1, 2) ?? [];
  if (typeof value !== 'object' || value === null) return [];
  return Object.values(value).flatMap(readRefs);
}

/** Returns the path or body with IDs in place of references; unknown names stay. */
export function putIds(value: unknown, ids: ReadonlyMap<string, string>): unknown {
  const findId = (text: string, name: string): string => ids.get(name) ?? text;
  if (typeof value === 'string' && value.startsWith('/')) return value.replace(ofPath, findId);
  if (typeof value === 'string') return value.replace(ofValue, findId);
  if (Array.isArray(value)) return value.map((each) => putIds(each, ids));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, putIds(each, ids)]));
}
