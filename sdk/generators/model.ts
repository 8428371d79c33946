// Reads operations and structures from the OpenAPI document, for the generators of clients.
import type { OpenAPIV3_1 } from 'openapi-types';

type Declared = OpenAPIV3_1.OperationObject & { 'x-idempotency'?: string; 'x-dry-run'?: true };
type Schema = OpenAPIV3_1.SchemaObject;
type Node<Kind> = Kind | OpenAPIV3_1.ReferenceObject;

/**
 * The type of a value. `any` has no single type; `structure` names an entry of `Model.structures`.
 */
export type Type = { nullable: boolean } & (
  | { kind: 'string'; values?: readonly string[] }
  | { kind: 'integer' | 'number' | 'boolean' | 'any' }
  | { kind: 'list' | 'map'; of: Type }
  | { kind: 'structure'; name: string }
);

export interface Property {
  name: string;
  type: Type;
  isRequired: boolean;
  description: string;
}

/** A JSON object with known properties. */
export interface Structure {
  name: string;
  description: string;
  properties: readonly Property[];
  /** True if it has more properties than the known ones, like the custom fields of a record. */
  isOpen: boolean;
  /** True if it occurs in a request body, so that callers build it. */
  isSent: boolean;
}

interface Parameter {
  name: string;
  type: Type;
  isRequired: boolean;
  description: string;
}

export interface Operation {
  id: string;
  method: string;
  path: string;
  summary: string;
  description: string;
  isDeprecated: boolean;
  pathParameters: readonly Parameter[];
  queryParameters: readonly Parameter[];
  /** True if it accepts an Idempotency-Key. */
  takesKey: boolean;
  takesIfMatch: boolean;
  /** True if it accepts `Dry-Run: true`. */
  runsDry: boolean;
  /** `file` is a form with one file. */
  body?: { kind: 'json'; type: Type; isRequired: boolean } | { kind: 'file' };
  /**
   * The `data` of the response, or the whole response without an envelope. `file` is a download.
   */
  answer: Type | 'file';
  /** The array in the pages of a list, and the type of its items. */
  items?: { name: string; type: Type };
  /** True for an endless list, whose `next_cursor` is never null. */
  isEndless: boolean;
}

export interface Model {
  version: string;
  operations: readonly Operation[];
  /** By name, and only those that operations use. */
  structures: ReadonlyMap<string, Structure>;
}

const methods = ['get', 'post', 'put', 'patch', 'delete'] as const;

/**
 * @throws Error if the OpenAPI document has a form, a list or a response that the clients do not
 * support
 */
export function readModel(document: OpenAPIV3_1.Document): Model {
  const types = new Types(document);
  const operations = Object.entries(document.paths ?? {}).flatMap(([path, item = {}]) =>
    methods.flatMap((method) => {
      const declared = item[method] as Declared | undefined;
      if (!declared) return [];
      const parameters = [...(item.parameters ?? []), ...(declared.parameters ?? [])];
      return [readOperation(types, path, method, { ...declared, parameters })];
    }),
  );
  return { version: document.info.version, operations, structures: types.structures };
}

