// The project's own rules for the document, and the decorators that add what all areas share.
import { curlSamples, parameterExample } from './curl-samples.js';
import { describeDeprecatedUses } from './deprecated-uses.js';
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
  'test',
  'replay',
  'recover',
  'upgrade',
  'downgrade',
  'cancel',
  'reactivate',
  'extend',
  'reschedule',
  'withdraw',
  'release',
  'enroll',
  'receive',
  'schedule',
  'pause',
  'resume',
  'connect',
];
const operationExtensions = new Set([
  'x-idempotency',
  'x-public-limit',
  'x-key-limit',
  'x-credential-with',
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
  'x-secret-answer',
  'x-hashes-password',
  'x-acts-outside',
  'x-only-reads',
  'x-unpaid',
  'x-before-password-change',
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

/** Changes are partial, so they are PATCH. The only PUT is that of the duplicate check, which the product fixes. */
const noOtherPut = () => ({
  Operation(operation, ctx) {
    if (ctx.key === 'put' && operation.operationId !== 'updateDuplicateCheck')
      ctx.report({ message: `${operation.operationId} must be PATCH or POST: only updateDuplicateCheck is PUT` });
  },
});

/** Anybody may call it: it lists no credential, or an empty alternative to them. */
const isPublicOperation = ({ security = [] }) =>
  security.length === 0 || security.some((alternative) => Object.keys(alternative).length === 0);

/** Every operation lists the failures that it can answer with; which ones follows from what it declares. */
const errorAnswers = () => ({
  Operation(operation, ctx) {
    const path = ctx.parentLocations?.PathItem?.pointer ?? ctx.location.pointer;
    const isPublic = (operation.security ?? []).length === 0;
    // 400: every operation refuses a query parameter that it does not know.
    const needed = ['400', '429', '500', '503'];
    if (!isPublic) needed.push('401', '403');
    // Calls of keys are paid for by a subscription; those of people at the screen and of the operator are not counted.
    if (!operation['x-unpaid'] && operation.security?.some(({ apiKey }) => apiKey && !apiKey.includes('onboarding')))
      needed.push('402');
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
    const isPublic = isPublicOperation(operation);
    if (isPublic !== (operation['x-public-limit'] !== undefined))
      ctx.report({ message: 'public operations name an x-public-limit, and no others' });
    const isOptional = isPublic && (operation.security ?? []).length > 0;
    if (isOptional !== (operation['x-credential-with'] !== undefined))
      ctx.report({
        message: 'operations with an optional credential say by x-credential-with which query parameter asks for it',
      });
    const limit = operation['x-key-limit'];
    if (limit !== undefined && !(Number.isInteger(limit) && limit > 0 && (!isPublic || isOptional)))
      ctx.report({ message: 'x-key-limit is a whole number of calls per minute for each key' });
  },
});

/** OAuth tokens open what keys open, with the same scopes; what is for the operator or for test keys is for keys alone. */
const sameScopesForOAuth = () => ({
  Operation(operation, ctx) {
    const scopesOf = (scheme) =>
      (operation.security ?? [])
        .flatMap((alternative) => (alternative[scheme] ? [alternative[scheme]] : []))
        .filter((scopes) => !scopes.includes('onboarding'))
        .map((scopes) => `(${scopes.toSorted().join(' ')})`)
        .toSorted()
        .join(' or ');
    if (!operation['x-test-only'] && scopesOf('apiKey') !== scopesOf('oauth'))
      ctx.report({ message: 'apiKey and oauth must be listed with the same scopes' });
  },
});

/** A list takes limit and cursor, and answers with them an array that is called what the operation lists. */
const pagedLists = () => ({
  Operation(operation, ctx) {
    const [, noun] = /^list([A-Z]\w*)$/.exec(operation.operationId ?? '') ?? [];
    if (noun === undefined) return;
    const resolved = (node) => (node?.$ref ? ctx.resolve(node).node : node);
    const parameters = (operation.parameters ?? []).map(resolved);
    for (const name of ['limit', 'cursor'])
      if (!parameters.some((each) => each?.in === 'query' && each.name === name))
        ctx.report({ message: `${operation.operationId} is a list, so it takes ${name}` });
    const { schema } = operation.responses?.['200']?.content?.['application/json'] ?? {};
    const { properties = {}, required = [] } = resolved(resolved(schema)?.properties?.data) ?? {};
    for (const name of ['next_cursor', 'has_more'])
      if (!required.includes(name))
        ctx.report({ message: `${operation.operationId} is a list, so it answers ${name}` });
    const words = noun.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    const named = Object.keys(properties).filter((name) => words.endsWith(`_${name}`));
    if (named.length !== 1)
      ctx.report({ message: `${operation.operationId} answers one array that has its name or the end of it` });
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

/** The name of a schema that stands under `schemas` of a file, and so will be a component of the document. */
function componentName({ pointer }) {
  return /^#(?:\/components)?\/schemas\/([^/]+)$/.exec(pointer)?.[1];
}

/** Two areas that use one schema name would silently become Name and Name-2. */
const noRenamedComponents = () => {
  const files = new Map();
  return {
    Schema(_schema, ctx) {
      const name = componentName(ctx.location);
      if (name === undefined) return;
      const file = ctx.location.source.absoluteRef;
      const first = files.get(name) ?? file;
      files.set(name, first);
      if (first !== file) ctx.report({ message: `two areas use the schema name ${name}` });
    },
  };
};

/** Generated clients have the names of the document, in every language. */
const unreservedNames = () => ({
  Schema(_schema, ctx) {
    const name = componentName(ctx.location);
    const languages = name === undefined ? [] : languagesThatReserve(name);
    if (languages.length > 0)
      ctx.report({ message: `${languages.join(', ')} would rename the schema ${name}: give it another name` });
  },
});

/** Choices have a name of their own, so that generated clients have one type for each; a single value is a const. */
const namedEnums = () => ({
  Schema(schema, ctx) {
    if (!schema.enum) return;
    if (schema.enum.length === 1) ctx.report({ message: 'write the only value as const' });
    else if (componentName(ctx.location) === undefined)
      ctx.report({ message: 'give this enum a name under schemas and refer to it' });
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
            typescriptSample(root, path, operation, item.parameters),
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
