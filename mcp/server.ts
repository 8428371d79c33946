// The protocol server of one request: tools, resources and the prompt, as the caller may see.
import type { CallToolResult, Server } from '@modelcontextprotocol/server';
import type { components } from '../generated/api.ts';
import type { EntranceRequest } from '../runtime/entrances.ts';
import { ApiError } from '../runtime/errors.ts';
import { carryOut, planCall } from './calls.ts';
import { guide, instructions } from './guide.ts';
import { dataOf, refused } from './results.ts';
import type { DescribedTool } from './schemas.ts';

/** The library, loaded when it is first needed. */
export type Library = typeof import('@modelcontextprotocol/server');

/** What of the document all requests share. */
export interface Described {
  tools: ReadonlyMap<string, DescribedTool>;
  /** Of the API. */
  version: string;
  /** For operations that are about some object, whichever it is. */
  objects: readonly string[];
}

/** How long a client may keep a list: what a credential may do changes rarely. */
const kept = { ttlMs: 60_000, cacheScope: 'private' } as const;
const template = 'schema://{object}';
const scheme = 'schema://';
const tryAgain = 'The service is not available for the moment. Try again shortly.';

/** Makes the server for one request. */
export function buildProtocolServer(library: Library, described: Described, request: EntranceRequest): Server {
  const server = new library.Server(
    { name: 'headless-crm', title: 'Headless CRM', version: described.version },
    {
      capabilities: { tools: {}, resources: {}, prompts: {} },
      instructions,
      cacheHints: {
        'server/discover': kept,
        'tools/list': kept,
        'resources/list': kept,
        'resources/templates/list': kept,
        'resources/read': kept,
        'prompts/list': kept,
      },
    },
  );
  server.setRequestHandler('tools/list', () => ({ tools: visibleTools(described, request) as never }));
  server.setRequestHandler('tools/call', async ({ params }) => {
    const tool = described.tools.get(params.name);
    if (!tool || !mayCall(described, request, tool)) throw unknownTool(library, params.name);
    try {
      return (await carryOut(planCall(tool, params.arguments), request)) as CallToolResult;
    } catch (error) {
      if (error instanceof ApiError) return refused(error) as CallToolResult;
      throw error;
    }
  });
  server.setRequestHandler('resources/templates/list', () => ({
    resourceTemplates: [
      {
        uriTemplate: template,
        name: 'schema',
        title: 'Fields of an object',
        description: 'The fields of one kind of record: names, types, allowed values.',
        mimeType: 'application/json',
      },
    ],
  }));
  server.setRequestHandler('resources/list', async () => {
    const answer = await request.perform({ operationId: 'listObjects', path: {} });
    const objects = answer.status === 200 ? (dataOf(answer) as components['schemas']['ObjectList']).objects : [];
    return {
      resources: objects.map(({ object, label }) => ({
        uri: scheme + encodeURIComponent(object),
        name: object,
        title: label,
        mimeType: 'application/json',
      })),
    };
  });
  server.setRequestHandler('resources/read', async ({ params: { uri } }) => {
    const object = objectOf(uri);
    const answer =
      object === undefined ? undefined : await request.perform({ operationId: 'getObjectSchema', path: { object } });
    if (answer && answer.status >= 500)
      throw new library.ProtocolError(library.ProtocolErrorCode.InternalError, tryAgain);
    if (answer?.status !== 200) throw new library.ResourceNotFoundError(uri);
    return { contents: [{ uri, mimeType: 'application/json', text: JSON.stringify(dataOf(answer)) }] };
  });
  server.setRequestHandler('prompts/list', () => ({
    prompts: [{ name: 'api_guide', title: 'Guide', description: 'How to work with this CRM.' }],
  }));
  server.setRequestHandler('prompts/get', ({ params: { name } }) => {
    if (name !== 'api_guide')
      throw new library.ProtocolError(library.ProtocolErrorCode.InvalidParams, `There is no prompt ${name}.`);
    return {
      description: 'How to work with this CRM.',
      messages: [{ role: 'user' as const, content: { type: 'text' as const, text: guide } }],
    };
  });
  return server;
}

/** What tools/list shows: always in the order of the table. */
export function visibleTools(described: Described, request: EntranceRequest): DescribedTool['listed'][] {
  return [...described.tools.values()].filter((tool) => mayCall(described, request, tool)).map(({ listed }) => listed);
}

/** Whether some call of a tool would be let in. */
function mayCall({ objects }: Described, { caller, refusalOf }: EntranceRequest, { operations }: DescribedTool) {
  const own = caller.scopes.filter((scope) => scope.startsWith('object:')).map((scope) => scope.replace(/:[^:]*$/, ''));
  return [...operations.keys()].some((operation) =>
    [...objects, ...own].some((object) => refusalOf(operation, { object }) === undefined),
  );
}

const unknownTool = ({ ProtocolError, ProtocolErrorCode }: Library, name: string): Error =>
  new ProtocolError(ProtocolErrorCode.InvalidParams, `There is no tool ${name}.`);

/** The object that the address of a resource names. */
function objectOf(uri: string): string | undefined {
  if (!uri.startsWith(scheme)) return undefined;
  try {
    return decodeURIComponent(uri.slice(scheme.length));
  } catch {
    return undefined;
  }
}
