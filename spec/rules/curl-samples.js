// Generates the curl samples: one command for each body example, which works when pasted.

/** Base URL of the samples. The documentation page replaces it with the address of its own server. */
const baseUrl = 'http://127.0.0.1:8080';

/** The header for each kind of credential. Readers keep their credentials in variables. */
const credentials = {
  apiKey: '"x-api-key: $API_KEY"',
  session: '"Authorization: Bearer $SESSION_TOKEN"',
  oauth: '"Authorization: Bearer $ACCESS_TOKEN"',
  signature: '"Service-Signature: t=$T,v1=$V1"',
};

const quoted = (text) => (/^[A-Za-z0-9_./:@%=,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** Resolves a reference within the bundled OpenAPI document. */
export function resolve(root, node) {
  if (!node?.$ref) return node;
  const parts = node.$ref.slice(2).split('/');
  const target = parts.reduce((at, part) => at?.[part.replaceAll('~1', '/').replaceAll('~0', '~')], root);
  return resolve(root, target);
}

/** Returns the example value of a parameter: the one named like the body's example, or the first. */
export function parameterExample(root, parameter, name) {
  const schema = resolve(root, parameter.schema) ?? {};
  const { examples = {} } = parameter;
  const example = (examples[name] ?? Object.values(examples)[0])?.value;
  const found = [parameter.example, example, schema.example, schema.default, schema.enum?.[0]];
  return found.find((value) => value !== undefined);
}

function url(root, path, parameters, name) {
  let filled = path;
  const query = [];
  for (const parameter of parameters) {
    const value = encodeURIComponent(String(parameterExample(root, parameter, name) ?? parameter.name));
    if (parameter.in === 'path') filled = filled.replace(`{${parameter.name}}`, value);
    if (parameter.in === 'query') query.push(`${parameter.name}=${value}`);
  }
  return `${baseUrl}${filled}${query.length > 0 ? `?${query.join('&')}` : ''}`;
}

function bodyLines(mediaType, value) {
  if (value === undefined) return [];
  if (mediaType === 'application/json')
    return ["-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(value, null, 2))}`];
  if (mediaType === 'multipart/form-data')
    return Object.entries(value).map(([name, part]) => {
      const content = typeof part === 'object' ? `${JSON.stringify(part)};type=application/json` : `@${part}`;
      return `-F ${quoted(`${name}=${content}`)}`;
    });
  return Object.entries(value).map(([name, field]) => `--data-urlencode ${quoted(`${name}=${field}`)}`);
}

/** Shell commands that sign a body. */
const signing = (value) => [
  `BODY=${quoted(JSON.stringify(value, null, 2))}`,
  'T=$(date +%s)',
  `V1=$(printf '%s.%s' "$T" "$BODY" | openssl dgst -sha256 -hmac "$INBOUND_SECRET" | sed 's/.* //')`,
  '',
];

/** Returns the parameters of an operation, which override those of its path. */
export function listParameters(root, operation, shared) {
  const all = [...shared, ...(operation.parameters ?? [])].map((parameter) => resolve(root, parameter));
  return [...new Map(all.map((parameter) => [`${parameter.in} ${parameter.name}`, parameter])).values()];
}

/** Returns the examples of the first media type, and those of a form that JSON can also be sent in. */
function listExamples(content) {
  const [first, ...others] = Object.entries(content);
  const shown =
    first?.[0] === 'application/json' ? others.filter(([mediaType]) => mediaType === 'multipart/form-data') : [];
  return [first ?? [], ...shown].flatMap(([mediaType, media]) =>
    Object.entries(media?.examples ?? { curl: { value: media?.example } }).map((example) => [mediaType, ...example]),
  );
}

/** Returns one command for each example of the body, or a single one if the body has no named examples. */
export function curlSamples(root, method, path, operation, shared = []) {
  const parameters = listParameters(root, operation, shared)
    // A download link is invalid without its signature, which is in the query.
    .filter((parameter) => parameter.required || (operation['x-answer'] === 'file' && parameter.in === 'query'));
  const headers = parameters.filter((parameter) => parameter.in === 'header');
  const lines = headers.map((header) => `-H ${quoted(`${header.name}: ${parameterExample(root, header)}`)}`);
  const [scheme] = Object.keys(operation.security?.[0] ?? {});
  if (scheme) lines.unshift(`-H ${credentials[scheme]}`);
  if (operation['x-idempotency'] === 'required') lines.push('-H "Idempotency-Key: $(date +%s)-$RANDOM"');
  const content = resolve(root, operation.requestBody)?.content ?? {};
  return listExamples(content).map(([mediaType, name, example]) => {
    const { value, summary } = resolve(root, example);
    const usual = value === undefined ? 'get' : 'post';
    const command = `curl${method === usual ? '' : ` -X ${method.toUpperCase()}`}`;
    const isSigned = scheme === 'signature';
    const body = isSigned ? ["-H 'Content-Type: application/json'", '-d "$BODY"'] : bodyLines(mediaType, value);
    const call = [`${command} ${quoted(url(root, path, parameters, name))}`, ...lines, ...body].join(' \\\n  ');
    const source = isSigned ? [...signing(value), call].join('\n') : call;
    return { lang: 'Shell', label: summary ?? name, source };
  });
}
