// The tools, resources and prompts that the conformance suite requires.
import type {
  CallToolResult,
  ClientCapabilities,
  ContentBlock,
  GetPromptResult,
  InputRequests,
  InputRequiredResult,
  McpServer,
  ReadResourceResult,
  ServerContext,
} from '@modelcontextprotocol/server';
import type { Library, Offer } from '../../mcp/catalogue.ts';
import { keepSessions } from './sessions.ts';

type Tool = (
  ctx: ServerContext,
) => CallToolResult | InputRequiredResult | Promise<CallToolResult | InputRequiredResult>;
type Schema = Record<string, unknown>;

/** One pixel, and silence. */
const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==';
const wav = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=';

const image = { type: 'image', data: png, mimeType: 'image/png' } as const;
const toTextContent = (text: string) => ({ type: 'text', text }) as const;
const embedded = (uri: string, mimeType: string, text: string) =>
  ({ type: 'resource', resource: { uri, mimeType, text } }) as const;
const shows = (...content: ContentBlock[]): CallToolResult => ({ content });
const pause = () => new Promise((resolve) => setTimeout(resolve, 50));

const single = (name: string, type: string): Schema => ({
  type: 'object',
  properties: { [name]: { type } },
  required: [name],
});

/** The arguments of the few tools that have some. */
const argumentsOf: Readonly<Record<string, Schema>> = {
  test_sampling: single('prompt', 'string'),
  test_elicitation: single('message', 'string'),
  test_x_mcp_header: { type: 'object', properties: { region: { type: 'string', 'x-mcp-header': 'Region' } } },
  json_schema_2020_12_tool: {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    $defs: {
      address: {
        $anchor: 'addressDef',
        type: 'object',
        properties: { street: { type: 'string' }, city: { type: 'string' } },
      },
    },
    properties: {
      name: { type: 'string' },
      address: { $ref: '#/$defs/address' },
      contactMethod: { type: 'string', enum: ['phone', 'email'] },
      phone: { type: 'string' },
      email: { type: 'string' },
    },
    allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
    if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    then: { required: ['phone'] },
    else: { required: ['email'] },
    additionalProperties: false,
  },
};

/** The default values of a form. */
const defaults = {
  name: { type: 'string', default: 'John Doe' },
  age: { type: 'integer', default: 30 },
  score: { type: 'number', default: 95.5 },
  status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
  verified: { type: 'boolean', default: true },
} as const;

const titled = [1, 2, 3].map((number) => ({ const: `value${number}`, title: `Option ${number}` }));
const untitled = ['option1', 'option2', 'option3'];

/** Every way to define choices. */
const choices = {
  untitledSingle: { type: 'string', enum: untitled },
  titledSingle: { type: 'string', oneOf: titled },
  legacyEnum: { type: 'string', enum: ['opt1', 'opt2', 'opt3'], enumNames: ['One', 'Two', 'Three'] },
  untitledMulti: { type: 'array', items: { type: 'string', enum: untitled } },
  titledMulti: { type: 'array', items: { anyOf: titled } },
} as const;

/** What the suite requires. */
export const fixtures: Offer = {
  openCatalogue: (library) => ({ createServer: describeFixtures(library), planCalls: () => [] }),
  openSessions: (library) => keepSessions(library, describeFixtures(library)),
};

