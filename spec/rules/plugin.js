// The project's lint rules for the spec, and the decorators that complete the bundled document.
import { curlSamples, parameterExample } from './curl-samples.js';
import { describeDeprecatedUses } from './deprecated-uses.js';
import { dryRuns } from './dry-runs.js';
import { distinctComponentNames, noOverriddenParameters } from './generated-clients.js';
import { languagesThatReserve } from './reserved-names.js';
import { typescriptSample } from './typescript-samples.js';

const verbs = [
  'list',
  'get',
  'create',
  'update',
  'delete',
  'search',
  'revoke',
  'rotate',
  'check',
  'end',
  'upsert',
  'convert',
  'reset',
  'restore',
  'test',
  'replay',
  'recover',
  'upgrade',
  'downgrade',
  'cancel',
  'reactivate',
  'extend',
  'reschedule',
  'mark',
  'merge',
  'undo',
  'withdraw',
  'release',
  'enroll',
  'receive',
  'schedule',
  'pause',
  'resume',
  'connect',
  'apply',
  'undo',
  'approve',
  'reject',
  'upload',
  'start',
  'advance',
  'preview',
  'mark',
];
const operationExtensions = new Set([
  'x-idempotency',
  'x-public-limit',
  'x-key-limit',
  'x-workspace-limit',
  'x-credential-with',
  'x-mode-with',
  'x-platform',
  'x-live-only',
  'x-test-only',
  'x-cache-control',
  'x-readable-anywhere',
  'x-deprecated-use',
  'x-uniform-refusal',
  'x-tenant-fields',
  'x-validation-status',
  'x-single-kind-codes',
  'x-answer',
  'x-upload-bytes',
  'x-secret-answer',
  'x-hashes-password',
  'x-acts-outside',
  'x-real-time',
  'x-dry-run',
  'x-company-reach',
  'x-proposes',
  'x-only-reads',
  'x-unpaid',
  'x-before-password-change',
  'x-mcp',
]);
const methods = ['get', 'post', 'patch', 'put', 'delete'];

/** An operationId is one of the verbs followed by a noun, in camelCase. */
const operationIdVerb = () => ({
  Operation(operation, ctx) {
    const known = verbs.some((verb) => new RegExp(`^${verb}[A-Z][A-Za-z0-9]*$`).test(operation.operationId ?? ''));
    if (!known)
      ctx.report({ message: `operationId must be one of ${verbs.join(', ')} followed by a noun in camelCase` });
  },
});

/** Updates are partial and therefore use PATCH. The product specification defines the only PUT. */
const noOtherPut = () => ({
  Operation(operation, ctx) {
    if (ctx.key === 'put' && operation.operationId !== 'updateDuplicateCheck')
      ctx.report({ message: `${operation.operationId} must be PATCH or POST: only updateDuplicateCheck is PUT` });
  },
});

/** Returns true if no credential is required: security is empty or has an empty alternative. */
const isPublicOperation = ({ security = [] }) =>
  security.length === 0 || security.some((alternative) => Object.keys(alternative).length === 0);

/** Every operation declares the error responses that follow from its declaration. */
const errorAnswers = () => ({
  Operation(operation, ctx) {
    const path = ctx.parentLocations?.PathItem?.pointer ?? ctx.location.pointer;
    const isPublic = (operation.security ?? []).length === 0;
    // 400: every operation rejects unknown query parameters.
    const needed = ['400', '429', '500', '503'];
    if (!isPublic) needed.push('401', '403');
    // 402: only calls with keys require a subscription, not those of signed-in people and the operator.
    if (!operation['x-unpaid'] && operation.security?.some(({ apiKey }) => apiKey && !apiKey.includes('onboarding')))
      needed.push('402');
    if (path.includes('{') || path.includes('%7B')) needed.push('404');
    if (operation['x-idempotency']) needed.push('409', '422');
    if (operation['x-idempotency'] === 'required') needed.push('428');
    for (const status of needed) {
      if (!operation.responses?.[status])
        ctx.report({ message: `${operation.operationId} must declare the response ${status}` });
    }
    for (const [status, answer] of Object.entries(operation.responses ?? {})) {
      if (!status.startsWith('2') && !answer.$ref) {
        ctx.report({
          message: `the response ${status} must be a $ref to common.yaml`,
          location: ctx.location.child(['responses', status]),
        });
      }
      if (
        !status.startsWith('2') &&
        answer.$ref &&
        answer.$ref.includes('/OAuth') !== (operation['x-answer'] === 'oauth')
      ) {
        ctx.report({
          message: 'operations with x-answer: oauth must use the OAuth error responses, and other operations must not',
          location: ctx.location.child(['responses', status]),
        });
      }
    }
  },
});

