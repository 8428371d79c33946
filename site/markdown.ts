// The pages as Markdown, for language models and other programs, and the list of them in llms.txt.
import { type Contents, type Declared, type Group, type Guide, listAnchors, type Operation } from './contents.ts';
import { describeTag, summarizeGroup } from './pages.ts';
import type { Json } from './redoc.ts';

interface Schema {
  $ref?: string;
  type?: string | string[];
  format?: string;
  description?: string;
  enum?: unknown[];
  const?: unknown;
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  allOf?: Schema[];
  oneOf?: Schema[];
  anyOf?: Schema[];
  default?: unknown;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  maxItems?: number;
}

interface Parameter {
  name: string;
  in: string;
  required?: boolean;
  description?: string;
  schema?: Schema;
}

interface Payload {
  description?: string;
  required?: boolean;
  content?: Record<string, { schema?: Schema; example?: unknown; examples?: Record<string, { value?: unknown }> }>;
}

export function buildLlmsText(contents: Contents, json: Json): string {
  const guides = contents.guides.map(
    ({ path, title, summary }) => `- [${title}](${path}.md)${summary && `: ${summary}`}`,
  );
  const groups = contents.groups.map((group) => `- [${group.title}](${group.path}.md): ${summarizeGroup(group)}`);
  return `# ${contents.title}

> ${json.info.summary ?? ''} ${contents.introduction.replaceAll('\n', ' ')}

## Guides

${guides.join('\n')}

## API reference

${groups.join('\n')}

## Optional

- [OpenAPI document](/v1/openapi.json): the API in full
- [Start page](/docs.md): the list of these pages
`;
}

export function startMarkdown(contents: Contents): string {
  const guides = contents.guides.map(
    ({ path, title, summary }) => `- [${title}](${path}.md)${summary && `: ${summary}`}`,
  );
  const groups = contents.groups.map((group) => `- [${group.title}](${group.path}.md): ${summarizeGroup(group)}`);
  const parts = [`# ${contents.title}`, contents.introduction, '## Guides', guides.join('\n'), '## API reference'];
  return `${[...parts, groups.join('\n')].join('\n\n')}\n`;
}

export function buildGuideMarkdown(contents: Contents, { title, summary, sections, path }: Guide, json: Json): string {
  const parts = sections.map(({ heading, text }) => (sections.length > 1 ? `## ${heading}\n\n${text}` : text));
  const text = [`# ${title}`, summary, ...parts].filter(Boolean).join('\n\n');
  return `${withLinks(text.replace(/<!-- ReDoc-Inject: .*? -->/, credentials(json)), contents, path)}\n`;
}

/** Returns the list that Redoc inserts at the same place. */
function credentials(json: Json): string {
  const schemes = Object.entries((json.components?.securitySchemes ?? {}) as Record<string, { description?: string }>);
  return schemes.map(([name, { description = '' }]) => `- \`${name}\`: ${indent(description)}`).join('\n');
}

export function buildGroupMarkdown(contents: Contents, group: Group, json: Json): string {
  const tags = group.tags.flatMap((tag) => [
    `## ${tag.name}`,
    describeTag(tag).replaceAll(/(\]\(\/docs\/guides\/[\w-]+)\)/g, '$1.md)'),
    ...tag.operations.map((operation) => operationMarkdown(operation, json)),
  ]);
  return `${withLinks([`# ${group.title}`, ...tags].filter(Boolean).join('\n\n'), contents, group.path)}\n`;
}

/** Leads links to anchors of the OpenAPI document to Markdown pages. */
function withLinks(text: string, contents: Contents, path: string): string {
  const anchors = listAnchors(contents);
  return text.replaceAll(/\]\(#([^)]+)\)/g, (whole, anchor) => {
    const [page, target] = (anchors.get(anchor) ?? '').split('#');
    return page ? `](${page === path ? '' : `${page}.md`}#${target})` : whole;
  });
}

