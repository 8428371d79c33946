// Rewrites REST error messages for tools: models do not see paths, headers or bodies.
import type { OpenAPIV3_1 } from 'openapi-types';
import { listOperations, tools } from './tools.ts';

/** Replaces mentions of paths, headers and bodies in an error message. */
export type ToolWording = (text: string) => string;

const route = /\b(GET|POST|PUT|PATCH|DELETE) (\/v1\/[^\s,;"'`]*[^\s,;"'`.:])/g;

const phrases: readonly (readonly [RegExp, string])[] = [
  [/\bSend an Idempotency-Key header with this request/g, 'Send idempotency_key'],
  [/\bIdempotency-Key\b/g, 'idempotency_key'],
  [/\bwith a different body\b/g, 'with different arguments'],
  [/\bfor a new request\b/g, 'for a new call'],
  [/\bis not a (field of this request|query parameter of this operation)\b/g, 'is not an argument of this tool'],
  [/\bSend a JSON body\b/g, 'Send arguments'],
  [/\bThe body (is|must)\b/g, 'The arguments $1'],
  [/\brequest(s?)\b/g, 'call$1'],
];

/** Builds the rewriting function. The OpenAPI document maps paths to tools. */
export function describeWording(document: OpenAPIV3_1.Document): ToolWording {
  const toolOf = new Map(tools.flatMap((tool) => listOperations(tool).map((id) => [id as string, tool.name] as const)));
  const routes = Object.entries(document.paths ?? {}).flatMap(([path, item]) =>
    (['get', 'post', 'put', 'patch', 'delete'] as const).flatMap((method) => {
      const name = toolOf.get(item?.[method]?.operationId ?? '');
      return name === undefined ? [] : [{ method: method.toUpperCase(), path: toPathPattern(path), name }];
    }),
  );
  return (text) => {
    const renamed = text.replace(route, (_whole, method: string, path: string) => {
      const found = routes.find((each) => each.method === method && each.path.test(path.replace(/\?.*$/, '')));
      return found?.name ?? 'the API (no tool does it)';
    });
    return phrases.reduce((inner, [pattern, words]) => inner.replace(pattern, words), renamed);
  };
}

/** Returns a pattern for the paths of a path template. */
function toPathPattern(template: string): RegExp {
  const parts = template.split(/\{[^}]+\}/).map((part) => part.replace(/[.*+?^$|()[\]\\]/g, '\\$&'));
  return new RegExp(`^${parts.join('[^/]+')}$`);
}