/** Unknown extensions are rejected, because the server would ignore them silently. */
const knownExtensions = () => ({
  Operation(operation, ctx) {
    for (const key of Object.keys(operation)) {
      if (key.startsWith('x-') && !operationExtensions.has(key)) ctx.report({ message: `unknown extension ${key}` });
    }
  },
});

/** Public operations are rate limited by IP address, all others by credential. */
const limitedByAddress = () => ({
  Operation(operation, ctx) {
    const isPublic = isPublicOperation(operation);
    if (isPublic !== (operation['x-public-limit'] !== undefined))
      ctx.report({ message: 'public operations must have x-public-limit, and other operations must not' });
    const isOptional = isPublic && (operation.security ?? []).length > 0;
    if (isOptional !== (operation['x-credential-with'] !== undefined))
      ctx.report({
        message: 'x-credential-with must name the query parameter that requires the optional credential',
      });
    const limit = operation['x-key-limit'];
    if (limit !== undefined && !(Number.isInteger(limit) && limit > 0 && (!isPublic || isOptional)))
      ctx.report({ message: 'x-key-limit must be an integer greater than 0: calls per minute for each key' });
    const shared = operation['x-workspace-limit'];
    if (shared !== undefined && !(Number.isInteger(shared) && shared > 0 && !isPublic))
      ctx.report({ message: 'x-workspace-limit must be an integer greater than 0: calls per minute of a workspace' });
  },
});

/**
 * OAuth tokens and keys require the same scopes. Operations for the operator or for test keys accept
 * keys only, and operations about the user of the caller accept no keys and need no scope.
 */
const sameScopesForOAuth = () => ({
  Operation(operation, ctx) {
    const listScopes = (scheme) =>
      (operation.security ?? [])
        .flatMap((alternative) => (alternative[scheme] ? [alternative[scheme]] : []))
        .filter((scopes) => !scopes.includes('onboarding'))
        .map((scopes) => `(${scopes.toSorted().join(' ')})`)
        .toSorted()
        .join(' or ');
    const isAboutUser = listScopes('apiKey') === '' && listScopes('oauth') === '()';
    if (!operation['x-test-only'] && !isAboutUser && listScopes('apiKey') !== listScopes('oauth'))
      ctx.report({ message: 'apiKey and oauth must have the same scopes' });
  },
});

/** A list takes limit and cursor, and returns one array with the name of the listed noun. */
const pagedLists = () => ({
  Operation(operation, ctx) {
    const [, noun] = /^list([A-Z]\w*)$/.exec(operation.operationId ?? '') ?? [];
    if (noun === undefined) return;
    const resolved = (node) => (node?.$ref ? ctx.resolve(node).node : node);
    const parameters = (operation.parameters ?? []).map(resolved);
    for (const name of ['limit', 'cursor'])
      if (!parameters.some((each) => each?.in === 'query' && each.name === name))
        ctx.report({ message: `${operation.operationId} is a list and must take ${name}` });
    const { schema } = operation.responses?.['200']?.content?.['application/json'] ?? {};
    const { properties = {}, required = [] } = resolved(resolved(schema)?.properties?.data) ?? {};
    for (const name of ['next_cursor', 'has_more'])
      if (!required.includes(name))
        ctx.report({ message: `${operation.operationId} is a list and must return ${name}` });
    const words = noun.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    const named = Object.keys(properties).filter((name) => words.endsWith(`_${name}`));
    if (named.length !== 1)
      ctx.report({
        message: `${operation.operationId} must return one array with the name of its noun, or the end of that name`,
      });
  },
});

/** Payload schemas are named, so that generated clients have types for them. */
const namedPayloads = () => ({
  MediaType(media, ctx) {
    if (media.schema && !media.schema.$ref) ctx.report({ message: 'move this schema to schemas and reference it' });
  },
});

/** Objects with properties declare whether they accept additional properties. */
const closedSchemas = () => ({
  Schema(schema, ctx) {
    if (schema.type === 'object' && schema.properties && schema.additionalProperties === undefined) {
      ctx.report({ message: 'an object with properties must set additionalProperties' });
    }
  },
});

/** Every JSON response has an example. */
const successExample = () => ({
  Response(response, ctx) {
    const media = response.content?.['application/json'];
    if (media && !media.example && !media.examples) ctx.report({ message: 'add an example' });
  },
});

/** Every required parameter and every body has an example, because the code samples use them. */
const sampleExamples = () => ({
  Parameter(parameter, ctx) {
    const { schema } = parameter;
    const shown = { ...parameter, schema: schema?.$ref ? ctx.resolve(schema).node : schema };
    if (parameter.required && parameterExample({}, shown) === undefined) ctx.report({ message: 'add an example' });
  },
  RequestBody(body, ctx) {
    for (const [type, media] of Object.entries(body.content ?? {})) {
      if (!media.example && !media.examples)
        ctx.report({ message: 'add an example', location: ctx.location.child(['content', type]) });
    }
  },
});

