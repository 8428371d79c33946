// Derives short JSON Schemas of tool arguments and results from the OpenAPI document.
import type { OpenAPIV3_1 } from 'openapi-types';
import { type Effect, listOperations, type OperationId, type Tool, tools } from './tools.ts';

interface JsonSchema {
  type?: string | readonly string[];
  description?: string;
  properties?: Record<string, JsonSchema>;
  [keyword: string]: unknown;
}

/** The root of an input schema. Clients do not accept alternatives here. */
interface ObjectSchema {
  type: 'object';
  properties: Record<string, JsonSchema>;
  required?: readonly string[];
  additionalProperties?: false;
}

/** The part of the request that an argument becomes. */
type Place = 'path' | 'query' | 'body' | 'whole_body' | 'idempotency_key' | 'own';

/** An operation, with the mapping of the tool's arguments to its request. */
export interface ToolOperation {
  id: OperationId;
  /** By argument name. */
  places: ReadonlyMap<string, Place>;
  required: readonly string[];
}

/** A tool with its schemas and operations from the OpenAPI document. */
export interface DescribedTool {
  tool: Tool;
  operations: ReadonlyMap<OperationId, ToolOperation>;
  /** The entry in tools/list. */
  listed: {
    name: string;
    title: string;
    description: string;
    inputSchema: ObjectSchema;
    outputSchema: ObjectSchema;
    annotations: Record<string, boolean>;
  };
}

/** The default number of items on a page. Models rarely read more. */
export const defaultPageSize = 10;

const annotations: Readonly<Record<Effect, Record<string, boolean>>> = {
  reads: { readOnlyHint: true, openWorldHint: false },
  adds: { readOnlyHint: false, destructiveHint: false, openWorldHint: false },
  overwrites: { readOnlyHint: false, destructiveHint: true, openWorldHint: false },
};

/** Arguments that the OpenAPI document lacks or describes in a different form. */
const ownArguments: Readonly<Record<string, JsonSchema>> = {
  object: {
    type: 'string',
    description: 'leads, deals, customers (people), accounts (companies), tasks or object:<name>.',
  },
  expand: {
    type: 'string',
    description:
      'Up to three fields whose related records are included, separated by commas; also tags, and links.<name>.',
  },
  filter: {
    type: 'object',
    description:
      '{"field", "op", "value"}, {"and": […]}, {"or": […]} or {"not": {…}}. op: eq, neq, gt, gte, lt, lte, between, contains, starts_with, ends_with, in, not_in, is_null. field can be tags (in, not_in, is_null) or of a related record: account.industry. {"link": "deals", "any" or "none": <filter>} is about several related records.',
  },
  fields: { type: 'string', description: 'Fields, separated by commas.' },
  limit: { type: 'integer', default: defaultPageSize },
  status: {
    type: 'string',
    description: 'confirmed, cancelled, rescheduled, completed, no_show.',
  },
  cursor: { type: 'string', description: 'next_cursor of the previous page.' },
  idempotency_key: { type: 'string', description: 'The same for each attempt.' },
  record: { type: 'object', description: 'Values by field name.' },
  // The OpenAPI document gives items no type, because an item that is not an object fails on its
  // own.
  records: {
    type: 'array',
    maxItems: 100,
    items: { type: 'object', description: 'Values of one record, by field name.' },
  },
};

/** Body fields that `ownArguments` describes better than the OpenAPI document. */
const ownBodyFields = ['limit', 'filter', 'records'];

/** The properties of every result besides the data. */
const everyResult: Readonly<Record<string, JsonSchema>> = {
  truncated: { type: 'boolean' },
  hint: { type: 'string' },
};

/**
 * Keywords that help a model to write a value. The other keywords only help to reject values, which
 * the operation does.
 */
const keptKeywords = ['type', 'enum', 'format', 'maximum', 'maxItems', 'items', 'properties', 'required', 'const'];

/** The maximum length of an argument's description, in characters. */
const maxDescriptionLength = 90;

type Schema = OpenAPIV3_1.SchemaObject & Record<string, unknown>;
type Referred<T> = T | OpenAPIV3_1.ReferenceObject;
interface Declared {
  path: string;
  operation: OpenAPIV3_1.OperationObject & Record<string, unknown>;
  parameters: OpenAPIV3_1.ParameterObject[];
  body: Schema | undefined;
}

