// Reads the bundled OpenAPI document, and derives each operation's policies from it.
import { readFileSync } from 'node:fs';
import type { ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { OpenAPIBackend } from 'openapi-backend';
import type { OpenAPIV3_1 } from 'openapi-types';
import { uploadLimits } from '../../domain/service/request-limits.ts';
import { isAddressRange } from '../http/client-address.ts';
import { type DeprecatedUse, readDeprecatedUses } from './deprecation.ts';
import { type FilterMembers, findFilterMembers } from './filter-members.ts';
import { readTimes, refineLengths, replaceSessionId, strictFormats } from './formats.ts';
import { PreparedBody } from './prepared-body.ts';

/** One way to authorize an operation: a kind of credential and the scopes that it needs. */
interface Requirement {
  scheme: 'apiKey' | 'oauth' | 'session' | 'signature';
  scopes: readonly string[];
}

/** Types of query parameters other than string. */
export type ParameterType = 'integer' | 'boolean';

/** An operation, with all policies that the OpenAPI document declares. */
export interface Operation {
  id: string;
  summary: string;
  method: string;
  /** The path template, e.g. /v1/leads/{id}. */
  path: string;
  /**
   * For read-only operations: `one` if the path ends with the id of the only thing read, otherwise
   * `many`; undefined if the operation may write.
   */
  reads: 'one' | 'many' | undefined;
  /** Alternatives; empty for public operations. */
  requirements: readonly Requirement[];
  /**
   * The query parameter that makes an otherwise public call need its credential; undefined for all
   * other operations.
   */
  credentialWith: string | undefined;
  /** The query parameter that names the mode of a session token, which has none of its own. */
  modeWith: string | undefined;
  /** Callers can authenticate with a signature of the body. */
  signed: boolean;
  idempotency: 'none' | 'honoured' | 'required';
  /** Runs under the platform role, which sees all tenants, instead of in a tenant's transaction. */
  platform: boolean;
  /** Rejects test keys, because it changes configuration that both modes share. */
  liveOnly: boolean;
  /** Allowed while a user still has a generated password. */
  beforePasswordChange: boolean;
  /** Accepts only test keys, because it concerns test data only. */
  testOnly: boolean;
  /** Requires a credential that sees the whole workspace. */
  companyReach: boolean;
  /** Name of the per-IP policy of a public operation. */
  publicLimit: string | undefined;
  /** Calls per minute per key, if lower than the key's own limit. */
  keyLimit: number | undefined;
  /** Calls per minute of all live credentials of a workspace together. */
  workspaceLimit: number | undefined;
  cacheControl: string | undefined;
  /** Pages of any site may read the response, which is the same for every caller. */
  readableAnywhere: boolean;
  /** The handler rejects an invalid body itself, so that all rejections look and cost the same. */
  uniformRefusal: boolean;
  /**
   * The body also depends on the tenant's configuration: the handler adds its problems to those of
   * the OpenAPI document.
   */
  tenantFields: boolean;
  /** 422: all problems of the body are reported as 422, as for records. */
  validationStatus: 422 | undefined;
  /** Uses MISSING_REQUIRED_FIELD and INVALID_FIELD_FORMAT if all problems are of that kind. */
  singleKindCodes: boolean;
  /**
   * envelope: the usual format; bare: the handler's body; file: a file download; oauth: bare, with
   * errors as in RFC 6749.
   */
  answer: 'envelope' | 'bare' | 'oauth' | 'file';
  /** The response contains a secret, so the stored response is encrypted. */
  secretAnswer: boolean;
  /**
   * The handler hashes a password. With an Idempotency-Key the call holds a connection meanwhile.
   */
  hashesPassword: boolean;
  /** The body has a password or a similar secret, so it is never stored. */
  hasSecretBody: boolean;
  /** Available without a subscription, so that a workspace can subscribe. */
  unpaid: boolean;
  /** Has effects that its transaction cannot roll back, so the preconditions are verified first. */
  actsOutside: boolean;
  /** True if it lives at the real time also in test mode, whose clock may be ahead. */
  usesRealTime: boolean;
  /** Accepts `Dry-Run: true`. */
  dryRun: boolean;
  /** The body can ask for a dry run, with `dry_run`. */
  takesDryRun: boolean;
  /** Writes only proposals, so credentials that may only propose can call it. */
  proposes: boolean;
  /** False if there is nothing to validate or default without a query. */
  takesParameters: boolean;
  takesBody: boolean;
  bodyRequired: boolean;
  /** The file field of a multipart/form-data body; undefined if the body has another type. */
  upload: string | undefined;
  /**
   * The field of the form that has the JSON body; undefined if the form is only the file. An
   * operation with such a form also accepts the JSON body alone.
   */
  uploadJson: string | undefined;
  /** The most bytes that an uploaded file may have. */
  uploadBytes: number;
  /** Media types with which the body may be the file itself instead of a form. */
  rawTypes: readonly string[];
  /** True if the body may be an array. */
  arrayBody: boolean;
  /** The members of the JSON body that are filters; undefined if there are none. */
  filters: FilterMembers | undefined;
  readonly validateParameters: ValidateFunction;
  readonly validateBody: ValidateFunction | undefined;
  queryParameters: readonly string[];
  /** The objects that the path accepts. Undefined if it accepts any, or contains none. */
  objects: readonly string[] | undefined;
  /** Query parameters that are not strings. */
  typedParameters: readonly { name: string; type: ParameterType }[];
  /**
   * Declared headers that handlers read, without Idempotency-Key and Dry-Run, which the runtime
   * handles.
   */
  headerParameters: readonly string[];
  deprecatedUses: readonly DeprecatedUse[];
}

export interface Document {
  json: OpenAPIV3_1.Document;
  /** The document as it is served. */
  body: PreparedBody;
  operations: readonly Operation[];
}

/** Extensions with free values, and those that only other tools read. */
const otherExtensions = [
  'x-public-limit',
  'x-key-limit',
  'x-workspace-limit',
  'x-cache-control',
  'x-credential-with',
  'x-deprecated-use',
  'x-mcp',
  'x-upload-bytes',
  'x-codeSamples',
];

/** Media types of bodies that are more than a file. */
const parsedTypes = ['application/json', 'multipart/form-data', 'application/x-www-form-urlencoded'];

const methods = ['get', 'post', 'put', 'patch', 'delete'] as const;

const allowedValues: Record<string, readonly unknown[]> = {
  'x-idempotency': ['required', 'honoured'],
  'x-platform': [true],
  'x-readable-anywhere': [true],
  'x-mode-with': ['environment'],
  'x-live-only': [true],
  'x-only-reads': [true],
  'x-test-only': [true],
  'x-company-reach': [true],
  'x-uniform-refusal': [true],
  'x-tenant-fields': [true],
  'x-validation-status': [422],
  'x-single-kind-codes': [true],
  'x-answer': ['bare', 'oauth', 'file'],
  'x-secret-answer': [true],
  'x-hashes-password': [true],
  'x-acts-outside': [true],
  'x-real-time': [true],
  'x-dry-run': [true],
  'x-proposes': [true],
  'x-unpaid': [true],
  'x-before-password-change': [true],
};

/**
 * Loads the document.
 * @param publicLimits names of the per-IP policies that the server knows
 * @param site base URL of the web app, for links about deprecated forms
 * @throws Error with the operation and the value if the document declares something unknown
 */
export async function loadDocument(file: URL, publicLimits: readonly string[], site: string): Promise<Document> {
  const text = readFileSync(file, 'utf8');
  const json = JSON.parse(text) as OpenAPIV3_1.Document;
  const ajv = newAjv();
  const definition = withoutResponses(JSON.parse(text));
  joinDefaults(definition, definition);
  const backend = new OpenAPIBackend({
    definition,
    quick: true,
    strict: true,
    // One shared instance: the library would otherwise create two per operation, without formats.
    customizeAjv: () => ajv as never,
  });
  await backend.init();
  // The library builds this list for each look-up, so the result is kept.
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

/**
 * Removes the responses, which requests are not validated against. They are most of the document,
 * and the library would resolve them too.
 */
function withoutResponses(json: OpenAPIV3_1.Document): OpenAPIV3_1.Document {
  for (const item of Object.values(json.paths ?? {}))
    for (const method of methods) delete (item?.[method] as { responses?: object } | undefined)?.responses;
  delete json.components?.responses;
  return json;
}

/**
 * The library ignores siblings of a $ref, including defaults. Replaces such references with a copy
 * of the schema.
 */
function joinDefaults(node: unknown, definition: object): void {
  if (node === null || typeof node !== 'object') return;
  for (const [name, inner] of Object.entries(node)) {
    if (typeof inner?.$ref !== 'string' || inner.default === undefined) {
      joinDefaults(inner, definition);
      continue;
    }
    const { $ref, ...siblings } = inner;
    (node as Record<string, unknown>)[name] = { ...structuredClone(resolveReference($ref, definition)), ...siblings };
  }
}

/** Resolves a local reference. The bundled document has no others. */
function resolveReference(reference: string, definition: object): object {
  const parts = reference.slice(2).split('/');
  return parts.reduce<object>((node, part) => (node as Record<string, object>)[part] ?? {}, definition);
}

function newAjv(): Ajv2020 {
  const ajv = new Ajv2020({
    strict: false,
    allErrors: true,
    useDefaults: true,
    verbose: true,
    // make check has validated the schemas. Compiling the meta schema would take half of the first
    // request.
    validateSchema: false,
  });
  (addFormats as unknown as (ajv: Ajv2020) => void)(ajv);
  for (const [name, format] of Object.entries(strictFormats)) ajv.addFormat(name, format);
  readTimes(ajv);
  refineLengths(ajv);
  ajv.addFormat('ip-range', isAddressRange);
  const { uri } = ajv.formats;
  ajv.addFormat('checkout-return-uri', (text: string) => typeof uri === 'function' && uri(replaceSessionId(text)));
  // In standard JSON Schema these are annotations. Here a request with such a field is rejected.
  ajv.removeKeyword('readOnly');
  for (const keyword of ['readOnly', 'x-immutable'])
    ajv.addKeyword({ keyword, validate: (refused: boolean) => !refused, errors: false });
  return ajv;
}

function readAccess(method: string, path: string, onlyReads: boolean): Operation['reads'] {
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
  if (declared['x-dry-run'] && (declared['x-acts-outside'] || readAccess(method, path, false)))
    throw new Error(`${id}: x-dry-run is for writes that act only in their transaction`);
  const keyLimit = declared['x-key-limit'] as number | undefined;
  const workspaceLimit = declared['x-workspace-limit'] as number | undefined;
  for (const [name, limit] of Object.entries({ 'x-key-limit': keyLimit, 'x-workspace-limit': workspaceLimit }))
    if (limit !== undefined && !(Number.isInteger(limit) && limit > 0))
      throw new Error(`${id}: ${name} must be a whole number of calls per minute; it is ${String(limit)}`);
  // Compiled on the first call of the operation: compiling all takes half of the start and a fifth
  // of the memory.
  const validators = () => backend.validator.getRequestValidatorsForOperation(id) as ValidateFunction[];
  // From the library, because the document may have a reference here.
  const requestBody = definition?.requestBody as OpenAPIV3_1.RequestBodyObject | undefined;
  const hasJson = requestBody?.content['application/json'] !== undefined;
  const form = withOperationId(id, () => readForm(requestBody));
  const parameters = (definition?.parameters ?? []) as OpenAPIV3_1.ParameterObject[];
  return {
    id,
    summary: declared.summary ?? id,
    method: method.toUpperCase(),
    path,
    reads: readAccess(method, path, declared['x-only-reads'] === true),
    requirements,
    credentialWith,
    modeWith: declared['x-mode-with'] as string | undefined,
    signed: requirements.some(({ scheme }) => scheme === 'signature'),
    idempotency: (declared['x-idempotency'] as 'honoured' | 'required' | undefined) ?? 'none',
    platform: declared['x-platform'] === true,
    liveOnly: declared['x-live-only'] === true,
    testOnly: declared['x-test-only'] === true,
    companyReach: declared['x-company-reach'] === true,
    beforePasswordChange: declared['x-before-password-change'] === true,
    publicLimit,
    keyLimit,
    workspaceLimit,
    cacheControl: declared['x-cache-control'] as string | undefined,
    readableAnywhere: declared['x-readable-anywhere'] === true,
    uniformRefusal: declared['x-uniform-refusal'] === true,
    tenantFields: declared['x-tenant-fields'] === true,
    validationStatus: declared['x-validation-status'] as 422 | undefined,
    singleKindCodes: declared['x-single-kind-codes'] === true,
    answer: (declared['x-answer'] as 'bare' | 'oauth' | 'file' | undefined) ?? 'envelope',
    secretAnswer: declared['x-secret-answer'] === true,
    hashesPassword: declared['x-hashes-password'] === true,
    hasSecretBody:
      declared['x-secret-answer'] === true || declared['x-answer'] === 'oauth' || hasPassword(requestBody?.content),
    actsOutside: declared['x-acts-outside'] === true,
    usesRealTime: declared['x-real-time'] === true,
    dryRun: declared['x-dry-run'] === true,
    takesDryRun: hasMember(requestBody, 'dry_run'),
    proposes: declared['x-proposes'] === true,
    unpaid: declared['x-unpaid'] === true,
    takesParameters: parameters.length > 0,
    takesBody: hasJson,
    bodyRequired: requestBody?.required === true,
    upload: form?.file,
    uploadJson: form?.json,
    uploadBytes: (declared['x-upload-bytes'] as number | undefined) ?? uploadLimits.bytes,
    rawTypes: Object.keys(requestBody?.content ?? {}).filter((type) => !parsedTypes.includes(type)),
    arrayBody: takesArray(requestBody),
    filters: findFilterMembers(requestBody),
    get validateParameters() {
      return validators().at(-1) as ValidateFunction;
    },
    get validateBody() {
      return hasJson ? validators()[0] : undefined;
    },
    queryParameters: listNames(parameters, 'query'),
    objects: findObjects(parameters),
    typedParameters: withOperationId(id, () => typedParameters(parameters)),
    headerParameters: listNames(parameters, 'header').filter(
      (name) => name !== 'Idempotency-Key' && name !== 'Dry-Run',
    ),
    deprecatedUses: withOperationId(id, () =>
      readDeprecatedUses(declared['x-deprecated-use'], parameters, requestBody, site),
    ),
  };
}

/** Returns true if the JSON body is an object that declares a member. */
function hasMember(body: OpenAPIV3_1.RequestBodyObject | undefined, name: string): boolean {
  const schema = body?.content['application/json']?.schema as OpenAPIV3_1.SchemaObject | undefined;
  return schema?.properties?.[name] !== undefined;
}

/** Returns true if a schema has a password anywhere. */
function hasPassword(schema: unknown, seen = new Set<unknown>()): boolean {
  if (schema === null || typeof schema !== 'object' || seen.has(schema)) return false;
  seen.add(schema);
  if ((schema as { format?: unknown }).format === 'password') return true;
  return Object.values(schema).some((inner) => hasPassword(inner, seen));
}

function listNames(parameters: readonly OpenAPIV3_1.ParameterObject[], where: 'query' | 'header'): string[] {
  return parameters.filter((parameter) => parameter.in === where).map((parameter) => parameter.name);
}

function findObjects(parameters: readonly OpenAPIV3_1.ParameterObject[]): string[] | undefined {
  const object = parameters.find((parameter) => parameter.in === 'path' && parameter.name === 'object');
  return (object?.schema as OpenAPIV3_1.SchemaObject | undefined)?.enum;
}

/** @throws Error if a query parameter has an unsupported type */
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

/** Adds the operation's id to errors. */
function withOperationId<T>(id: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new Error(`${id}: ${(error as Error).message}`);
  }
}

/**
 * Returns the fields of a form: its file, and the JSON body that comes with it.
 * @throws Error if the form has other fields
 */
function readForm(body: OpenAPIV3_1.RequestBodyObject | undefined): { file: string; json?: string } | undefined {
  const { 'multipart/form-data': form, 'application/json': json } = body?.content ?? {};
  const schema = form?.schema as OpenAPIV3_1.SchemaObject | undefined;
  if (!schema) return undefined;
  const fields = Object.entries(schema.properties ?? {}) as [string, OpenAPIV3_1.SchemaObject][];
  const [file, ...otherFiles] = fields.filter(([, { format }]) => format === 'binary');
  const [part, ...otherParts] = fields.filter(([, { format }]) => format !== 'binary');
  if (!file || otherFiles.length + otherParts.length > 0 || (part === undefined) !== (json === undefined))
    throw new Error('a form has one file, and the JSON body if the operation also accepts it alone');
  return { file: file[0], ...(part ? { json: part[0] } : {}) };
}

function takesArray(body: OpenAPIV3_1.RequestBodyObject | undefined): boolean {
  const schema = body?.content['application/json']?.schema as OpenAPIV3_1.SchemaObject | undefined;
  const shapes = [schema, ...(schema?.anyOf ?? []), ...(schema?.oneOf ?? [])] as (
    | OpenAPIV3_1.SchemaObject
    | undefined
  )[];
  return shapes.some((shape) => shape?.type === 'array');
}
