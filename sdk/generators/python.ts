// Generates the Python client's methods and types: headless_crm/client.py, headless_crm/types.py.
import { describeOperation, type Model, type Operation, type Structure, type Type, toSnakeCase } from './model.ts';

const keywords = new Set(
  'False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield self body options'.split(
    ' ',
  ),
);

/** @returns files by path in sdk/python/ */
export function writePython(model: Model): Map<string, string> {
  const methods = model.operations.flatMap((operation) => [
    writeMethod(operation),
    ...(operation.items ? [writeIterator(operation)] : []),
  ]);
  const closed = [...model.structures.values()].filter(({ isOpen }) => !isOpen);
  return new Map([
    ['headless_crm/client.py', `${clientHead(model)}\n${methods.join('\n')}`],
    ['headless_crm/types.py', `${typesHead}\n${closed.map((structure) => writeType(model, structure)).join('\n\n')}`],
  ]);

  /** Open structures are dicts, so that every field of a record is accessible. */
  function typeName(type: Type, prefix = ''): string {
    const name = ((): string => {
      if (type.kind === 'string')
        return type.values ? `Literal[${type.values.map((each) => JSON.stringify(each)).join(', ')}]` : 'str';
      if (type.kind === 'integer') return 'int';
      if (type.kind === 'number') return 'float';
      if (type.kind === 'boolean') return 'bool';
      if (type.kind === 'list') return `list[${typeName(type.of, prefix)}]`;
      if (type.kind === 'map') return `dict[str, ${typeName(type.of, prefix)}]`;
      if (type.kind === 'structure' && !model.structures.get(type.name)?.isOpen) return `${prefix}${type.name}`;
      return type.kind === 'structure' ? 'dict[str, Any]' : 'Any';
    })();
    return type.nullable && name !== 'Any' ? `${name} | None` : name;
  }

  function writeType(_model: Model, { name, description, properties }: Structure): string {
    const fields = properties.map((property) => {
      const type = typeName(property.type);
      const declared = `"${property.name}": ${property.isRequired ? `"${type.replaceAll('"', "'")}"` : `NotRequired["${type.replaceAll('"', "'")}"]`}`;
      const words = property.description.trim().split('\n').filter(Boolean);
      return [...words.map((line) => `        # ${line}`), `        ${declared},`].join('\n');
    });
    const words = description
      .trim()
      .split('\n')
      .filter(Boolean)
      .map((line) => `# ${line}\n`);
    return `${words.join('')}${name} = TypedDict(\n    "${name}",\n    {\n${fields.join('\n')}\n    },\n)`;
  }

  /** Returns the parameters of a method, as declared and as passed on by name. */
  function listParameters(operation: Operation, left: readonly string[] = []) {
    const { pathParameters, queryParameters, body } = operation;
    const query = queryParameters.filter(({ name }) => !left.includes(name));
    const required = query.filter(({ isRequired }) => isRequired);
    const optional = query.filter(({ isRequired }) => !isRequired);
    const declared = [
      ...pathParameters.map(
        ({ name, type }) => `${identifier(name)}: ${typeName({ ...type, nullable: false }, 'types.')}`,
      ),
      ...(body?.kind === 'json'
        ? [`body: ${typeName(body.type, 'types.')}${body.isRequired ? '' : ' | None = None'}`]
        : []),
      ...(body?.kind === 'file' ? ['file_name: str', 'content: bytes'] : []),
      '*',
      ...(body?.kind === 'file' ? ['content_type: str = "application/octet-stream"'] : []),
      ...required.map(({ name, type }) => `${identifier(name)}: ${typeName(type)}`),
      ...optional.map(({ name, type }) => `${identifier(name)}: ${typeName({ ...type, nullable: true })} = None`),
      ...(operation.takesIfMatch ? ['if_match: str | None = None'] : []),
      ...(operation.takesKey ? ['idempotency_key: str | None = None'] : []),
      '**options: Unpack[CallOptions]',
    ];
    return { declared: declared.join(', ').replace('*, **', '**'), query };
  }

  function writeMethod(operation: Operation): string {
    const { method, path, body, answer } = operation;
    const { declared, query } = listParameters(operation);
    const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => `{segment(${identifier(name)})}`);
    const facts = [
      `"${method}"`,
      filled === path ? `"${path}"` : `f"${filled}"`,
      'options',
      ...(query.length > 0 ? [`query={${query.map(({ name }) => `"${name}": ${identifier(name)}`).join(', ')}}`] : []),
      ...(body?.kind === 'json' ? ['json=body'] : []),
      ...(body?.kind === 'file' ? ['file=(file_name, content, content_type)'] : []),
      ...(operation.takesKey ? ['takes_key=True', 'idempotency_key=idempotency_key'] : []),
      ...(operation.takesIfMatch ? ['if_match=if_match'] : []),
      ...(answer === 'file' ? ['is_file=True'] : []),
    ];
    const type = answer === 'file' ? 'bytes' : typeName(answer, 'types.');
    return `    def ${toSnakeCase(operation.id)}(self, ${declared}) -> ${type}:
        """${docstring(operation)}
        """
        return self._transport.call(${facts.join(', ')})
`;
  }

  /** Writes an iterator over the items of a list, or over the pages of an endless one. */
  function writeIterator(operation: Operation): string {
    const { id, items, isEndless, answer } = operation;
    const left = isEndless ? [] : ['cursor', 'offset'];
    const { declared, query } = listParameters(operation, left);
    const name = toSnakeCase(id);
    const passed = [
      ...operation.pathParameters.map((parameter) => identifier(parameter.name)),
      ...(operation.body ? ['body'] : []),
      ...query
        .filter((parameter) => !(isEndless && ['cursor', 'wait'].includes(parameter.name)))
        .map((parameter) => `${identifier(parameter.name)}=${passedValue(parameter.name)}`),
    ].join(', ');
    const page = answer === 'file' ? 'bytes' : typeName(answer, 'types.');
    if (isEndless)
      return `    def ${name}_follow(self, ${declared}) -> Iterator[${page}]:
        """Like ${name}, page by page and without an end: waits for what is new, and survives outages.

        Store \`next_cursor\` of each page that you have processed, and pass it as \`cursor\` to go on from there.
        """
        return follow(
            cursor,
            wait,
            lambda cursor, wait: self.${name}(${passed}, cursor=cursor, wait=wait, **feed_options(options, wait)),
        )
`;
    return `    def ${name}_all(self, ${declared}) -> Iterator[${typeName(items?.type ?? { kind: 'any', nullable: false }, 'types.')}]:
        """Like ${name}, item by item over all pages."""
        return items("${items?.name}", lambda cursor: self.${name}(${passed ? `${passed}, ` : ''}cursor=cursor, **options))
`;
  }
}

