// Generates the methods and types of the Go client: operations.go and types.go.
import {
  describeOperation,
  type Model,
  type Operation,
  type Structure,
  type Type,
  toCamelCase,
  toPascalCase,
} from './model.ts';

const keywords = new Set(
  'break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var c ctx body params options'.split(
    ' ',
  ),
);
const initialisms: Readonly<Record<string, string>> = { Id: 'ID', Ids: 'IDs', Url: 'URL', Ip: 'IP', Api: 'API' };

/** @returns files by path in sdk/go/ */
export function writeGo(model: Model): Map<string, string> {
  const operations = model.operations.flatMap((operation) => [
    ...(operation.queryParameters.length > 0 ? [writeParams(operation)] : []),
    writeMethod(operation),
    ...(operation.items ? [writeIterator(operation)] : []),
  ]);
  return new Map([
    ['operations.go', `${operationsHead(model)}\n${operations.join('\n')}`],
    ['types.go', `${typesHead}\n${[...model.structures.values()].map(writeType).join('\n\n')}\n`],
  ]);

  function typeName(type: Type): string {
    if (type.kind === 'any') return 'any';
    if (type.kind === 'list') return `[]${typeName(type.of)}`;
    if (type.kind === 'map') return `map[string]${typeName(type.of)}`;
    const names = { string: 'string', integer: 'int64', number: 'float64', boolean: 'bool' };
    const name = type.kind === 'structure' ? type.name : names[type.kind];
    return type.nullable && !isMap(type) ? `*${name}` : name;
  }

  /** Open structures are maps, so that every field of a record is accessible. */
  function isMap(type: Type): boolean {
    return type.kind === 'structure' && model.structures.get(type.name)?.isOpen === true;
  }

  function writeType({ name, description, properties, isOpen, isSent }: Structure): string {
    const about = comment([`${name} is a structure of the API.`, ...description.trim().split('\n')].filter(Boolean));
    if (isOpen) return `${about}\ntype ${name} map[string]any`;
    const fields = properties.map((property) => {
      const words = property.description.trim().split('\n').filter(Boolean);
      const values = property.type.kind === 'string' ? property.type.values : undefined;
      const all = [...words, ...(values ? [`One of: ${values.join(', ')}.`] : [])];
      const lines = all.length > 0 ? `${comment(all, '\t')}\n` : '';
      return `${lines}\t${exported(property.name)} ${fieldType(property.type, property.isRequired, isSent)} \`json:"${property.name}${property.isRequired ? '' : ',omitempty'}"\``;
    });
    return `${about}\ntype ${name} struct {\n${fields.join('\n')}\n}`;
  }

  function fieldType(type: Type, isRequired: boolean, isSent: boolean): string {
    if (isRequired) return typeName(type);
    if (isSent) return `Opt[${typeName({ ...type, nullable: false })}]`;
    const isPlain = ['string', 'integer', 'number', 'boolean', 'structure'].includes(type.kind);
    return typeName({ ...type, nullable: isPlain });
  }

  function writeParams({ id, queryParameters }: Operation): string {
    const fields = queryParameters.map(({ name, type, description }) => {
      const words = description.trim().split('\n').filter(Boolean);
      return `${words.length > 0 ? `${comment(words, '\t')}\n` : ''}\t${exported(name)} ${typeName({ ...type, nullable: false })}`;
    });
    const adding = queryParameters.map(({ name, type }) => {
      const field = `p.${exported(name)}`;
      if (type.kind === 'boolean') return `\tif ${field} {\n\t\tc.query.Set("${name}", "true")\n\t}`;
      if (type.kind === 'integer') return `\tif ${field} != 0 {\n\t\tc.query.Set("${name}", fmt.Sprint(${field}))\n\t}`;
      return `\tif ${field} != "" {\n\t\tc.query.Set("${name}", ${field})\n\t}`;
    });
    const params = paramsName(id);
    return `// ${params} are the query parameters of ${toPascalCase(id)}; zero values are not sent.
type ${params} struct {
${fields.join('\n')}
}

func (p *${params}) add(c *call) {
	if p == nil {
		return
	}
${adding.join('\n')}
}
`;
  }

  function declareParameters(operation: Operation): string[] {
    const { pathParameters, queryParameters, body } = operation;
    return [
      ...pathParameters.map(({ name }) => `${identifier(name)} string`),
      ...(queryParameters.length > 0 ? [`params *${paramsName(operation.id)}`] : []),
      ...(body?.kind === 'json' ? [`body ${bodyType(body.type, body.isRequired)}`] : []),
      ...(body?.kind === 'file' ? ['body File'] : []),
      'options ...Option',
    ];
  }

  function bodyType(type: Type, isRequired: boolean): string {
    return typeName({ ...type, nullable: !isRequired });
  }

  function writeMethod(operation: Operation): string {
    const { id, method, path, pathParameters, body, answer } = operation;
    const build = [
      `\tcall := c.newCall("${method}", "${path.replaceAll(/\{\w+\}/g, '{}')}")`,
      ...pathParameters.map(({ name }) => `\tcall.segment(${identifier(name)})`),
      ...(operation.queryParameters.length > 0 ? ['\tparams.add(call)'] : []),
      ...(body ? [`\tcall.${body.kind === 'json' ? 'json' : 'form'}(body)`] : []),
      ...(operation.takesKey ? ['\tcall.takesKey = true'] : []),
    ].join('\n');
    const type = answer === 'file' ? '[]byte' : `*${typeName({ ...answer, nullable: false })}`;
    const sent =
      answer === 'file'
        ? 'c.send(ctx, call, options)'
        : `receive[${typeName({ ...answer, nullable: false })}](ctx, c, call, options)`;
    const words = describeOperation(operation);
    return `${comment([`${toPascalCase(id)}: ${words[0] ?? ''}`, ...words.slice(1)])}
func (c *Client) ${toPascalCase(id)}(ctx context.Context, ${declareParameters(operation).join(', ')}) (${type}, error) {
${build}
	return ${sent}
}
`;
  }

  function writeIterator(operation: Operation): string {
    const { id, items, answer, isEndless, pathParameters, body } = operation;
    const name = toPascalCase(id);
    const page = answer === 'file' ? '[]byte' : typeName({ ...answer, nullable: false });
    const passed = [
      'ctx',
      ...pathParameters.map((parameter) => identifier(parameter.name)),
      '&next',
      ...(body ? ['body'] : []),
    ].join(', ');
    const copied = `	next := ${paramsName(id)}{}
	if params != nil {
		next = *params
	}`;
    if (isEndless)
      return `// ${name}Follow is like ${name}, page by page and without an end: it waits for what is new, and survives outages.
// Store NextCursor of each processed page, and pass it as Cursor to continue there.
func (c *Client) ${name}Follow(${declareParameters(operation).join(', ')}) *Iterator[*${page}] {
${copied}
	fetch := func(ctx context.Context, cursor string, wait int64, patient []Option) (*${page}, error) {
		next.Cursor, next.Wait = cursor, wait
		return c.${name}(${passed}, append(patient, options...)...)
	}
	return newFeed(next.Cursor, next.Wait, func(p *${page}) string { return p.NextCursor }, fetch)
}
`;
    const hasLimit = operation.queryParameters.some((parameter) => parameter.name === 'limit');
    const item = typeName(items?.type ?? { kind: 'any', nullable: false });
    const limit = '\tif next.Limit == 0 {\n\t\tnext.Limit = 100\n\t}\n';
    return `// ${name}All is like ${name}, item by item over all pages.
func (c *Client) ${name}All(${declareParameters(operation).join(', ')}) *Iterator[${item}] {
${copied}
${hasLimit ? limit : ''}	fetch := func(ctx context.Context, cursor string) (page[${item}], error) {
		next.Cursor = cursor
		found, err := c.${name}(${passed}, options...)
		if err != nil {
			return page[${item}]{}, err
		}
		after := ""
		if found.NextCursor != nil {
			after = *found.NextCursor
		}
		return page[${item}]{items: found.${exported(items?.name ?? '')}, cursor: after}, nil
	}
	return &Iterator[${item}]{fetch: fetch}
}
`;
  }
}

const paramsName = (id: string): string => `${toPascalCase(id)}Params`;

/** Returns the name of a field: `record_id` → `RecordID`. */
function exported(name: string): string {
  const words = name.split('_').map((word) => toPascalCase(word));
  return words.map((word) => initialisms[word] ?? word).join('');
}

function identifier(name: string): string {
  const local = toCamelCase(name);
  return keywords.has(local) ? `${local}_` : local;
}

function comment(lines: readonly string[], indent = ''): string {
  return lines.map((line) => `${indent}// ${line}`.trimEnd()).join('\n');
}

const typesHead = `// What operations take and answer. Code generated by sdk/generators/go.ts. DO NOT EDIT.

package headlesscrm
`;

const operationsHead = ({
  version,
}: Model): string => `// Every operation of the OpenAPI document. Code generated by sdk/generators/go.ts. DO NOT EDIT.

package headlesscrm

import (
	"context"
	"fmt"
)

const userAgent = "headless-crm-go/${version}"
`;
