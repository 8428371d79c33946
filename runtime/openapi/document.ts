// Reads the bundled OpenAPI document once, and turns what it declares into policy.
import { readFileSync } from 'node:fs';
import type { ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { OpenAPIBackend } from 'openapi-backend';
import type { OpenAPIV3_1 } from 'openapi-types';
import { isAddressRange } from '../http/client-address.ts';
import { type DeprecatedUse, readDeprecatedUses } from './deprecation.ts';
import { readTimes, refineLengths, strictFormats, withoutSessionId } from './formats.ts';
import { PreparedBody } from './prepared-body.ts';

/** One way to open an operation: a kind of credential and the scopes it must hold. */
interface Requirement {
  scheme: 'apiKey' | 'oauth' | 'session' | 'signature';
  scopes: readonly string[];
}

/** What a query parameter can be beside text. */
export type ParameterType = 'integer' | 'boolean';

/** An operation of the document with everything that the server does because the document says so. */
export interface Operation {
  id: string;
  method: string;
  /** The path template, e.g. /v1/leads/{id}. */
  path: string;
  /** What a call reads that only reads: the one thing that its path ends with the id of, or more; undefined: it may write. */
  reads: 'one' | 'many' | undefined;
  /** Alternatives; empty for public operations. */
  requirements: readonly Requirement[];
  /** The query parameter that makes a call need its credential, where it is for anybody without; undefined for all other operations. */
  credentialWith: string | undefined;
  /** A signature of the body tells who sent it. */
  signed: boolean;
  idempotency: 'none' | 'honoured' | 'required';
  /** Runs under the platform role, which looks across tenants, instead of in a tenant's transaction. */
  platform: boolean;
  /** Refused for test keys: it changes configuration that both modes share. */
  liveOnly: boolean;
  /** Open to a person whose password was generated for them and who has not changed it yet. */
  beforePasswordChange: boolean;
  /** Refused for all but test keys: it is about test data alone. */
  testOnly: boolean;
  /** Name of the per-IP policy of a public operation. */
  publicLimit: string | undefined;
  /** Calls per minute that a key may make here, where that is less than the key's own limit. */
  keyLimit: number | undefined;
  cacheControl: string | undefined;
  /** Pages of other sites may read the answer: it is the same for everybody. */
  readableAnywhere: boolean;
  /** The handler answers a bad body itself, so that every refusal looks and costs the same. */
  uniformRefusal: boolean;
  /** What the body may hold depends on the tenant too: the handler joins the document's problems with its own. */
  tenantFields: boolean;
  /** 422: every problem of the body is a 422, as for records. */
  validationStatus: 422 | undefined;
  /** MISSING_REQUIRED_FIELD and INVALID_FIELD_FORMAT are used when all problems are of that kind. */
  singleKindCodes: boolean;
  /** envelope: the usual answer; bare: the body as the handler gives it; file: a file to save; oauth: bare, and failures as RFC 6749 says. */
  answer: 'envelope' | 'bare' | 'oauth' | 'file';
  /** The answer shows a secret: what is kept of it for replays is encrypted. */
  secretAnswer: boolean;
  /** A password is hashed on the way: with an Idempotency-Key the call then holds a connection for that long. */
  hashesPassword: boolean;
  /** Answers without a subscription too, so that whoever has none can get one. */
  unpaid: boolean;
  /** Does what cannot be undone with its transaction, so that nothing may be left open when it begins. */
  actsOutside: boolean;
  /** False where there is nothing to validate or to fill in unless the caller sends a query. */
  takesParameters: boolean;
  takesBody: boolean;
  bodyRequired: boolean;
  /** The field of the one file of a multipart/form-data body; undefined where there is none. */
  upload: string | undefined;
  /** True where the body may be an array. */
  arrayBody: boolean;
  readonly validateParameters: ValidateFunction;
  readonly validateBody: ValidateFunction | undefined;
  queryParameters: readonly string[];
  /** Query parameters that are no text. */
  typedParameters: readonly { name: string; type: ParameterType }[];
  /** Headers that handlers read: those declared, except the one that the runtime itself follows. */
  headerParameters: readonly string[];
  deprecatedUses: readonly DeprecatedUse[];
}

export interface Document {
  json: OpenAPIV3_1.Document;
  /** The document as it is served. */
  body: PreparedBody;
  operations: readonly Operation[];
}

/** Extensions with values of their own, and those that only other readers of the document follow. */
const otherExtensions = [
  'x-public-limit',
  'x-key-limit',
  'x-cache-control',
  'x-credential-with',
  'x-deprecated-use',
  'x-mcp',
  'x-codeSamples',
];

const methods = ['get', 'post', 'put', 'patch', 'delete'] as const;

const allowedValues: Record<string, readonly unknown[]> = {
  'x-idempotency': ['required', 'honoured'],
  'x-platform': [true],
  'x-readable-anywhere': [true],
  'x-live-only': [true],
  'x-only-reads': [true],
  'x-test-only': [true],
  'x-uniform-refusal': [true],
  'x-tenant-fields': [true],
  'x-validation-status': [422],
  'x-single-kind-codes': [true],
  'x-answer': ['bare', 'oauth', 'file'],
  'x-secret-answer': [true],
  'x-hashes-password': [true],
  'x-acts-outside': [true],
  'x-unpaid': [true],
  'x-before-password-change': [true],
};

/**
 * Loads the document.
 * @param publicLimits names of the per-IP policies that the server knows
 * @param site the web app, where links about deprecated forms lead
 * @throws Error naming the operation and the value, when the document declares something that the server does not know
 */
export async function loadDocument(file: URL, publicLimits: readonly string[], site: string): Promise<Document> {
  const text = readFileSync(file, 'utf8');
  const json = JSON.parse(text) as OpenAPIV3_1.Document;
  const ajv = newAjv();
  const definition = requestsOf(JSON.parse(text));
  joinDefaults(definition, definition);
  const backend = new OpenAPIBackend({
    definition,
    quick: true,
    strict: true,
    // One shared instance: the library would otherwise make two per operation, without formats.
    customizeAjv: () => ajv as never,
  });
  await backend.init();
  // The library makes this list anew whenever it is asked for one of them.
  const resolved = new Map(backend.router.getOperations().map((each) => [each.operationId, each]));
  const operations: Operation[] = [];
  for (const [path, item] of Object.entries(json.paths ?? {})) {
    for (const method of methods) {
      const declared = item?.[method] as (OpenAPIV3_1.OperationObject & Record<string, unknown>) | undefined;
      if (!declared) continue;
      const definition = resolved.get(declared.operationId);
      operations.push(readOperation(path, method, declared, { backend, definition }, publicLimits, site));
    }
  }
  return { json, body: new PreparedBody(text), operations };
}

/** What requests are held against: without answers, which are most of a document, and are resolved by the library as well. */
function requestsOf(json: OpenAPIV3_1.Document): OpenAPIV3_1.Document {
  for (const item of Object.values(json.paths ?? {}))
    for (const method of methods) delete (item?.[method] as { responses?: object } | undefined)?.responses;
  delete json.components?.responses;
  return json;
}

/** The library drops what stands beside a reference, and a default there is one: such a schema is put in the reference's place. */
function joinDefaults(node: unknown, definition: object): void {
  if (node === null || typeof node !== 'object') return;
  for (const [name, inner] of Object.entries(node)) {
    if (typeof inner?.$ref !== 'string' || inner.default === undefined) {
      joinDefaults(inner, definition);
      continue;
    }
    const { $ref, ...beside } = inner;
    (node as Record<string, unknown>)[name] = { ...structuredClone(referred($ref, definition)), ...beside };
  }
}

/** What a reference into the definition stands for; the bundled document has no others. */
function referred(reference: string, definition: object): object {
  const parts = reference.slice(2).split('/');
  return parts.reduce<object>((node, part) => (node as Record<string, object>)[part] ?? {}, definition);
}

function newAjv(): Ajv2020 {
  const ajv = new Ajv2020({
    strict: false,
    allErrors: true,
    useDefaults: true,
    verbose: true,
    // The schemas are the document's, which make check has held against its rules; to compile the meta schema is half of a first request.
    validateSchema: false,
  });
  (addFormats as unknown as (ajv: Ajv2020) => void)(ajv);
  for (const [name, format] of Object.entries(strictFormats)) ajv.addFormat(name, format);
  readTimes(ajv);
  refineLengths(ajv);
  ajv.addFormat('ip-range', isAddressRange);
  const { uri } = ajv.formats;
  ajv.addFormat('checkout-return-uri', (text: string) => typeof uri === 'function' && uri(withoutSessionId(text)));
  // Standard vocabulary only describes these; here a request that sends such a field is told so.
  ajv.removeKeyword('readOnly');
  for (const keyword of ['readOnly', 'x-immutable'])
    ajv.addKeyword({ keyword, validate: (refused: boolean) => !refused, errors: false });
  return ajv;
}

function readsOf(method: string, path: string, onlyReads: boolean): Operation['reads'] {
  if (method !== 'get') return onlyReads ? 'many' : undefined;
  return path.endsWith('}') ? 'one' : 'many';
}

function readOperation(
  path: string,
  method: string,
  declared: OpenAPIV3_1.OperationObject & Record<string, unknown>,
  { backend, definition }: { backend: OpenAPIBackend; definition: ReturnType<typeof backend.router.getOperation> },
  publicLimits: readonly string[],
  site: string,
): Operation {
  const id = declared.operationId;
  if (!id) throw new Error(`${method} ${path} has no operationId`);
  for (const [extension, value] of Object.entries(declared)) {
    if (!extension.startsWith('x-') || otherExtensions.includes(extension)) continue;
    const values = allowedValues[extension];
    if (!values) throw new Error(`${id}: unknown extension ${extension}`);
    if (!values.includes(value))
      throw new Error(`${id}: ${extension} must be one of ${values.join(', ')}; it is ${String(value)}`);
  }
  const publicLimit = declared['x-public-limit'] as string | undefined;
  if (publicLimit !== undefined && !publicLimits.includes(publicLimit))
    throw new Error(`${id}: unknown x-public-limit ${publicLimit}`);
  const requirements = (declared.security ?? []).flatMap((alternative) =>
    Object.entries(alternative).map(([scheme, scopes]) => {
      if (scheme !== 'apiKey' && scheme !== 'oauth' && scheme !== 'session' && scheme !== 'signature')
        throw new Error(`${id}: unknown security scheme ${scheme}`);
      return { scheme, scopes } satisfies Requirement;
    }),
  );
  const isOptional = declared.security?.some((alternative) => Object.keys(alternative).length === 0) === true;
  const credentialWith = declared['x-credential-with'] as string | undefined;
  if (isOptional !== (credentialWith !== undefined))
    throw new Error(`${id}: an optional credential needs x-credential-with, and nothing else does`);
  if ((requirements.length === 0 || isOptional) !== (publicLimit !== undefined))
    throw new Error(`${id}: public operations have an x-public-limit, and no others`);
  if (declared['x-only-reads'] && declared['x-idempotency'])
    throw new Error(`${id}: x-only-reads cannot be combined with x-idempotency`);
  const keyLimit = declared['x-key-limit'] as number | undefined;
  if (keyLimit !== undefined && !(Number.isInteger(keyLimit) && keyLimit > 0))
    throw new Error(`${id}: x-key-limit must be a whole number of calls per minute; it is ${String(keyLimit)}`);
  // Compiled when the operation is first called: compiling all of them is half of the start, and a fifth of the memory.
  const validators = () => backend.validator.getRequestValidatorsForOperation(id) as ValidateFunction[];
  // As the library resolved it: the document itself may hold a reference here.
  const requestBody = definition?.requestBody as OpenAPIV3_1.RequestBodyObject | undefined;
  const hasJson = requestBody?.content['application/json'] !== undefined;
  const parameters = (definition?.parameters ?? []) as OpenAPIV3_1.ParameterObject[];
  return {
    id,
    method: method.toUpperCase(),
    path,
    reads: readsOf(method, path, declared['x-only-reads'] === true),
    requirements,
    credentialWith,
    signed: requirements.some(({ scheme }) => scheme === 'signature'),
    idempotency: (declared['x-idempotency'] as 'honoured' | 'required' | undefined) ?? 'none',
    platform: declared['x-platform'] === true,
    liveOnly: declared['x-live-only'] === true,
    testOnly: declared['x-test-only'] === true,
    beforePasswordChange: declared['x-before-password-change'] === true,
    publicLimit,
    keyLimit,
    cacheControl: declared['x-cache-control'] as string | undefined,
    readableAnywhere: declared['x-readable-anywhere'] === true,
    uniformRefusal: declared['x-uniform-refusal'] === true,
    tenantFields: declared['x-tenant-fields'] === true,
    validationStatus: declared['x-validation-status'] as 422 | undefined,
    singleKindCodes: declared['x-single-kind-codes'] === true,
    answer: (declared['x-answer'] as 'bare' | 'oauth' | 'file' | undefined) ?? 'envelope',
    secretAnswer: declared['x-secret-answer'] === true,
    hashesPassword: declared['x-hashes-password'] === true,
    actsOutside: declared['x-acts-outside'] === true,
    unpaid: declared['x-unpaid'] === true,
    takesParameters: parameters.length > 0,
    takesBody: hasJson,
    bodyRequired: requestBody?.required === true,
    upload: named(id, () => uploadField(requestBody)),
    arrayBody: takesArray(requestBody),
    get validateParameters() {
      return validators().at(-1) as ValidateFunction;
    },
    get validateBody() {
      return hasJson ? validators()[0] : undefined;
    },
    queryParameters: namesOf(parameters, 'query'),
    typedParameters: named(id, () => typedParameters(parameters)),
    headerParameters: namesOf(parameters, 'header').filter((name) => name !== 'Idempotency-Key'),
    deprecatedUses: named(id, () => readDeprecatedUses(declared['x-deprecated-use'], parameters, requestBody, site)),
  };
}

function namesOf(parameters: readonly OpenAPIV3_1.ParameterObject[], where: 'query' | 'header'): string[] {
  return parameters.filter((parameter) => parameter.in === where).map((parameter) => parameter.name);
}

/** @throws Error for a type that query parameters cannot have */
function typedParameters(parameters: readonly OpenAPIV3_1.ParameterObject[]): { name: string; type: ParameterType }[] {
  return parameters
    .filter((parameter) => parameter.in === 'query')
    .flatMap(({ name, schema }) => {
      const { type } = schema as OpenAPIV3_1.SchemaObject;
      if (type === 'string') return [];
      if (type !== 'integer' && type !== 'boolean')
        throw new Error(`the query parameter ${name} must be a string, an integer or a boolean`);
      return [{ name, type }];
    });
}

/** Runs, and names the operation in what goes wrong. */
function named<T>(id: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new Error(`${id}: ${(error as Error).message}`);
  }
}

/** @throws Error for a form that is not one file */
function uploadField(body: OpenAPIV3_1.RequestBodyObject | undefined): string | undefined {
  const schema = body?.content['multipart/form-data']?.schema as OpenAPIV3_1.SchemaObject | undefined;
  if (!schema) return undefined;
  const [field, ...others] = Object.keys(schema.properties ?? {});
  if (field === undefined || others.length > 0)
    throw new Error('a multipart/form-data body has one property, the file');
  return field;
}

function takesArray(body: OpenAPIV3_1.RequestBodyObject | undefined): boolean {
  const schema = body?.content['application/json']?.schema as OpenAPIV3_1.SchemaObject | undefined;
  const shapes = [schema, ...(schema?.anyOf ?? []), ...(schema?.oneOf ?? [])] as (
    | OpenAPIV3_1.SchemaObject
    | undefined
  )[];
  return shapes.some((shape) => shape?.type === 'array');
}
