// Generates the TypeScript samples: one call of the client for each operation, which compiles.
import { listParameters, parameterExample, resolve } from './curl-samples.js';

/** Formats a value as a TypeScript literal, without quotes around keys. */
const literal = (value) => JSON.stringify(value, null, 2).replace(/^( *)"([A-Za-z_]\w*)":/gm, '$1$2:');

/** Classes of form bodies, by media type. Every other body is an object. */
const forms = { 'multipart/form-data': 'FormData', 'application/x-www-form-urlencoded': 'URLSearchParams' };

/** Returns the lines that build a form. The example of a file field is its name. */
function formLines(root, form, schema, fields) {
  const { properties = {} } = resolve(root, schema) ?? {};
  const isFile = (name) => resolve(root, properties[name])?.format === 'binary';
  const lines = Object.entries(fields ?? {}).map(([name, value]) => {
    const text = literal(String(value));
    return `body.set('${name}', ${isFile(name) ? `new Blob(['Hello']), ${text}` : text});`;
  });
  return [`const body = new ${form}();`, ...lines, ''].join('\n');
}

/** Returns true for lists without an end, whose `next_cursor` is never null. */
function isEndless(root, operation) {
  const { schema } = resolve(root, operation.responses?.['200'])?.content?.['application/json'] ?? {};
  const data = resolve(root, resolve(root, schema)?.properties?.data);
  return resolve(root, data?.properties?.next_cursor)?.type === 'string';
}

/** Returns a call with fetch, because the client authenticates with keys and does not sign requests. */
const signedPost = (path, query, body) =>
  `const { createHmac } = await import('node:crypto');
const body = JSON.stringify(${literal(body)});
const time = Math.floor(Date.now() / 1000);
const digest = createHmac('sha256', process.env.INBOUND_SECRET ?? '').update(\`\${time}.\${body}\`).digest('hex');
const headers = { 'content-type': 'application/json', 'service-signature': \`t=\${time},v1=\${digest}\` };
const url = 'http://127.0.0.1:8080${path}?${new URLSearchParams(query)}';
const response = await fetch(url, { method: 'POST', headers, body });`;

/** Returns one call with the required parameters and the first example of the body. */
export function typescriptSample(root, path, operation, shared = []) {
  const parameters = listParameters(root, operation, shared);
  const requiredIn = (place) =>
    parameters
      .filter((parameter) => parameter.in === place && parameter.required)
      .map((parameter) => [parameter.name, parameterExample(root, parameter) ?? parameter.name]);
  const [mediaType, media] = Object.entries(resolve(root, operation.requestBody)?.content ?? {})[0] ?? [];
  const example = resolve(root, Object.values(media?.examples ?? {})[0])?.value ?? media?.example;
  const form = forms[mediaType];
  const call = {};
  for (const place of ['path', 'query']) {
    const values = requiredIn(place);
    if (values.length > 0) call[place] = Object.fromEntries(values);
  }
  if (media && !form) call.body = example;
  const whole = form ? literal({ ...call, body: 0 }).replace(/body: 0\n\}$/, 'body\n}') : literal(call);
  const argument = Object.keys(call).length > 0 || form ? whole : '';
  const isPaged = parameters.some((parameter) => parameter.in === 'query' && parameter.name === 'cursor');
  const { operationId, security = [] } = operation;
  if (security.some(({ signature }) => signature))
    return { lang: 'TypeScript', label: 'TypeScript', source: signedPost(path, call.query, example) };
  const source = isEndless(root, operation)
    ? `for await (const page of crm.${operationId}.follow(${argument})) console.log(page);`
    : isPaged
      ? `for await (const item of crm.${operationId}.all(${argument})) console.log(item);`
      : `const result = await crm.${operationId}(${argument});`;
  return {
    lang: 'TypeScript',
    label: 'TypeScript',
    source: (form ? formLines(root, form, media.schema, example) : '') + source,
  };
}
