// The OpenAPI document of a workspace: operations on the records of each object, with its fields.
import type { components } from '../../generated/api.ts';
import { mostTagNames } from '../service/request-limits.ts';
import type { Field, WorkspaceObject } from './workspace.ts';

type Json = Record<string, unknown>;

const methods = ['get', 'post', 'patch', 'delete'] as const;
type Method = (typeof methods)[number];

/** The bundled document, with schemas and tags. */
type ApiDocument = components['schemas']['OpenapiDocument'] & {
  paths: Record<string, { parameters?: readonly object[] } & { [method in Method]?: Json }>;
  components: Json & { schemas: Record<string, Json> };
  tags: readonly { name: string }[];
};

/** The path of the operations for any object. */
const generic = '/v1/objects/{object}/records';
/** Schemas that differ between objects, with the function that builds the schema of one object. */
const own: Readonly<Record<string, (object: WorkspaceObject, generic: Json) => Json>> = {
  RecordObjectName: ({ object }) => ({ type: 'string', const: object }),
  CrmRecord: ({ label, fields }, record) => ({
    ...record,
    description: `${label}: with the query parameter \`fields\`, only the named fields.`,
    properties: { ...mapped([...fields.values()], toFieldResponse), ...(record.properties as Json) },
  }),
  RecordCreate: ({ label, fields, tags }) => ({
    type: 'object',
    description: label,
    required: [...fields.values()].filter(isNeeded).map(({ name }) => name),
    additionalProperties: false,
    properties: { ...mapped([...fields.values()].filter(isWritable), writtenField), ...writtenTags(tags) },
  }),
  RecordPatch: ({ label, fields, tags }) => ({
    type: 'object',
    description: `Changes to ${label}.`,
    minProperties: 1,
    additionalProperties: false,
    properties: { ...mapped([...fields.values()].filter(isChangeable), writtenField), ...writtenTags(tags) },
  }),
  RecordUpsertFields: ({ label, fields, tags }) => ({
    type: 'object',
    description: label,
    additionalProperties: false,
    properties: { ...mapped([...fields.values()].filter(isWritable), writtenField), ...writtenTags(tags) },
  }),
};

const isWritable = ({ readOnly }: Field): boolean => readOnly !== true;
const isChangeable = (field: Field): boolean => isWritable(field) && field.immutable !== true;
const isNeeded = (field: Field): boolean => isWritable(field) && field.required && field.default === undefined;

const mapped = (fields: readonly Field[], toSchema: (field: Field) => Json): Json =>
  Object.fromEntries(fields.map((field) => [field.name, toSchema(field)]));

/** Returns the JSON type of a value. */
function toJsonType({ type, integer }: Field): { type: string; format?: string } {
  switch (type) {
    case 'number':
      return { type: integer ? 'integer' : 'number' };
    case 'currency':
      return { type: 'integer' };
    case 'boolean':
      return { type: 'boolean' };
    case 'date':
      return { type: 'string', format: 'date' };
    case 'datetime':
      return { type: 'string', format: 'date-time' };
    case 'email':
      return { type: 'string', format: 'email' };
    case 'url':
      return { type: 'string', format: 'uri' };
    default:
      return { type: 'string' };
  }
}

/**
 * Returns the schema of a field in a response. Options are left out, because stored values may have
 * options that were removed.
 */
function toFieldResponse(field: Field): Json {
  const { type, ...format } = toJsonType(field);
  return { type: [type, 'null'], ...format, description: field.label };
}

/** Returns the schema of a field in a request, with its limits. */
function writtenField(field: Field): Json {
  const { type, ...format } = toJsonType(field);
  const options = field.options?.map(({ value }) => value) ?? [];
  const mayBeNull = !isNeeded(field);
  return {
    type: mayBeNull ? [type, 'null'] : type,
    ...format,
    description: field.label,
    ...(field.maxLength === undefined ? {} : { maxLength: field.maxLength }),
    ...(field.min === undefined ? {} : { minimum: field.min }),
    ...(field.max === undefined ? {} : { maximum: field.max }),
    ...(options.length === 0 ? {} : { enum: mayBeNull ? [...options, null] : options }),
  };
}

/** Returns the schema of tags in a request, for objects whose records have tags. */
function writtenTags(tags: WorkspaceObject['tags']): Json {
  if (!tags) return {};
  return { tags: { type: 'array', description: 'Names of tags', maxItems: mostTagNames, items: { type: 'string' } } };
}

