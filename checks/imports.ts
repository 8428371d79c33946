// Checks imports per folder, and uses of the clock, randomness, the environment and the network.
// Lint rules per folder cannot distinguish `import type` from `import`, nor `new Date()` from `new
// Date(given)`; the syntax tree can.
import { posix } from 'node:path';
import type { Source } from './sources.ts';
import { type Import, readSyntax } from './syntax.ts';

interface Rule {
  /** Files and folders that may be imported. */
  may: readonly string[];
  /** Exceptions from `may`. */
  mayNot?: readonly string[];
  /** Files and folders of which only types may be imported. */
  mayTypes?: readonly string[];
  packages: readonly string[] | 'any';
  /** Built-in modules, without their prefix. */
  node: readonly string[] | 'any';
  /** Expressions for values that must be passed in as arguments. */
  mustNotUse?: readonly string[];
}

const environment = ['process.env'];
const network = ['fetch()'];
const clock = ['Date.now', 'new Date()', 'Date()', 'performance.now'];
const chance = ['Math.random', 'randomUUID()', 'crypto.randomUUID', 'crypto.getRandomValues'];

/** The parts of the runtime that handlers may import. */
const offeredToHandlers = [
  'caller',
  'handler',
  'errors',
  'paging',
  'test-time',
  'files/files',
  'outbound/signed-posts',
  'credentials/passwords',
  'credentials/secrets',
  'credentials/session-tokens',
].map((name) => `runtime/${name}.ts`);

/** The parts of the runtime that pages and routes outside the OpenAPI document may import. */
const offeredToWeb = [
  'runtime/pages/',
  'runtime/http/page-routes.ts',
  'runtime/http/request-ids.ts',
  'runtime/errors.ts',
  'runtime/credentials/',
  'runtime/test-time.ts',
  'runtime/pipeline/in-process.ts',
];

/** These write records. All other code calls services/records/, so that no check is skipped. */
const recordWrites = ['db/records/writing.ts', 'db/sales/lead-writing.ts'];

/**
 * Domain rules that apply to every operation. app/ passes in what belongs to one area, such as
 * plans and roles.
 */
const sharedWithRuntime = [
  'domain/access/request-blocks.ts',
  'domain/access/request-redaction.ts',
  'domain/access/scopes.ts',
  'domain/objects/builtin.ts',
  'domain/objects/suggestions.ts',
  'domain/objects/times.ts',
  'domain/records/file-names.ts',
];

/** The only importer of node:http in the server. */
const cheapHttp = 'runtime/http/node-http.ts';

/** Timeouts, which every folder above domain/ may import. */
const responsiveTimeout = 'runtime/responsive-timeout.ts';

/**
 * Rules by folder or file. The innermost rule applies alone. app/, cli/ and main.ts compose the
 * parts and may import everything.
 */
