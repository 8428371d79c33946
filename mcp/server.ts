// The MCP server of one request: the tools, resources and prompts that the caller can use.
import type { CallToolResult, Server } from '@modelcontextprotocol/server';
import type { OpenAPIV3_1 } from 'openapi-types';
import type { components } from '../generated/api.ts';
import { ApiError } from '../runtime/errors.ts';
import type { ProgramRequest } from '../runtime/http/program-routes.ts';
import type { Performed } from '../runtime/pipeline/in-process.ts';
import { callTool, planCall } from './calls.ts';
import type { Library, Offer } from './catalogue.ts';
import { guide, instructions } from './guide.ts';
import { getData, toErrorResult } from './results.ts';
import { type DescribedTool, describeTools } from './schemas.ts';
import { describeWording, type ToolWording } from './wording.ts';

/** The parts of the OpenAPI document that all requests share. */
interface Described {
  tools: ReadonlyMap<string, DescribedTool>;
  wording: ToolWording;
  /** The version of the API. */
  version: string;
  /** Built-in object names, to check access to operations that work on any object. */
  objects: readonly string[];
}

/** How long a client may cache a list. The permissions of a credential rarely change. */
const cacheHint = { ttlMs: 60_000, cacheScope: 'private' } as const;
const template = 'schema://{object}';
const scheme = 'schema://';
/** The generic JSON-RPC code for server errors. */
const serverError = -32_000;
const tryAgain = 'The service is temporarily unavailable. Try again shortly.';

/**
 * Serves operations of the OpenAPI document as tools and resources.
 * @param objects the names of the built-in objects
 */
export function offerOperations(document: OpenAPIV3_1.Document, objects: readonly string[]): Offer {
  return {
    openCatalogue(library) {
      const tools = new Map(describeTools(document).map((each) => [each.tool.name, each] as const));
      const wording = describeWording(document);
      const described = { tools, wording, version: document.info.version, objects };
      return {
        createServer: (request, method) => buildProtocolServer(library, described, request, method),
        planCalls(name, given) {
          const tool = tools.get(name);
          try {
            return tool ? planCall(tool, given).calls : [];
          } catch (error) {
            // The tool itself returns this error.
            if (error instanceof ApiError) return [];
            throw error;
          }
        },
      };
    },
  };
}

/**
 * Creates the server of one request with only the handler for its method. The server is discarded
 * afterwards and never receives another method.
 */
function buildProtocolServer(library: Library, described: Described, request: ProgramRequest, method: string): Server {
  const server = new library.Server(
    { name: 'headless-crm', title: 'Headless CRM', version: described.version },
    {
      capabilities: { tools: {}, resources: {}, prompts: {} },
      instructions,
      cacheHints: {
        'server/discover': cacheHint,
        'tools/list': cacheHint,
        'resources/list': cacheHint,
        'resources/templates/list': cacheHint,
        'resources/read': cacheHint,
        'prompts/list': cacheHint,
      },
    },
  );
  handlers.get(method)?.(server, library, described, request);
  return server;
}

type Handling = (server: Server, library: Library, described: Described, request: ProgramRequest) => void;

