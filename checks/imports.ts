// Who may import what, and who may look at the clock, at chance and at the environment.
// A linter's rule per folder cannot tell `import type` from `import`, nor `new Date()` from `new Date(given)`; the syntax tree can.
import { posix } from 'node:path';
import type { Source } from './sources.ts';
import { type Import, readSyntax } from './syntax.ts';

interface Rule {
  /** Files and folders that may be imported. */
  may: readonly string[];
  /** Those among them that may not. */
  mayNot?: readonly string[];
  /** Those of which only the types may be imported. */
  mayTypes?: readonly string[];
  packages: readonly string[] | 'any';
  /** Built-in modules, without their prefix. */
  node: readonly string[] | 'any';
  /** Expressions that reach for what must come in as an argument. */
  mustNotUse?: readonly string[];
}

const environment = ['process.env'];
const network = ['fetch()'];
const clock = ['Date.now', 'new Date()', 'Date()', 'performance.now'];
const chance = ['Math.random', 'randomUUID()', 'crypto.randomUUID', 'crypto.getRandomValues'];

/** What handlers may use of the runtime. */
const offeredByRuntime = [
  'caller',
  'handler',
  'errors',
  'paging',
  'files/files',
  'credentials/passwords',
  'credentials/secrets',
  'credentials/session-tokens',
  'outgoing/signed-posts',
];

/** What puts records into the database: writes/ takes for it only what was prepared, so that no check is left out. */
const writingRecords = ['db/records/writing.ts', 'db/sales/lead-writing.ts'];

/** Decisions that hold for every operation; what is an area's own, such as plans and roles, start/ passes in. */
const sharedWithRuntime = [
  'domain/access/scopes.ts',
  'domain/objects/builtin.ts',
  'domain/objects/suggestions.ts',
  'domain/objects/times.ts',
  'domain/records/file-names.ts',
];

/** Where the server's own code has Node's HTTP from. */
const cheapHttp = 'runtime/http/node-http.ts';

/** Timeouts that everything below `start/` may have. */
const responsiveTimeout = 'runtime/responsive-timeout.ts';