function operationMarkdown({ id, method, path, declared }: Operation, json: Json): string {
  const parameters = listParameters(json, path, declared);
  const body = resolve<Payload>(json, declared.requestBody);
  const form = body?.content && Object.entries(body.content)[0];
  const responses = Object.entries(declared.responses ?? {}).map(
    ([status, response]) => [status, resolve<Payload>(json, response)] as const,
  );
  const success = responses.find(([status]) => status.startsWith('2'));
  const example = success && firstExample(success[1]);
  const samples = (declared['x-codeSamples'] ?? []).map(
    ({ lang, source }) => `\`\`\`${lang === 'Shell' ? 'sh' : 'ts'}\n${source}\n\`\`\``,
  );
  const fields = form?.[1].schema ? listFields(json, form[1].schema) : [];
  return [
    `### ${declared.summary ?? id}`,
    `\`${method.toUpperCase()} ${path}\` (\`${id}\`)`,
    declared.description?.trim(),
    parameters.length > 0 && `**Parameters**\n\n${parameters.map(parameterLine).join('\n')}`,
    fields.length > 0 && `**Body** (${form?.[0]})\n\n${fields.join('\n')}`,
    `**Responses**: ${responses.map(([status]) => status).join(', ')}`,
    samples.length > 0 && `**Samples**\n\n${samples.join('\n\n')}`,
    example !== undefined && `**Response ${success?.[0]}**\n\n\`\`\`json\n${JSON.stringify(example, null, 2)}\n\`\`\``,
  ]
    .filter(Boolean)
    .join('\n\n');
}

function listParameters(json: Json, path: string, declared: Declared): Parameter[] {
  const shared = (json.paths?.[path] as { parameters?: object[] } | undefined)?.parameters ?? [];
  return [...shared, ...(declared.parameters ?? [])].map((each) => resolve<Parameter>(json, each) as Parameter);
}

function parameterLine({ name, in: place, required, description = '', schema = {} }: Parameter): string {
  return `- \`${name}\` (${place}, ${schema.type ?? 'string'}${required ? ', required' : ''}): ${indent(description)}`;
}

/** Returns a line for each field, those of inner objects below theirs, three levels deep. */
function listFields(json: Json, given: Schema, depth = 0): string[] {
  const schema = flatten(json, given);
  return Object.entries(schema.properties ?? {}).flatMap(([name, value]) => {
    const field = flatten(json, value);
    const isRequired = schema.required?.includes(name);
    const line = `${'  '.repeat(depth)}- \`${name}\` (${typeName(json, field)}${isRequired ? ', required' : ''})`;
    const text = value.description ?? field.description;
    const inner = field.items ? flatten(json, field.items) : field;
    return [
      text ? `${line}: ${indent(text, depth + 1)}` : line,
      ...(depth < 2 && inner.properties ? listFields(json, inner, depth + 1) : []),
    ];
  });
}

function typeName(json: Json, schema: Schema): string {
  const { type, format, items, enum: values } = schema;
  if (values) return values.map((value) => JSON.stringify(value)).join(', ');
  if (items) return `array of ${typeName(json, flatten(json, items))}`;
  return [[type].flat().filter(Boolean).join(' or ') || 'any', format && `(${format})`].filter(Boolean).join(' ');
}

/** Resolves a reference, and merges what applies at the same time. */
function flatten(json: Json, given: Schema): Schema {
  const schema = resolve<Schema>(json, given) ?? {};
  if (!schema.allOf) return schema;
  const parts = schema.allOf.map((part) => flatten(json, part));
  return Object.assign({}, schema, ...parts, {
    properties: Object.assign({}, ...parts.map(({ properties }) => properties)),
    required: parts.flatMap(({ required = [] }) => required),
  });
}

function resolve<Found>(json: Json, given: object | undefined): Found | undefined {
  const reference = (given as { $ref?: string } | undefined)?.$ref;
  if (reference === undefined) return given as Found | undefined;
  const found = reference
    .slice(2)
    .split('/')
    .reduce<unknown>(
      (at, part) => (at as Record<string, unknown> | undefined)?.[part.replaceAll('~1', '/').replaceAll('~0', '~')],
      json,
    );
  return resolve<Found>(json, found as object | undefined);
}

function firstExample(response: Payload | undefined): unknown {
  const [media] = Object.values(response?.content ?? {});
  return media?.example ?? Object.values(media?.examples ?? {})[0]?.value;
}

const indent = (text: string, depth = 1): string => text.trim().replaceAll('\n', `\n${'  '.repeat(depth)}`);
