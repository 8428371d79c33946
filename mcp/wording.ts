// Translates errors of REST into the words of tools: models know no paths, headers or bodies.
import type { OpenAPIV3_1 } from 'openapi-types';
import { operationsOf, tools } from './tools.ts';

/** Replaces what an error says of paths, headers and bodies. */
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

/** Learns from the document which tool stands for which path. */
export function describeWording(document: OpenAPIV3_1.Document): ToolWording {
  const toolOf = new Map(tools.flatMap((tool) => operationsOf(tool).map((id) => [id as string, tool.name] as const)));
  const routes = Object.entries(document.paths ?? {}).flatMap(([path, item]) =>
    (['get', 'post', 'put', 'patch', 'delete'] as const).flatMap((method) => {
      const name = toolOf.get(item?.[method]?.operationId ?? '');
      return name === undefined ? [] : [{ method: method.toUpperCase(), path: patternOf(path), name }];
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

/** Matches the paths that a template describes. */
function patternOf(template: string): RegExp {
  const parts = template.split(/\{[^}]+\}/).map((part) => part.replace(/[.*+?^$|()[\]\\]/g, '\\$&'));
  return new RegExp(`^${parts.join('[^/]+')}$`);
}