const rules: Readonly<Record<string, Rule>> = {
  generated: { may: ['generated/'], packages: [], node: [] },
  // Rules without I/O, and the interfaces of external systems.
  domain: {
    may: ['domain/'],
    mayTypes: ['generated/'],
    // Pure computation.
    packages: ['ajv-formats', 'libphonenumber-js', 'temporal-polyfill', 'ical.js', 'hyparquet-writer'],
    node: [],
    mustNotUse: [...clock, ...chance, ...environment, ...network],
  },
  'db/client': {
    may: ['db/client/', responsiveTimeout],
    mayTypes: ['domain/'],
    packages: ['postgres', 'uuid'],
    node: 'any',
    mustNotUse: environment,
  },
  // The SQL of an area. It knows nothing of HTTP.
  db: { may: ['db/'], mayTypes: ['domain/'], packages: ['postgres', 'uuid'], node: 'any', mustNotUse: environment },
  // Code that applies to every operation.
  runtime: {
    may: ['runtime/', 'db/client/', 'generated/', 'domain/service/', ...sharedWithRuntime],
    mayTypes: ['domain/'],
    packages: 'any',
    node: 'any',
    mustNotUse: environment,
  },
  // Operations of several steps that more than one entry point uses.
  services: {
    may: ['services/', 'db/', 'domain/', 'runtime/handler.ts', 'runtime/errors.ts', 'runtime/paging.ts'],
    mayTypes: ['generated/'],
    packages: ['uuid'],
    node: [],
    mustNotUse: [...clock, ...environment, ...network],
  },
  handlers: {
    may: ['services/', 'db/', 'domain/', ...offeredToHandlers],
    mayNot: recordWrites,
    mayTypes: ['generated/'],
    packages: ['uuid'],
    node: ['crypto'],
    mustNotUse: [...clock, ...environment, ...network],
  },
  'handlers/index.ts': {
    may: ['handlers/', 'runtime/handler.ts', 'services/records/merged-records.ts'],
    packages: [],
    node: [],
  },
  // External systems, both directions. Their reports are stored by services and db, as in handlers.
  integrations: {
    may: [
      'integrations/',
      'services/',
      'db/',
      'domain/',
      'runtime/outbound/',
      'runtime/errors.ts',
      'runtime/pages/html.ts',
      'runtime/http/page-routes.ts',
      responsiveTimeout,
    ],
    mayNot: recordWrites,
    mayTypes: ['runtime/config.ts', 'runtime/files/storage.ts'],
    packages: ['nodemailer', 'aws4fetch', 'linkify-it', 'uuid'],
    node: ['crypto', 'fs', 'fs/promises', 'util'],
    mustNotUse: [...environment, 'Math.random'],
  },
  'integrations/stripe': {
    may: [
      'integrations/stripe/',
      'services/',
      'db/',
      'domain/',
      'runtime/errors.ts',
      'runtime/http/page-routes.ts',
      responsiveTimeout,
    ],
    mayNot: recordWrites,
    packages: ['stripe', 'uuid'],
    node: ['crypto', 'util'],
    mustNotUse: [...environment, ...network],
  },
  'integrations/caldav': {
    may: ['integrations/caldav/', 'domain/scheduling/', 'domain/service/', 'runtime/outbound/client.ts'],
    packages: ['fast-xml-parser', 'ical.js', 'temporal-polyfill'],
    node: ['worker_threads'],
    mustNotUse: [...environment, ...network, 'Date.now', 'new Date()', ...chance],
  },
  // Work without a request. External systems are passed in, behind the interfaces of domain/.
  jobs: {
    may: ['jobs/', 'services/', 'db/', 'domain/', 'runtime/outbound/signed-posts.ts'],
    mayTypes: ['runtime/telemetry/log.ts', 'runtime/outbound/client.ts'],
    mayNot: recordWrites,
    packages: ['uuid'],
    node: ['crypto', 'timers/promises', 'fs/promises', 'path'],
    mustNotUse: [...environment, ...network],
  },
  // Pages for people. They call operations or services and bypass neither.
  web: {
    may: ['web/', 'services/', 'db/', 'domain/', ...offeredToWeb],
    mayNot: recordWrites,
    mayTypes: ['generated/', 'runtime/caller.ts', 'runtime/handler.ts'],
    packages: ['uuid'],
    node: ['timers/promises'],
    mustNotUse: [...environment, ...network, ...clock, ...chance],
  },
  'web/checkout': {
    may: ['web/pages/', 'services/', 'db/', 'domain/', ...offeredToWeb],
    packages: ['uuid'],
    node: [],
    mustNotUse: [...environment, ...network],
  },
  // Tools for models. Each call is an operation.
  mcp: {
    may: ['mcp/', 'runtime/http/program-routes.ts', 'runtime/errors.ts', 'runtime/lazily.ts'],
    mayTypes: ['generated/', 'runtime/pipeline/in-process.ts'],
    packages: ['@modelcontextprotocol/server', 'gpt-tokenizer', 'openapi-types'],
    node: ['crypto', 'http'],
    mustNotUse: [...clock, ...environment, ...network],
  },
  // The documentation pages, rendered during the build. Redoc and React are required at run time.
  site: {
    may: ['site/', 'runtime/openapi/docs-theme.ts', 'runtime/pages/'],
    mayTypes: ['runtime/openapi/'],
    packages: [],
    node: ['crypto', 'fs', 'module', 'path', 'url'],
    mustNotUse: [...network, ...clock, ...chance],
  },
  // The OAuth server: the library and its adapters.
  oauth: {
    may: [
      'oauth/',
      'db/',
      'domain/service/host-names.ts',
      'runtime/http/page-routes.ts',
      'runtime/pages/html.ts',
      ...[
        'lazily',
        'http/node-http',
        'limits/rate-limits',
        'outbound/client',
        'credentials/bearer-tokens',
        'credentials/secrets',
      ].map((name) => `runtime/${name}.ts`),
    ],
    mayTypes: ['web/pages/requests.ts'],
    packages: ['oidc-provider', 'jose'],
    node: ['crypto', 'http', 'net'],
    mustNotUse: [...environment, ...network],
  },
  // A separate package, which also runs in browsers.
  sdk: { may: ['sdk/src/'], packages: ['openapi-fetch'], node: [], mustNotUse: environment },
  'sdk/generators': { may: ['sdk/generators/'], packages: ['openapi-types'], node: ['fs', 'path'] },
  tests: {
    may: [
      'tests/',
      'db/',
      'domain/',
      'runtime/',
      'jobs/',
      'integrations/',
      'web/',
      'oauth/',
      'mcp/',
      'site/',
      'checks/',
      'sdk/',
      'generated/',
      'bench/counted.ts',
      'services/',
      // Selection of providers.
      ...['payment-provider', 'calendar-provider', 'message-senders'].map((name) => `app/${name}.ts`),
      'app/embedded-postgres/',
      'cli/schema.ts',
    ],
    packages: 'any',
    node: 'any',
  },
  // A separate program that composes the parts as the server does.
  'tests/mcp/fixture-server.ts': {
    may: ['app/serve.ts', 'db/client/server-secrets.ts', 'runtime/', 'tests/mcp/fixtures.ts'],
    packages: [],
    node: [],
  },
  checks: { may: ['checks/'], packages: 'any', node: 'any' },
};

