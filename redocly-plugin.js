// The project's own rules for the OpenAPI document, and the decorators that add what no area should have to repeat.
import { curlSamples, parameterExample } from './redocly-curl.js';
import { describeDeprecatedUses } from './redocly-deprecation.js';
import { typescriptSample } from './redocly-typescript.js';

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
];
const operationExtensions = new Set([
  'x-idempotency',
  'x-public-limit',
  'x-key-limit',
  'x-platform',
  'x-live-only',
  'x-cache-control',
  'x-deprecated-use',
  'x-uniform-refusal',
  'x-tenant-fields',
  'x-validation-status',
  'x-single-kind-codes',
  'x-answer',
  'x-secret-answer',
  'x-hashes-password',
  'x-mcp',
]);
const methods = ['get', 'post', 'patch', 'put', 'delete'];

/** An operationId is a verb of the list and a noun, in camelCase. */
const operationIdVerb = () => ({
  Operation(operation, ctx) {
    const known = verbs.some((verb) => new RegExp(`^${verb}[A-Z][A-Za-z0-9]*$`).test(operation.operationId ?? ''));
    if (!known)
      ctx.report({ message: `operationId must be one of ${verbs.join(', ')} followed by a noun in camelCase` });
  },
});

/** Every operation lists the failures that it can answer with; which ones follows from what it declares. */
const errorAnswers = () => ({
  Operation(operation, ctx) {
    const path = ctx.parentLocations?.PathItem?.pointer ?? ctx.location.pointer;
    const isPublic = (operation.security ?? []).length === 0;
    // 400: every operation refuses a query parameter that it does not know.
    const needed = ['400', '429', '500', '503'];
    if (!isPublic) needed.push('401', '403');
    // Calls of keys are paid for by a subscription; those of people at the screen and of the operator are not counted.
    if (operation.security?.some(({ apiKey }) => apiKey && !apiKey.includes('onboarding'))) needed.push('402');
    if (path.includes('{') || path.includes('%7B')) needed.push('404');
    if (operation['x-idempotency']) needed.push('409', '422');
    if (operation['x-idempotency'] === 'required') needed.push('428');
    for (const status of needed) {
      if (!operation.responses?.[status])
        ctx.report({ message: `${operation.operationId} must list the answer ${status}` });
    }
    for (const [status, answer] of Object.entries(operation.responses ?? {})) {
      if (!status.startsWith('2') && !answer.$ref) {
        ctx.report({
          message: `the answer ${status} must be a $ref into common.yaml`,
          location: ctx.location.child(['responses', status]),
        });
      }
      if (
        !status.startsWith('2') &&
        answer.$ref &&
        answer.$ref.includes('/OAuth') !== (operation['x-answer'] === 'oauth')
      ) {
        ctx.report({
          message: 'the OAuth answers belong to operations with x-answer: oauth, and those have no others',
          location: ctx.location.child(['responses', status]),
        });
      }
    }
  },
});

/** An extension that the server does not know would be a promise that nobody keeps. */
const knownExtensions = () => ({
  Operation(operation, ctx) {
    for (const key of Object.keys(operation)) {
      if (key.startsWith('x-') && !operationExtensions.has(key)) ctx.report({ message: `unknown extension ${key}` });
    }
  },
});

/** Public operations are limited by the caller's address, all others by the credential. */
const limitedByAddress = () => ({
  Operation(operation, ctx) {
    const isPublic = (operation.security ?? []).length === 0;
    if (isPublic !== (operation['x-public-limit'] !== undefined))
      ctx.report({ message: 'public operations name an x-public-limit, and no others' });
    const limit = operation['x-key-limit'];
    if (limit !== undefined && !(Number.isInteger(limit) && limit > 0 && !isPublic))
      ctx.report({ message: 'x-key-limit is a whole number of calls per minute for each key' });
  },
});

/** OAuth tokens open what keys open, with the same scopes; the operator's own operations are for keys alone. */
const sameScopesForOAuth = () => ({
  Operation(operation, ctx) {
    const scopesOf = (scheme) =>
      (operation.security ?? [])
        .flatMap((alternative) => (alternative[scheme] ? [alternative[scheme]] : []))
        .filter((scopes) => !scopes.includes('onboarding'))
        .map((scopes) => `(${scopes.toSorted().join(' ')})`)
        .toSorted()
        .join(' or ');
    if (scopesOf('apiKey') !== scopesOf('oauth'))
      ctx.report({ message: 'apiKey and oauth must be listed with the same scopes' });
  },
});

/** Payload schemas are named, so that generated clients have names for them. */
const namedPayloads = () => ({
  MediaType(media, ctx) {
    if (media.schema && !media.schema.$ref) ctx.report({ message: 'name this schema under schemas and refer to it' });
  },
});

/** Objects say whether they take other fields: closed unless they mean to be open. */
const closedSchemas = () => ({
  Schema(schema, ctx) {
    if (schema.type === 'object' && schema.properties && schema.additionalProperties === undefined) {
      ctx.report({ message: 'an object with properties must say additionalProperties' });
    }
  },
});

/** Every JSON success carries an example that an integrator can trust. */
const successExample = () => ({
  Response(response, ctx) {
    const media = response.content?.['application/json'];
    if (media && !media.example && !media.examples) ctx.report({ message: 'add an example' });
  },
});

/** The samples are made of examples, so every required parameter and every body has one. */
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

/** Two areas that use one schema name would silently become Name and Name-2. */
const noRenamedComponents = () => ({
  NamedSchemas(schemas, ctx) {
    for (const name of Object.keys(schemas)) {
      if (/-\d+$/.test(name)) ctx.report({ message: `two areas use the schema name ${name.replace(/-\d+$/, '')}` });
    }
  },
});

const commonHeaders = ['X-Request-Id', 'X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset'];

/** Puts the headers of every answer on every answer, so that no area repeats them. */
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

/** Gives every operation samples: curl, and the TypeScript client. */
const addCodeSamples = () => ({
  Root: {
    leave(root) {
      for (const [path, item] of Object.entries(root.paths ?? {})) {
        for (const method of methods) {
          const operation = item[method];
          if (!operation) continue;
          operation['x-codeSamples'] = [
            ...curlSamples(root, method, path, operation, item.parameters),
            typescriptSample(root, operation, item.parameters),
          ];
        }
      }
    },
  },
});

/** Tells of deprecated forms where an operation has one. */
const addDeprecatedUses = () => ({
  Root: {
    leave(root) {
      for (const item of Object.values(root.paths ?? {}))
        for (const method of methods) if (item[method]?.['x-deprecated-use']) describeDeprecatedUses(item[method]);
    },
  },
});

export default function crm() {
  return {
    id: 'crm',
    rules: {
      oas3: {
        'operation-id-verb': operationIdVerb,
        'error-answers': errorAnswers,
        'known-extensions': knownExtensions,
        'limited-by-address': limitedByAddress,
        'same-scopes-for-oauth': sameScopesForOAuth,
        'named-payloads': namedPayloads,
        'closed-schemas': closedSchemas,
        'success-example': successExample,
        'sample-examples': sampleExamples,
        'no-renamed-components': noRenamedComponents,
      },
    },
    decorators: {
      oas3: {
        'common-headers': addCommonHeaders,
        'code-samples': addCodeSamples,
        'deprecated-uses': addDeprecatedUses,
      },
    },
  };
}