/** Returns the name of a schema under `schemas` of a file, which becomes a component of the bundled document. */
function componentName({ pointer }) {
  return /^#(?:\/components)?\/schemas\/([^/]+)$/.exec(pointer)?.[1];
}

/** Schema names are unique across files, because the bundler would silently rename the second to Name-2. */
const noRenamedComponents = () => {
  const files = new Map();
  return {
    Schema(_schema, ctx) {
      const name = componentName(ctx.location);
      if (name === undefined) return;
      const file = ctx.location.source.absoluteRef;
      const first = files.get(name) ?? file;
      files.set(name, first);
      if (first !== file) ctx.report({ message: `two files use the schema name ${name}: rename one of them` });
    },
  };
};

/** Schema names are not reserved in any client language, so that all clients use the same names. */
const unreservedNames = () => ({
  Schema(_schema, ctx) {
    const name = componentName(ctx.location);
    const languages = name === undefined ? [] : languagesThatReserve(name);
    if (languages.length > 0)
      ctx.report({ message: `${languages.join(', ')} would rename the schema ${name}: give it another name` });
  },
});

/** Enums are named, so that generated clients have one type for each. A single value is a const. */
const namedEnums = () => ({
  Schema(schema, ctx) {
    if (!schema.enum) return;
    if (schema.enum.length === 1) ctx.report({ message: 'use const for a single value' });
    else if (componentName(ctx.location) === undefined)
      ctx.report({ message: 'move this enum to schemas and reference it' });
  },
});

const commonHeaders = ['X-Request-Id', 'X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset'];

/** Adds the common headers to every response, so that the areas do not repeat them. */
const addCommonHeaders = () => ({
  Root: {
    leave(root) {
      root.components ??= {};
      const responses = [...Object.values(root.components.responses ?? {})];
      for (const item of Object.values(root.paths ?? {})) {
        for (const method of methods) {
          for (const response of Object.values(item[method]?.responses ?? {})) {
            if (!response.$ref) responses.push(response);
          }
        }
      }
      for (const response of responses) {
        const own = response.headers ?? {};
        response.headers = {};
        for (const name of commonHeaders) response.headers[name] = { $ref: `#/components/headers/${name}` };
        Object.assign(response.headers, own);
      }
    },
  },
});

/** Adds curl and TypeScript samples to every operation. */
const addCodeSamples = () => ({
  Root: {
    leave(root) {
      for (const [path, item] of Object.entries(root.paths ?? {})) {
        for (const method of methods) {
          const operation = item[method];
          if (!operation) continue;
          operation['x-codeSamples'] = [
            ...curlSamples(root, method, path, operation, item.parameters),
            typescriptSample(root, path, operation, item.parameters),
          ];
        }
      }
    },
  },
});

/** Describes the deprecated parameters and fields of operations. */
const addDeprecatedUses = () => ({
  Root: {
    leave(root) {
      for (const item of Object.values(root.paths ?? {}))
        for (const method of methods) if (item[method]?.['x-deprecated-use']) describeDeprecatedUses(item[method]);
    },
  },
});

/** Adds the response of a credential that only proposes changes to every write that can be proposed. */
const addProposals = () => ({
  Root: {
    leave(root) {
      for (const item of Object.values(root.paths ?? {}))
        for (const method of methods) {
          const operation = item[method];
          // Two operations answer 202 for another reason, too. The guide describes both.
          if (operation?.['x-dry-run'] && !operation.responses['202'])
            operation.responses['202'] = { $ref: '#/components/responses/Proposed' };
        }
    },
  },
});

export default function crm() {
  return {
    id: 'crm',
    rules: {
      oas3: {
        'operation-id-verb': operationIdVerb,
        'no-other-put': noOtherPut,
        'error-answers': errorAnswers,
        'known-extensions': knownExtensions,
        'limited-by-address': limitedByAddress,
        'same-scopes-for-oauth': sameScopesForOAuth,
        'paged-lists': pagedLists,
        'named-payloads': namedPayloads,
        'closed-schemas': closedSchemas,
        'success-example': successExample,
        'sample-examples': sampleExamples,
        'no-renamed-components': noRenamedComponents,
        'unreserved-names': unreservedNames,
        'named-enums': namedEnums,
        'distinct-component-names': distinctComponentNames,
        'no-overridden-parameters': noOverriddenParameters,
        'dry-runs': dryRuns,
      },
    },
    decorators: {
      oas3: {
        'common-headers': addCommonHeaders,
        'code-samples': addCodeSamples,
        'deprecated-uses': addDeprecatedUses,
        proposals: addProposals,
      },
    },
  };
}