/** `object:service-visits` becomes ObjectServiceVisits. */
const typeName = (object: string): string =>
  object
    .split(/[^a-zA-Z0-9]+/)
    .map((part) => part.slice(0, 1).toUpperCase() + part.slice(1))
    .join('');

const reference = '#/components/schemas/';
const referenceForm = /"#\/components\/schemas\/(\w+)"/g;

/** Returns the names of schemas that contain schemas of some names, at any depth. */
function findHolders(texts: ReadonlyMap<string, string>, names: Iterable<string>): ReadonlySet<string> {
  const holders = new Set(names);
  for (let before = 0; before < holders.size; ) {
    before = holders.size;
    for (const [name, text] of texts) if (refersTo(text, holders)) holders.add(name);
  }
  return holders;
}

const refersTo = (text: string, names: ReadonlySet<string>): boolean =>
  [...text.matchAll(referenceForm)].some(([, name = '']) => names.has(name));

const nameFor = (schema: string, type: string): string => `${type}${schema.replace(/^Crm/, '')}`;

/** A path of the document that is copied for each object. */
interface Template {
  path: string;
  parameters: readonly object[];
  operations: readonly { method: Method; operation: Json; rest: string }[];
}

/**
 * Returns the operations on records that depend on an object's fields. Their samples and examples
 * are left out, because those of other objects would be misleading.
 */
function buildTemplates(paths: ApiDocument['paths'], holders: ReadonlySet<string>): Template[] {
  return Object.entries(paths)
    .filter(([path]) => path === generic || path === `${generic}/{id}` || path.startsWith(`${generic}:`))
    .map(([path, item]) => ({
      path,
      parameters: (item.parameters ?? []).filter((each) => !JSON.stringify(each).includes('/RecordObject"')),
      operations: methods.flatMap((method) => {
        const operation = item[method];
        const rest = JSON.stringify(operation, (key, value) => (leftOut.has(key) ? undefined : value));
        return operation && refersTo(rest, holders) ? [{ method, operation, rest }] : [];
      }),
    }))
    .filter(({ operations }) => operations.length > 0);
}

const leftOut = new Set(['example', 'examples', 'x-codeSamples']);

/**
 * Adds the paths of each object of a workspace to the document, so that a generated client knows
 * their fields. The existing paths stay unchanged.
 * @param document the bundled document; its schemas and paths are reused, and not changed
 * @param objects those that the caller can view
 */
export function buildWorkspaceDocument(document: ApiDocument, objects: readonly WorkspaceObject[]): Json {
  const { paths, components, tags } = document;
  const { schemas } = components;
  const texts = new Map(Object.entries(schemas).map(([name, schema]) => [name, JSON.stringify(schema)]));
  const holders = findHolders(texts, Object.keys(own));
  const templates = buildTemplates(paths, holders);
  const added = { paths: {} as Json, schemas: {} as Json };
  for (const object of objects) {
    const type = typeName(object.object);
    const referring = (text: string): Json =>
      JSON.parse(
        text.replaceAll(referenceForm, (whole, name: string) =>
          holders.has(name) ? `"${reference}${nameFor(name, type)}"` : whole,
        ),
      );
    for (const name of holders)
      added.schemas[nameFor(name, type)] =
        own[name]?.(object, schemas[name] ?? {}) ?? referring(texts.get(name) ?? '{}');
    for (const { path, parameters, operations } of templates) {
      const ofObject = operations.map(({ method, operation: { operationId, summary }, rest }) => [
        method,
        {
          ...referring(rest),
          operationId: `${operationId}Of${type}`,
          summary: `${summary}: ${object.plural}`,
          tags: [object.plural],
        },
      ]);
      added.paths[path.replace('{object}', object.object)] = { parameters, ...Object.fromEntries(ofObject) };
    }
  }
  const known = new Set(tags.map(({ name }) => name));
  const further = [...new Set(objects.map(({ plural }) => plural))].filter((plural) => !known.has(plural));
  return {
    ...document,
    tags: [...tags, ...further.map((name) => ({ name, description: `Records of ${name}.` }))],
    paths: { ...paths, ...added.paths },
    components: { ...components, schemas: { ...schemas, ...added.schemas } },
  };
}