/** By folder, or by a folder inside it or a single file, which then counts alone. Files in the root join the parts and may do anything. */
const rules: Readonly<Record<string, Rule>> = {
  generated: { may: ['generated/'], packages: [], node: [] },
  domain: {
    may: ['domain/'],
    mayTypes: ['generated/'],
    // These compute and do nothing else.
    packages: ['ajv-formats', 'libphonenumber-js', 'temporal-polyfill', 'ical.js'],
    node: [],
    mustNotUse: [...clock, ...chance, ...environment, ...network],
  },
  db: {
    // It imports nothing, and knows nothing of HTTP.
    may: ['db/', responsiveTimeout],
    mayTypes: ['domain/'],
    packages: ['postgres', 'uuid'],
    node: 'any',
    mustNotUse: environment,
  },
  runtime: {
    may: ['runtime/', 'generated/', 'domain/service/', ...sharedWithRuntime],
    mayTypes: ['domain/'],
    packages: 'any',
    node: 'any',
    mustNotUse: environment,
  },
  handlers: {
    may: ['reads/', 'writes/', 'db/', 'domain/', ...offeredByRuntime.map((name) => `runtime/${name}.ts`)],
    mayNot: writingRecords,
    mayTypes: ['generated/'],
    packages: ['uuid'],
    node: ['crypto'],
    mustNotUse: [...clock, ...environment, ...network],
  },
  reads: {
    may: ['reads/', 'db/', 'domain/', 'runtime/handler.ts', 'runtime/errors.ts', 'runtime/paging.ts'],
    mayTypes: ['generated/'],
    packages: [],
    node: [],
    mustNotUse: [...clock, ...environment, ...network],
  },
  writes: {
    may: ['writes/', 'db/', 'domain/', 'runtime/handler.ts', 'runtime/errors.ts'],
    mayTypes: ['generated/'],
    packages: ['uuid'],
    node: [],
    mustNotUse: [...clock, ...environment, ...network],
  },
  'handlers/index.ts': { may: ['handlers/', 'runtime/handler.ts'], packages: [], node: [] },
  jobs: {
    may: [
      ...['jobs/', 'payments/', 'db/', 'domain/', 'runtime/config.ts', 'runtime/telemetry/log.ts', 'runtime/outgoing/'],
      responsiveTimeout,
    ],
    mayTypes: ['runtime/credentials/secrets.ts'],
    mayNot: writingRecords,
    packages: 'any',
    node: 'any',
    mustNotUse: environment,
  },
  // Who takes payments: what they say is decided in domain/, and kept by db/.
  payments: {
    may: [
      ...['payments/', 'db/', 'domain/', 'db/client/job-transactions.ts', responsiveTimeout],
      ...['runtime/http/page-routes.ts', 'runtime/pages/html.ts', 'runtime/errors.ts'],
    ],
    packages: ['stripe', 'uuid'],
    node: ['crypto', 'util'],
    mustNotUse: [...environment, ...network],
  },
  // What people do at screens: by the statements and rules that operations have, and never around them.
  console: {
    may: [
      ...['console/', 'reads/', 'writes/', 'db/', 'domain/'],
      ...[
        ...['screens', 'html', 'theme', 'people', 'in-process', 'errors', 'request-ids', 'credentials/authentication'],
        ...['credentials/passwords', 'credentials/secrets', 'credentials/signed-tokens'],
      ].map((name) => `runtime/${name}.ts`),
    ],
    mayNot: writingRecords,
    mayTypes: ['generated/', 'runtime/caller.ts', 'runtime/handler.ts'],
    packages: ['uuid'],
    node: ['timers/promises'],
    mustNotUse: [...environment, ...network, ...clock, ...chance],
  },
  // Tools for models: what they do are operations, and never anything around them.
  mcp: {
    may: ['mcp/', 'runtime/http/program-routes.ts', 'runtime/errors.ts', 'runtime/lazily.ts'],
    mayTypes: ['generated/', 'runtime/pipeline/in-process.ts'],
    packages: ['@modelcontextprotocol/server', 'gpt-tokenizer', 'openapi-types'],
    node: ['crypto', 'http'],
    mustNotUse: [...clock, ...environment, ...network],
  },
  // The OAuth server: the library and what is ours around it.
  oauth: {
    may: [
      ...['oauth/', 'db/', 'domain/service/host-names.ts'],
      ...[
        ...['screens', 'html', 'lazily', 'node-http', 'limits/rate-limits', 'outgoing/client'],
        ...['credentials/bearer-tokens', 'credentials/secrets'],
      ].map((name) => `runtime/${name}.ts`),
    ],
    mayTypes: ['web/console/requests.ts'],
    packages: ['oidc-provider', 'jose'],
    node: ['crypto', 'http', 'net'],
    mustNotUse: [...environment, ...network],
  },
  // Providers of messages that call us in a form of their own.
  gateways: {
    may: [
      'gateways/',
      'writes/',
      'db/',
      'domain/',
      'db/client/job-transactions.ts',
      'runtime/http/page-routes.ts',
      'runtime/errors.ts',
    ],
    mayNot: writingRecords,
    packages: [],
    node: ['crypto'],
    mustNotUse: [...clock, ...environment, ...network],
  },
  // Calendars outside: what is asked of them is decided in domain/, and kept by db/.
  calendars: {
    may: ['calendars/', 'domain/scheduling/', 'domain/service/', 'runtime/lazily.ts', 'runtime/outbound/client.ts'],
    packages: ['fast-xml-parser', 'ical.js', 'temporal-polyfill'],
    node: ['worker_threads'],
    mustNotUse: [...environment, ...network, 'Date.now', 'new Date()', ...chance],
  },
  // Who brings messages to people: what becomes of an attempt is decided in domain/, and kept by db/.
  senders: {
    may: [
      ...[
        'senders/',
        'writes/',
        'db/',
        'domain/',
        'db/client/job-transactions.ts',
        'runtime/http/page-routes.ts',
        'runtime/pages/html.ts',
      ],
      ...['runtime/outgoing/', 'runtime/credentials/signed-tokens.ts'],
    ],
    mayTypes: ['runtime/config.ts'],
    packages: ['linkify-it', 'nodemailer', 'uuid'],
    node: [],
    mustNotUse: [...environment, ...network, ...clock, ...chance],
  },
  // A package of its own, which also runs in browsers.
  sdk: { may: ['sdk/src/'], packages: ['openapi-fetch'], node: [], mustNotUse: environment },
  'sdk/generators': { may: ['sdk/generators/'], packages: ['openapi-types'], node: ['fs', 'path'] },
  tests: {
    may: [
      'tests/',
      'db/',
      'domain/',
      'runtime/',
      'jobs/',
      'payments/',
      'calendars/',
      'senders/',
      'oauth/',
      // What screens call, and no operation does.
      'services/messaging/draft-approvals.ts',
      'gateways/',
      'mcp/',
      'checks/',
      'sdk/',
      'generated/',
      'bench/counted.ts',
      // What joins the quota's rules to its tables: each has little to be tested without the other.
      'app/call-ledger.ts',
    ],
    packages: 'any',
    node: 'any',
  },
  // A program of its own, put together as the server is.
  'tests/mcp/fixture-server.ts': {
    may: ['app/serve.ts', 'db/client/server-secrets.ts', 'runtime/', 'tests/mcp/fixtures.ts'],
    packages: [],
    node: [],
  },
  checks: { may: ['checks/'], packages: 'any', node: 'any' },
};

