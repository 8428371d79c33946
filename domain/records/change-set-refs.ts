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

/** Returns a value with other IDs in place of some. Only whole texts are IDs. */
export function replaceIds(value: unknown, ids: ReadonlyMap<string, string>): unknown {
  if (typeof value === 'string') return ids.get(value) ?? value;
  if (Array.isArray(value)) return value.map((each) => replaceIds(each, ids));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, replaceIds(each, ids)]));
}

/**
 * Adds the IDs of what two answers of the same operation created: the things that they name, and
 * the items of the lists of these.
 * @param ids IDs of the second answer by those of the first
 */
export function collectCreatedIds(first: unknown, second: unknown, ids: Map<string, string>): void {
  if (!isThing(first) || !isThing(second)) return;
  for (const [name, value] of Object.entries(first)) {
    collectId(value, second[name], ids);
    if (!isThing(value) || !isThing(second[name])) continue;
    for (const [inner, items] of Object.entries(value)) {
      const others = second[name][inner];
      if (!Array.isArray(items) || !Array.isArray(others) || items.length !== others.length) continue;
      for (const [index, item] of items.entries()) collectId(item, others[index], ids);
    }
  }
}

function collectId(first: unknown, second: unknown, ids: Map<string, string>): void {
  if (!isThing(first) || !isThing(second) || first.created === false || second.created === false) return;
  if (typeof first.id === 'string' && typeof second.id === 'string' && first.id !== second.id)
    ids.set(first.id, second.id);
}

const isThing = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