/** Returns a function that creates protocol servers. */
function describeFixtures(library: Library): () => McpServer {
  const { CLIENT_CAPABILITIES_META_KEY, McpServer, ProtocolError, ProtocolErrorCode } = library;
  const { acceptedContent, fromJsonSchema, inputRequired, ResourceNotFoundError } = library;
  const states = library.createRequestStateCodec<{ round: number }>({
    key: crypto.getRandomValues(new Uint8Array(32)),
  });

  const form = (message: string, schema: Schema) => inputRequired.elicit({ message, requestedSchema: schema as never });
  const sample = (text: string) =>
    inputRequired.createMessage({ messages: [{ role: 'user', content: toTextContent(text) }], maxTokens: 100 });
  const ask = (inputRequests: InputRequests, requestState?: string) =>
    inputRequired({ inputRequests, ...(requestState === undefined ? {} : { requestState }) });
  const answered = ({ mcpReq }: ServerContext, ...names: string[]) =>
    names.every((name) => mcpReq.inputResponses?.[name] !== undefined);

  /** Requests input until it is present, then returns it. */
  const once =
    (name: string, request: (ctx: ServerContext) => InputRequests[string]): Tool =>
    (ctx) =>
      answered(ctx, name)
        ? shows(toTextContent(JSON.stringify(ctx.mcpReq.inputResponses?.[name])))
        : ask({ [name]: request(ctx) });
  /** The same, with a state that the client must return unchanged. */
  const withState =
    (name: string): Tool =>
    async (ctx) =>
      answered(ctx, name) && ctx.mcpReq.requestState() !== undefined
        ? shows(toTextContent('state-ok'))
        : ask({ [name]: form('Please confirm', single('ok', 'boolean')) }, await states.mint({ round: 1 }));

  const name = () => form('What is your name?', single('name', 'string'));
  const acceptedName: Tool = ({ mcpReq }) => {
    const accepted = acceptedContent<{ name: string }>(mcpReq.inputResponses, 'user_name');
    return accepted ? shows(toTextContent(`Hello, ${accepted.name}!`)) : ask({ user_name: name() });
  };
  const everything = {
    user_name: name(),
    greeting: sample('Generate a greeting'),
    client_roots: inputRequired.listRoots(),
  };

  const tools: Readonly<Record<string, Tool>> = {
    test_simple_text: () => shows(toTextContent('This is a simple text response for testing.')),
    test_image_content: () => shows(image),
    test_audio_content: () => shows({ type: 'audio', data: wav, mimeType: 'audio/wav' }),
    test_embedded_resource: () =>
      shows(embedded('test://embedded-resource', 'text/plain', 'This is an embedded resource content.')),
    test_multiple_content_types: () =>
      shows(
        toTextContent('Multiple content types test:'),
        image,
        embedded('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}'),
      ),
    test_error_handling() {
      throw new Error('This tool intentionally returns an error for testing');
    },
    async test_tool_with_logging({ mcpReq }) {
      for (const data of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
        await mcpReq.log('info', data);
        await pause();
      }
      return shows(toTextContent('Logged.'));
    },
    async test_tool_with_progress({ mcpReq }) {
      const progressToken = mcpReq._meta?.progressToken;
      for (const progress of progressToken === undefined ? [] : [0, 50, 100]) {
        await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total: 100 } });
        await pause();
      }
      return shows(toTextContent('Done.'));
    },
    async test_logging_tool({ mcpReq }) {
      await mcpReq.log('info', 'Told only where a level was asked for.');
      return shows(toTextContent('Logged.'));
    },
    async test_reconnection({ http }) {
      http?.closeSSE?.();
      await pause();
      return shows(toTextContent('Taken up again.'));
    },
    test_streaming_elicitation: () => shows(toTextContent('Nothing was asked.')),
    test_missing_capability: once('answer', () => sample('Say pong')),
    test_sampling: once('answer', () => sample('Say pong')),
    test_elicitation: once('answer', () => form('Please provide your information', single('username', 'string'))),
    test_elicitation_sep1034_defaults: once('answer', () => form('Who?', { type: 'object', properties: defaults })),
    test_elicitation_sep1330_enums: once('answer', () => form('Which?', { type: 'object', properties: choices })),
    test_x_mcp_header: () => shows(toTextContent('Read.')),
    json_schema_2020_12_tool: () => shows(toTextContent('Read.')),
    test_input_required_result_elicitation: acceptedName,
    test_input_required_result_sampling: once('capital_question', () => sample('What is the capital of France?')),
    test_input_required_result_list_roots: once('client_roots', () => inputRequired.listRoots()),
    test_input_required_result_request_state: withState('confirm'),
    test_input_required_result_tampered_state: withState('confirm'),
    test_input_required_result_multiple_inputs: async (ctx) =>
      answered(ctx, ...Object.keys(everything))
        ? shows(toTextContent('Hello.'))
        : ask(everything, await states.mint({ round: 1 })),
    async test_input_required_result_multi_round({ mcpReq }) {
      const round = mcpReq.requestState<{ round: number }>()?.round ?? 0;
      if (round === 2) return shows(toTextContent('Done.'));
      const step = round + 1;
      const asked = form(`Step ${step}`, single(round === 0 ? 'name' : 'color', 'string'));
      return ask({ [`step${step}`]: asked }, await states.mint({ round: step }));
    },
    test_input_required_result_capabilities({ mcpReq }) {
      const envelope = mcpReq.envelope as Record<string, unknown> | undefined;
      const declared = envelope?.[CLIENT_CAPABILITIES_META_KEY] as ClientCapabilities | undefined;
      return ask({
        ...(declared?.elicitation ? { user_name: everything.user_name } : {}),
        ...(declared?.sampling ? { greeting: everything.greeting } : {}),
        ...(declared?.roots ? { client_roots: everything.client_roots } : {}),
      });
    },
  };

  type Prompt = (given: Record<string, string>, ctx: ServerContext) => GetPromptResult | InputRequiredResult;
  const says = (...content: ContentBlock[]): GetPromptResult => ({
    messages: content.map((each) => ({ role: 'user', content: each })),
  });
  const prompts: Readonly<Record<string, { takes: readonly string[]; get: Prompt }>> = {
    test_simple_prompt: { takes: [], get: () => says(toTextContent('This is a simple prompt for testing.')) },
    test_prompt_with_arguments: {
      takes: ['arg1', 'arg2'],
      get: ({ arg1, arg2 }) => says(toTextContent(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)),
    },
    test_prompt_with_embedded_resource: {
      takes: ['resourceUri'],
      get: ({ resourceUri = '' }) =>
        says(
          embedded(resourceUri, 'text/plain', 'Embedded resource content for testing.'),
          toTextContent('Please process the embedded resource above.'),
        ),
    },
    test_prompt_with_image: { takes: [], get: () => says(image, toTextContent('Please analyze the image above.')) },
    test_input_required_result_prompt: {
      takes: [],
      get(_given, { mcpReq }) {
        const accepted = acceptedContent<{ context: string }>(mcpReq.inputResponses, 'user_context');
        if (accepted) return says(toTextContent(`Use the following context: ${accepted.context}`));
        return ask({ user_context: form('What context should the prompt use?', single('context', 'string')) });
      },
    },
  };

  const resources: Readonly<Record<string, { mimeType: string; text: string } | { mimeType: string; blob: string }>> = {
    'test://static-text': { mimeType: 'text/plain', text: 'This is the content of the static text resource.' },
    'test://static-binary': { mimeType: 'image/png', blob: png },
    'test://watched-resource': { mimeType: 'text/plain', text: 'Watched.' },
  };
  const templated = /^test:\/\/template\/([^/]+)\/data$/;
  function readResource(uri: string): ReadResourceResult {
    const found = Object.hasOwn(resources, uri) ? resources[uri] : undefined;
    if (found) return { contents: [{ uri, ...found }] };
    const id = templated.exec(uri)?.[1];
    if (id === undefined) throw new ResourceNotFoundError(uri);
    const text = JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` });
    return { contents: [{ uri, mimeType: 'application/json', text }] };
  }

  return () => {
    const offered = new McpServer(
      { name: 'fixtures', version: '1.0.0' },
      {
        // Lists never change. By default the library declares that tools may change.
        capabilities: {
          tools: { listChanged: false },
          prompts: { listChanged: false },
          resources: { subscribe: true, listChanged: false },
          logging: {},
          completions: {},
        },
        requestState: { verify: states.verify },
      },
    );
    for (const [toolName, call] of Object.entries(tools)) {
      const schema = argumentsOf[toolName];
      const about = { description: 'A tool of the suite.' };
      if (schema)
        offered.registerTool(toolName, { ...about, inputSchema: fromJsonSchema(schema) }, (_given, ctx) => call(ctx));
      else offered.registerTool(toolName, about, call);
    }
    const { server } = offered;
    server.setRequestHandler('resources/list', () => ({
      resources: Object.entries(resources).map(([uri, { mimeType }]) => ({ uri, name: uri, mimeType })),
    }));
    server.setRequestHandler('resources/templates/list', () => ({
      resourceTemplates: [{ uriTemplate: 'test://template/{id}/data', name: 'template' }],
    }));
    server.setRequestHandler('resources/read', ({ params }) => readResource(params.uri));
    server.setRequestHandler('resources/subscribe', () => ({}));
    server.setRequestHandler('resources/unsubscribe', () => ({}));
    server.setRequestHandler('prompts/list', () => ({
      prompts: Object.entries(prompts).map(([promptName, { takes }]) => ({
        name: promptName,
        description: 'A prompt of the suite.',
        arguments: takes.map((argument) => ({ name: argument, required: true })),
      })),
    }));
    server.setRequestHandler('prompts/get', ({ params }, ctx) => {
      const found = Object.hasOwn(prompts, params.name) ? prompts[params.name] : undefined;
      if (!found) throw new ProtocolError(ProtocolErrorCode.InvalidParams, `There is no prompt ${params.name}.`);
      return found.get(params.arguments ?? {}, ctx);
    });
    server.setRequestHandler('completion/complete', () => ({ completion: { values: ['test'], total: 1 } }));
    return offered;
  };
}