/** Registers the request handler of a method. */
const handlers: ReadonlyMap<string, Handling> = new Map(
  Object.entries<Handling>({
    'tools/list': (server, _library, described, request) =>
      server.setRequestHandler('tools/list', () => ({ tools: visibleTools(described, request) as never })),
    'tools/call': (server, library, described, request) =>
      server.setRequestHandler('tools/call', async ({ params }) => {
        const tool = described.tools.get(params.name);
        if (!tool) throw unknownTool(library, params.name);
        try {
          if (!mayCall(described, request, tool))
            throw findProposeOnly(request, tool) ?? unknownTool(library, params.name);
          return (await callTool(planCall(tool, params.arguments), request, described.wording)) as CallToolResult;
        } catch (error) {
          if (error instanceof ApiError) return (await toErrorResult(error, described.wording)) as CallToolResult;
          throw error;
        }
      }),
    'resources/templates/list': (server) =>
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
      })),
    'resources/list': (server, library, _described, request) =>
      server.setRequestHandler('resources/list', async () => {
        const answer = await readResource(library, request, 'listObjects', {});
        const { objects } = getData(answer) as components['schemas']['ObjectList'];
        return {
          resources: objects.map(({ object, label }) => ({
            uri: scheme + encodeURIComponent(object),
            name: object,
            title: label,
            mimeType: 'application/json',
          })),
        };
      }),
    'resources/read': (server, library, _described, request) =>
      server.setRequestHandler('resources/read', async ({ params: { uri } }) => {
        const object = parseResourceUri(uri);
        const isHidden = object === undefined || request.findAccessError('getObjectSchema', { object }) !== undefined;
        if (isHidden) throw new library.ResourceNotFoundError(uri);
        const answer = await readResource(library, request, 'getObjectSchema', { object });
        if (answer.status === 404) throw new library.ResourceNotFoundError(uri);
        return { contents: [{ uri, mimeType: 'application/json', text: JSON.stringify(getData(answer)) }] };
      }),
    'prompts/list': (server) =>
      server.setRequestHandler('prompts/list', () => ({
        prompts: [{ name: 'api_guide', title: 'Guide', description: 'How to work with this CRM.' }],
      })),
    'prompts/get': (server, library) =>
      server.setRequestHandler('prompts/get', ({ params: { name } }) => {
        if (name !== 'api_guide')
          throw new library.ProtocolError(library.ProtocolErrorCode.InvalidParams, `There is no prompt ${name}.`);
        return {
          description: 'How to work with this CRM.',
          messages: [{ role: 'user' as const, content: { type: 'text' as const, text: guide } }],
        };
      }),
  }),
);

/** Returns the tools that the caller can use, in a stable order. */
function visibleTools(described: Described, request: ProgramRequest): DescribedTool['listed'][] {
  return [...described.tools.values()].filter((tool) => mayCall(described, request, tool)).map(({ listed }) => listed);
}

/** Returns true if at least one call of the tool would be permitted. */
function mayCall({ objects }: Described, { caller, findAccessError }: ProgramRequest, { operations }: DescribedTool) {
  const own = caller.scopes.filter((scope) => scope.startsWith('object:')).map((scope) => scope.replace(/:[^:]*$/, ''));
  return [...operations.keys()].some((operation) =>
    [...objects, ...own].some((object) => findAccessError(operation, { object }) === undefined),
  );
}

/**
 * Performs the operation of a resource. It counts as one call, like a tool call.
 * @throws ProtocolError for every error except a 404
 */
async function readResource(
  { ProtocolError, ProtocolErrorCode }: Library,
  request: ProgramRequest,
  operationId: string,
  path: Record<string, string>,
): Promise<Performed> {
  try {
    await request.admit(operationId, path);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const { code, message, details } = error;
    throw new ProtocolError(serverError, `${code}: ${message}`, { code, ...(details ? { details } : {}) });
  }
  const answer = await request.perform({ operationId, path });
  if (answer.status === 200 || answer.status === 404) return answer;
  throw new ProtocolError(ProtocolErrorCode.InternalError, tryAgain);
}

/**
 * Returns the error of a tool whose changes cannot be proposed, if that is why the caller cannot use
 * it. Models know the names of all tools from the guide, and have to explain it to their user.
 */
function findProposeOnly({ findAccessError }: ProgramRequest, { operations }: DescribedTool): ApiError | undefined {
  const errors = [...operations.keys()].map((operation) => findAccessError(operation, {}));
  return errors.find((error) => error?.details?.reason === 'propose_only');
}

const unknownTool = ({ ProtocolError, ProtocolErrorCode }: Library, name: string): Error =>
  new ProtocolError(ProtocolErrorCode.InvalidParams, `There is no tool ${name}.`);

/** Returns the object that a resource URI names. */
function parseResourceUri(uri: string): string | undefined {
  if (!uri.startsWith(scheme)) return undefined;
  try {
    return decodeURIComponent(uri.slice(scheme.length));
  } catch {
    return undefined;
  }
}