const code = (sources: readonly Source[]): readonly Source[] => sources.filter(({ path }) => path.endsWith('.ts'));
/** Returns the rule of a file: its own, or that of the innermost folder with a rule. */
function findRule(path: string): Rule | undefined {
  const folder = posix.dirname(path);
  return rules[path] ?? (folder === '.' ? undefined : findRule(folder));
}
const toPackageName = (name: string): string =>
  name
    .split('/')
    .slice(0, name.startsWith('@') ? 2 : 1)
    .join('/');

/** Returns a problem for every forbidden import and expression. */
export function importProblems(sources: readonly Source[]): string[] {
  return code(sources).flatMap((source) => {
    const { path } = source;
    const { imports, uses } = readSyntax(source);
    const rule = findRule(path);
    const forbidden = rule ? imports.filter((found) => !isAllowed(path, rule, found)) : [];
    const costly = imports.filter(
      (found) =>
        found.name === 'node:http' && !found.typesOnly && !forbidden.includes(found) && !development.test(path),
    );
    const reached = uses.filter(({ expression }) => rule?.mustNotUse?.includes(expression));
    return [
      ...forbidden.map(
        ({ name, line }) => `${path}:${line} must not import ${name || 'a computed name'} (checks/imports.ts)`,
      ),
      ...costly.map(({ line }) => `${path}:${line} must import node:http from ${cheapHttp}, which explains why`),
      ...reached.map(({ expression, line }) => `${path}:${line} must not use ${expression}: pass it in as an argument`),
    ];
  });
}

function isAllowed(path: string, rule: Rule, { name, typesOnly }: Import): boolean {
  const has = (list: readonly string[] | 'any', wanted: string): boolean => list === 'any' || list.includes(wanted);
  if (name === '') return false;
  if (name.startsWith('node:')) return has(rule.node, name.slice(5));
  if (!name.startsWith('.')) return has(rule.packages, toPackageName(name));
  const target = posix.join(posix.dirname(path), name);
  if (rule.mayNot?.includes(target)) return false;
  const allowed = typesOnly ? [...rule.may, ...(rule.mayTypes ?? [])] : rule.may;
  return allowed.some((entry) => (entry.endsWith('/') ? target.startsWith(entry) : target === entry));
}

/** Code that is not deployed. */
const development = /^(tests|checks|bench)\/|^sdk\/generators\/|^[^/]+\.config\.ts$/;

interface Manifest {
  dependencies?: Record<string, string>;
  devDependencies?: Record<string, string>;
}

/**
 * Returns a problem for every imported package that is not declared, or is declared only for
 * development.
 */
export function dependencyProblems(sources: readonly Source[], manifest: Manifest): string[] {
  const { dependencies = {}, devDependencies = {} } = manifest;
  return code(sources).flatMap((source) =>
    readSyntax(source).imports.flatMap(({ name, typesOnly, line }) => {
      const wanted = toPackageName(name);
      if (name === '' || /^(\.|node:)/.test(name) || wanted in dependencies) return [];
      if (wanted in devDependencies && (typesOnly || development.test(source.path))) return [];
      return [
        `${source.path}:${line} needs ${wanted} among the ${typesOnly ? 'devDependencies' : 'dependencies'} of package.json`,
      ];
    }),
  );
}