/**
 * Describes all tools.
 * @throws Error that names the tool and the argument missing in the OpenAPI document
 */
export function describeTools(document: OpenAPIV3_1.Document): DescribedTool[] {
  const resolve = <T extends object>(node: Referred<T>): T =>
    '$ref' in node && typeof node.$ref === 'string'
      ? resolve(
          node.$ref
            .slice(2)
            .split('/')
            .reduce<never>((inner, part) => inner[part] as never, document as never) as Referred<T>,
        )
      : (node as T);
  const declared = declaredOperations(document, resolve);
  return tools.map((tool) => {
    const operations = listOperations(tool).map((id) => {
      const found = declared.get(id);
      if (!found) throw new Error(`${tool.name}: the document has no ${id}`);
      return { id, ...found };
    });
    const inputs = operations.map((operation) => findArguments(tool, operation, resolve));
    return {
      tool,
      operations: new Map(operations.map(({ id }, index) => [id, toolOperation(id, inputs[index] as Argument[])])),
      listed: {
        name: tool.name,
        title: tool.title,
        description: tool.description,
        inputSchema: inputSchema(tool, inputs),
        outputSchema: outputSchema(operations, resolve),
        annotations: annotations[tool.effect],
      },
    };
  });
}

type Resolve = <T extends object>(node: Referred<T>) => T;

function declaredOperations(document: OpenAPIV3_1.Document, resolve: Resolve): Map<string, Declared> {
  const found = new Map<string, Declared>();
  for (const [path, item] of Object.entries(document.paths ?? {})) {
    for (const method of ['get', 'post', 'put', 'patch', 'delete'] as const) {
      const operation = item?.[method] as Declared['operation'] | undefined;
      if (!operation?.operationId) continue;
      const parameters = [...(item?.parameters ?? []), ...(operation.parameters ?? [])].map((each) => resolve(each));
      const content = operation.requestBody && resolve(operation.requestBody).content['application/json'];
      const body = content?.schema && (resolve(content.schema) as Schema);
      found.set(operation.operationId, { path, operation, parameters, body });
    }
  }
  return found;
}

interface Argument {
  name: string;
  place: Place;
  required: boolean;
  schema: JsonSchema;
}

/** Returns the arguments of a tool that one of its operations takes. */
function findArguments(tool: Tool, { id, operation, parameters, body }: Declared & { id: string }, resolve: Resolve) {
  const fields = body && findNamedAlternative(body, resolve);
  return tool.takes.flatMap((name): Argument[] => {
    const of = (place: Place, required: boolean, schema: JsonSchema): Argument[] => [
      // An enum in the OpenAPI document is better than our own description.
      { name, place, required, schema: schema.enum ? schema : (ownArguments[name] ?? schema) },
    ];
    if (name === 'idempotency_key') {
      if (operation['x-idempotency'] === undefined) throw new Error(`${tool.name}: ${id} honours no Idempotency-Key`);
      return of(name, false, {});
    }
    if (name === tool.body) return of('whole_body', true, {});
    const parameter = parameters.find((each) => each.name === name && (each.in === 'path' || each.in === 'query'));
    if (parameter) {
      const { description = '', in: place, required = false } = parameter;
      const schema = shortenSchema(resolve(parameter.schema as Schema) as Schema, resolve, description);
      return of(place as Place, required, schema);
    }
    const field = fields?.properties?.[name] as Schema | undefined;
    if (field) {
      const schema = ownBodyFields.includes(name) ? (ownArguments[name] as JsonSchema) : shortenSchema(field, resolve);
      return [{ name, place: 'body', required: fields?.required?.includes(name) ?? false, schema }];
    }
    if (name === 'fields') return of('own', false, {});
    return [];
  });
}

/**
 * Returns the alternative that has named properties. Tool arguments are named, so a plain list
 * cannot be one.
 */
function findNamedAlternative(body: Schema, resolve: Resolve): Schema | undefined {
  if (body.properties) return body;
  return (body.anyOf ?? body.oneOf ?? []).map((each) => resolve(each) as Schema).find((each) => each.properties);
}

function toolOperation(id: OperationId, args: readonly Argument[]): ToolOperation {
  return {
    id,
    places: new Map(args.map(({ name, place }) => [name, place])),
    required: args.filter(({ required }) => required).map(({ name }) => name),
  };
}