function readOperation(types: Types, path: string, method: string, declared: Declared): Operation {
  const id = declared.operationId ?? '';
  // A parameter of an operation overrides that of its path.
  const parameters = new Map(
    (declared.parameters ?? []).map((node) => {
      const parameter = types.resolve<OpenAPIV3_1.ParameterObject>(node);
      return [`${parameter.in} ${parameter.name}`, parameter];
    }),
  );
  const parametersIn = (place: string): Parameter[] =>
    [...parameters.values()]
      .filter((parameter) => parameter.in === place)
      .map(({ name, schema = {}, required = false, description = '' }) => ({
        name,
        type: types.read(schema as Node<Schema>, `${id}_${name}`),
        isRequired: required,
        description,
      }));
  const named = new Map(parametersIn('path').map((parameter) => [parameter.name, parameter]));
  const { content = {}, schema } = findSuccess(types, declared);
  const { success, data } = (schema && types.resolve<Schema>(schema).properties) ?? {};
  const isFile = Object.keys(content).length > 0 && !content['application/json'];
  const answer = isFile ? 'file' : types.read((success && data) ?? schema ?? {}, `${id}_answer`);
  const isList = parameters.has('query cursor');
  const items = isList ? findItems(types, id, answer) : undefined;
  return {
    id,
    method: method.toUpperCase(),
    path,
    summary: declared.summary ?? '',
    description: declared.description ?? '',
    isDeprecated: declared.deprecated ?? false,
    // In the order of the path.
    pathParameters: [...path.matchAll(/\{(\w+)\}/g)].flatMap(([, name = '']) => named.get(name) ?? []),
    queryParameters: parametersIn('query'),
    takesKey: declared['x-idempotency'] !== undefined,
    takesIfMatch: parameters.has('header If-Match'),
    runsDry: declared['x-dry-run'] === true,
    ...readBody(types, id, declared),
    answer,
    ...(items ? { items } : {}),
    isEndless: items !== undefined && isEndless(types, answer),
  };
}

function readBody(types: Types, id: string, declared: Declared): Pick<Operation, 'body'> {
  if (!declared.requestBody) return {};
  const { content, required: isRequired = false } = types.resolve<OpenAPIV3_1.RequestBodyObject>(declared.requestBody);
  const { 'application/json': json, 'multipart/form-data': form } = content;
  if (json?.schema) {
    const type = types.read(json.schema as Node<Schema>, `${id}_body`);
    types.markSent(type);
    return { body: { kind: 'json', type, isRequired } };
  }
  const fields = Object.keys(types.resolve<Schema>((form?.schema ?? {}) as Node<Schema>).properties ?? {});
  if (fields.join() !== 'file') throw new Error(`${id} takes a body that is neither JSON nor a form with one file`);
  return { body: { kind: 'file' } };
}

function findSuccess(types: Types, declared: Declared) {
  const [, node] = Object.entries(declared.responses ?? {}).find(([status]) => status.startsWith('2')) ?? [];
  const { content = {} } = node
    ? types.resolve<OpenAPIV3_1.ResponseObject>(node as Node<OpenAPIV3_1.ResponseObject>)
    : {};
  return { content, schema: content['application/json']?.schema as Node<Schema> | undefined };
}

/**
 * Finds the array of a page. Its name is the end of the operation's name: listDeals returns
 * `deals`.
 */
function findItems(types: Types, id: string, answer: Type | 'file'): Operation['items'] {
  const words = id.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  const found = listProperties(types, answer).find(({ name }) => words.endsWith(`_${name}`));
  if (found?.type.kind !== 'list') throw new Error(`${id} has a cursor, and no array of its name`);
  return { name: found.name, type: found.type.of };
}

function isEndless(types: Types, answer: Type | 'file'): boolean {
  return listProperties(types, answer).find(({ name }) => name === 'next_cursor')?.type.nullable === false;
}

function listProperties(types: Types, answer: Type | 'file'): readonly Property[] {
  return answer !== 'file' && answer.kind === 'structure' ? (types.structures.get(answer.name)?.properties ?? []) : [];
}

/** Reads schemas and collects their structures. */
class Types {
  readonly structures = new Map<string, Structure>();
  readonly #document: OpenAPIV3_1.Document;

  constructor(document: OpenAPIV3_1.Document) {
    this.#document = document;
  }