/** Pages have the maximum size by default. */
function passedValue(name: string): string {
  return name === 'limit' ? '100 if limit is None else limit' : identifier(name);
}

function identifier(name: string): string {
  return keywords.has(name) ? `${name}_` : name;
}

function docstring(operation: Operation): string {
  return describeOperation(operation)
    .map((line) => line.replaceAll('\\', '\\\\').replaceAll('"""', '\\"\\"\\"'))
    .join('\n        ')
    .replaceAll(/^ +$/gm, '');
}

const typesHead = `# What operations take and answer. Generated by sdk/generators/python.ts, never edited.
from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict
`;

const clientHead = ({
  version,
}: Model): string => `# Every operation of the OpenAPI document. Generated by sdk/generators/python.ts, never edited.
from __future__ import annotations

from typing import Any, Iterator, Literal, Unpack

from . import types
from ._transport import CallOptions, Credential, Transport, feed_options, follow, items, segment


class Client:
    """A client of the API. Methods have the names of operations and return the \`data\` of the envelope."""

    def __init__(
        self,
        base_url: str,
        *,
        api_key: Credential | None = None,
        token: Credential | None = None,
        timeout: float = 30.0,
        retries: int = 3,
        longest_wait: float = 60.0,
    ) -> None:
        """
        base_url: the address of the API, without /v1.
        api_key: an API key, \`svc_live_…\` or \`svc_test_…\`.
        token: an OAuth access token or a session token. Counts only without an API key.
        timeout: seconds for each attempt.
        retries: retries after a failed attempt.
        longest_wait: seconds; a failure with a longer Retry-After is raised immediately.
        """
        self._transport = Transport(
            base_url,
            api_key=api_key,
            token=token,
            timeout=timeout,
            retries=retries,
            longest_wait=longest_wait,
            user_agent="headless-crm-python/${version}",
        )

    def close(self) -> None:
        """Closes the connections."""
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
`;