function inputSchema(tool: Tool, inputs: readonly (readonly Argument[])[]): ObjectSchema {
  const { calls } = tool;
  const chooser = typeof calls === 'object' && 'by' in calls ? calls : undefined;
  const properties: Record<string, JsonSchema> = {};
  for (const name of tool.takes) {
    const found = inputs.flat().filter((each) => each.name === name);
    if (name === chooser?.by) properties[name] = { type: 'string', enum: Object.keys(chooser.of) };
    else if (found.length > 0) properties[name] = joinSchemas(found.map(({ schema }) => schema));
    else throw new Error(`${tool.name}: none of its operations takes ${name}`);
  }
  const required = tool.takes.filter(
    (name) =>
      name === chooser?.by ||
      inputs.every((input) => input.some((argument) => argument.name === name && argument.required)),
  );
  return { type: 'object', properties, ...(required.length > 0 ? { required } : {}), additionalProperties: false };
}

/** Joins the schemas that one argument has in several operations. */
function joinSchemas([first = {}, ...others]: readonly JsonSchema[]): JsonSchema {
  const values = [first, ...others].map((each) => each.enum as string[] | undefined);
  if (!values.every((each) => each !== undefined)) return first;
  return { ...first, enum: [...new Set(values.flat())] };
}

/**
 * Describes the top-level properties of a result. A model sees the deeper levels in the result
 * itself.
 */
function outputSchema(operations: readonly Declared[], resolve: Resolve): ObjectSchema {
  const properties: Record<string, JsonSchema> = {};
  for (const { operation } of operations) {
    const [, answer] = Object.entries(operation.responses ?? {}).find(([status]) => status.startsWith('2')) ?? [];
    const schema = answer && resolve(answer as OpenAPIV3_1.ResponseObject).content?.['application/json']?.schema;
    const data = schema && (resolve(schema) as Schema).properties?.data;
    const shown = (data && (resolve(data) as Schema).properties) ?? {};
    for (const [name, property] of Object.entries(shown)) {
      properties[name] = typeOnly(resolve(property as Referred<Schema>), resolve);
    }
  }
  return { type: 'object', properties: { ...properties, ...everyResult } };
}

/** Returns the type of a schema, or the types of its alternatives. */
function typeOnly({ type, anyOf, oneOf }: Schema, resolve: Resolve): JsonSchema {
  if (type !== undefined) return { type: type as string };
  const types = (anyOf ?? oneOf ?? []).flatMap((each) => (resolve(each) as Schema).type ?? []) as string[];
  return types.length === 0 ? {} : { type: [...new Set(types)] };
}

/** Resolves references and keeps only the keywords in `helpful`. */
function shortenSchema(given: Referred<Schema>, resolve: Resolve, described?: string): JsonSchema {
  const schema = resolve(given);
  const alternatives = (schema.anyOf ?? schema.oneOf)?.map((each) => shortenSchema(each as Schema, resolve));
  if (alternatives) {
    const first = alternatives.find(({ type }) => type !== 'null') ?? {};
    return { ...first, ...firstSentence(described ?? schema.description) };
  }
  const kept: JsonSchema = {};
  for (const keyword of keptKeywords) {
    const value = schema[keyword];
    if (value === undefined) continue;
    if (keyword === 'items') kept.items = shortenSchema(value as Schema, resolve);
    else if (keyword === 'properties') kept.properties = shortenProperties(value as Record<string, Schema>, resolve);
    else if (keyword === 'enum') kept.enum = (value as unknown[]).filter((each) => each !== null);
    else kept[keyword] = value;
  }
  return { ...kept, ...firstSentence(described ?? schema.description) };
}

function shortenProperties(properties: Record<string, Schema>, resolve: Resolve): Record<string, JsonSchema> {
  return Object.fromEntries(
    Object.entries(properties)
      .filter(([, schema]) => resolve(schema).readOnly !== true)
      .map(([name, schema]) => [name, shortenSchema(schema, resolve)]),
  );
}

/** Returns the first sentence without links, or nothing if it is too long. */
function firstSentence(text: string | undefined): { description?: string } {
  const [sentence = ''] = (text ?? '').replace(/\[([^\]]+)\]\([^)]*\)/g, '$1').split(/(?<=\.)\s|\n\n/);
  const flat = sentence.replace(/\s+/g, ' ').trim();
  return flat === '' || flat.length > maxDescriptionLength ? {} : { description: flat };
}