  resolve<Kind>(node: Node<Kind>): Kind {
    if (typeof node !== 'object' || node === null || !('$ref' in node)) return node as Kind;
    const parts = node.$ref.slice(2).split('/');
    const names = parts.map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
    return this.resolve(
      names.reduce<unknown>((at, name) => (at as Record<string, unknown>)[name], this.#document) as Node<Kind>,
    );
  }

  /** @param path the fallback name of a structure without a name, as words joined by underscores */
  read(node: Node<Schema>, path: string): Type {
    if ('$ref' in node) return this.read(this.resolve(node), node.$ref.split('/').at(-1) ?? path);
    const alternatives = (node.anyOf ?? node.oneOf) as Node<Schema>[] | undefined;
    if (alternatives && !node.properties) return this.#readAlternatives(alternatives, path);
    const [only, ...all] = (node.allOf ?? []) as Node<Schema>[];
    if (only && all.length === 0 && !node.properties) return this.read(only, path);
    const listed = Array.isArray(node.type) ? node.type : node.type ? [node.type] : [];
    const nullable = listed.includes('null');
    const [type, ...others] = listed.filter((each) => each !== 'null');
    if (others.length > 0) return { kind: 'any', nullable };
    if (node.properties) return { kind: 'structure', name: this.#addStructure(node, path), nullable };
    if (type === 'object') return { kind: 'map', of: this.#readAdditional(node, path), nullable };
    if (type === 'array')
      return { kind: 'list', of: this.read((node as { items?: Schema }).items ?? {}, `${path}_item`), nullable };
    const constant = (node as { const?: unknown }).const;
    if (type === 'string') {
      const values = (node.enum ?? (typeof constant === 'string' ? [constant] : undefined)) as string[] | undefined;
      return { kind: 'string', nullable, ...(values ? { values: values.filter((each) => each !== null) } : {}) };
    }
    return { kind: type === 'integer' || type === 'number' || type === 'boolean' ? type : 'any', nullable };
  }

  /** Marks the structures of a request body. */
  markSent(type: Type): void {
    if (type.kind === 'list' || type.kind === 'map') this.markSent(type.of);
    if (type.kind !== 'structure') return;
    const structure = this.structures.get(type.name);
    if (!structure || structure.isSent) return;
    structure.isSent = true;
    for (const property of structure.properties) this.markSent(property.type);
  }

  #readAlternatives(alternatives: readonly Node<Schema>[], path: string): Type {
    const rest = alternatives.filter((each) => this.resolve(each).type !== 'null');
    const [only, ...others] = rest;
    if (!only || others.length > 0) return { kind: 'any', nullable: rest.length < alternatives.length };
    const type = this.read(only, path);
    return { ...type, nullable: type.nullable || rest.length < alternatives.length };
  }

  #readAdditional({ additionalProperties }: Schema, path: string): Type {
    if (typeof additionalProperties !== 'object') return { kind: 'any', nullable: true };
    return this.read(additionalProperties as Node<Schema>, `${path}_value`);
  }

  #addStructure(schema: Schema, path: string): string {
    const name = toPascalCase(path);
    const { description = '', additionalProperties = true, required = [], properties = {} } = schema;
    if (this.structures.has(name)) return name;
    // Registered before its properties are read, because it may contain itself.
    const structure = {
      name,
      description,
      properties: [] as Property[],
      isOpen: additionalProperties !== false,
      isSent: false,
    };
    this.structures.set(name, structure);
    structure.properties = Object.entries(properties).map(([property, node]) => {
      const { description: text = '' } = this.resolve<Schema>(node as Node<Schema>);
      const type = this.read(node as Node<Schema>, `${path}_${property}`);
      return { name: property, type, isRequired: required.includes(property), description: text };
    });
    return name;
  }
}

/** `list_of items` → `ListOfItems`. */
export function toPascalCase(words: string): string {
  return words
    .split(/[^A-Za-z0-9]+/)
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join('');
}

export function toCamelCase(words: string): string {
  const name = toPascalCase(words);
  return name.charAt(0).toLowerCase() + name.slice(1);
}

export function toSnakeCase(words: string): string {
  return words.replace(/[A-Z]/g, (letter, at) => `${at > 0 ? '_' : ''}${letter.toLowerCase()}`);
}

/** Returns the documentation of an operation as lines. */
export function describeOperation({ summary, description, method, path, isDeprecated }: Operation): string[] {
  const lines = [`${summary}.`, '', ...description.trim().split('\n'), '', `${method} ${path}`];
  return [...lines, ...(isDeprecated ? ['', 'Deprecated.'] : [])].map((line) => line.trimEnd());
}
