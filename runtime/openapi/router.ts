// Finds the operation of a request in a radix tree.
// The stock router of openapi-backend compiles a RegExp per path on each request.
import FindMyWay from 'find-my-way';
import type { Operation } from './document.ts';

export type Route =
  | { kind: 'operation'; operation: Operation; path: Record<string, string> }
  | { kind: 'not_found' }
  | { kind: 'method_not_allowed'; methods: string[] };

/** Finds the route of a method and a path without its query. HEAD finds the route of GET. */
export type Router = (method: string, path: string) => Route;

/** Builds the tree. */
export function buildRouter(operations: readonly Operation[]): Router {
  const tree = FindMyWay({ caseSensitive: true, ignoreTrailingSlash: false, maxParamLength: 1024 });
  const methodsOfTemplate = new Map<string, string[]>();
  for (const operation of operations) {
    methodsOfTemplate.set(operation.path, [...(methodsOfTemplate.get(operation.path) ?? []), operation.method]);
  }
  for (const operation of operations) {
    // The router writes a parameter as :name and a literal colon as two.
    const pattern = operation.path.replaceAll(':', '::').replace(/\{(\w+)\}/g, ':$1');
    tree.on(operation.method as 'GET', pattern, () => undefined, operation);
    // TRACE, which no request can use, marks that a path exists and stores its methods.
    if (methodsOfTemplate.get(operation.path)?.[0] === operation.method) {
      tree.on('TRACE', pattern, () => undefined, methodsOfTemplate.get(operation.path));
    }
  }
  return (method, path) => {
    if (path.includes('%') && !canDecode(path)) return { kind: 'not_found' };
    const wanted = method === 'HEAD' ? 'GET' : method;
    const found = wanted === 'TRACE' ? null : tree.find(wanted as 'GET', path);
    if (found)
      return { kind: 'operation', operation: found.store as Operation, path: found.params as Record<string, string> };
    const other = tree.find('TRACE', path);
    if (!other) return { kind: 'not_found' };
    const methods = other.store as string[];
    return {
      kind: 'method_not_allowed',
      methods: [...methods, ...(methods.includes('GET') ? ['HEAD'] : []), 'OPTIONS'],
    };
  };
}

function canDecode(path: string): boolean {
  try {
    decodeURIComponent(path);
    return true;
  } catch {
    return false;
  }
}