const code = (sources: readonly Source[]): readonly Source[] => sources.filter(({ path }) => path.endsWith('.ts'));
/** The rule of a file: its own, or that of the innermost folder that has one. */
function ruleOf(path: string): Rule | undefined {
  const folder = posix.dirname(path);
  return rules[path] ?? (folder === '.' ? undefined : ruleOf(folder));
}
const packageOf = (name: string): string =>
  name
    .split('/')
    .slice(0, name.startsWith('@') ? 2 : 1)
    .join('/');

/** A sentence for every import and every expression that the rule of a folder forbids. */
export function importProblems(sources: readonly Source[]): string[] {
  return code(sources).flatMap((source) => {
    const { path } = source;
    const { imports, uses } = readSyntax(source);
    const rule = ruleOf(path);
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
      ...costly.map(({ line }) => `${path}:${line} must take node:http from ${cheapHttp}, which says why`),
      ...reached.map(
        ({ expression, line }) => `${path}:${line} must not use ${expression}: it comes in as an argument`,
      ),
    ];
  });
}

function isAllowed(path: string, rule: Rule, { name, typesOnly }: Import): boolean {
  const has = (list: readonly string[] | 'any', wanted: string): boolean => list === 'any' || list.includes(wanted);
  if (name === '') return false;
  if (name.startsWith('node:')) return has(rule.node, name.slice(5));
  if (!name.startsWith('.')) return has(rule.packages, packageOf(name));
  const target = posix.join(posix.dirname(path), name);
  if (rule.mayNot?.includes(target)) return false;
  const allowed = typesOnly ? [...rule.may, ...(rule.mayTypes ?? [])] : rule.may;
  return allowed.some((entry) => (entry.endsWith('/') ? target.startsWith(entry) : target === entry));
}

/** What exists on a developer's machine only. */
const development = /^(tests|checks|bench)\/|^sdk\/generators\/|^[^/]+\.config\.ts$/;

interface Manifest {
  dependencies?: Record<string, string>;
  devDependencies?: Record<string, string>;
}

/** A sentence for every package that is imported and not declared, or declared as one that production does not install. */
export function dependencyProblems(sources: readonly Source[], manifest: Manifest): string[] {
  const { dependencies = {}, devDependencies = {} } = manifest;
  return code(sources).flatMap((source) =>
    readSyntax(source).imports.flatMap(({ name, typesOnly, line }) => {
      const wanted = packageOf(name);
      if (name === '' || /^(\.|node:)/.test(name) || wanted in dependencies) return [];
      if (wanted in devDependencies && (typesOnly || development.test(source.path))) return [];
      return [
        `${source.path}:${line} needs ${wanted} among the ${typesOnly ? 'devDependencies' : 'dependencies'} of package.json`,
      ];
    }),
  );
}
