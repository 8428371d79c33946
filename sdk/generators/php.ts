// Generates the methods of the PHP client, src/Client.php, with array shapes for PHPStan.
import { describeOperation, type Model, type Operation, type Structure, type Type, toCamelCase } from './model.ts';

/** @returns files by path in sdk/php/ */
export function writePhp(model: Model): Map<string, string> {
  const methods = model.operations.flatMap((operation) => [
    writeMethod(operation),
    ...(operation.items ? [writeIterator(operation)] : []),
  ]);
  const shapes = [...model.structures.values()].filter((structure) => !isCyclic(structure)).map(shape);
  return new Map([['src/Client.php', `${clientHead(model, shapes)}\n${methods.join('\n')}}\n`]]);

  /** PHPStan does not support recursive shapes. */
  function isCyclic({ name, properties }: Structure, seen: readonly string[] = []): boolean {
    if (seen.includes(name)) return true;
    return properties.some(({ type }) => {
      const inner = type.kind === 'list' || type.kind === 'map' ? type.of : type;
      const structure = inner.kind === 'structure' ? model.structures.get(inner.name) : undefined;
      return structure !== undefined && isCyclic(structure, [...seen, name]);
    });
  }

  function shape(structure: Structure): string {
    if (structure.isOpen) return ` * @phpstan-type ${structure.name} array<string, mixed>`;
    const fields = structure.properties.map(
      ({ name, type, isRequired }) => `${name}${isRequired ? '' : '?'}: ${shapeName(type)}`,
    );
    return ` * @phpstan-type ${structure.name} array{${fields.join(', ')}}`;
  }

  function shapeName(type: Type): string {
    const name = ((): string => {
      if (type.kind === 'list') return `list<${shapeName(type.of)}>`;
      if (type.kind === 'map') return `array<string, ${shapeName(type.of)}>`;
      if (type.kind === 'structure') {
        const structure = model.structures.get(type.name);
        return structure && !isCyclic(structure) ? type.name : 'array<string, mixed>';
      }
      if (type.kind === 'string' && type.values) return type.values.map((value) => `'${value}'`).join('|');
      return { string: 'string', integer: 'int', number: 'float', boolean: 'bool', any: 'mixed' }[type.kind];
    })();
    return type.nullable && name !== 'mixed' ? `${name}|null` : name;
  }

  function nativeName(type: Type): string {
    if (type.kind === 'any') return 'mixed';
    const name = {
      string: 'string',
      integer: 'int',
      number: 'float',
      boolean: 'bool',
      list: 'array',
      map: 'array',
      structure: 'array',
    }[type.kind];
    return type.nullable ? `?${name}` : name;
  }

  function declare(operation: Operation, left: readonly string[]) {
    const { pathParameters, queryParameters, body } = operation;
    const query = queryParameters.filter(({ name }) => !left.includes(name));
    const optional = (type: Type): string => nativeName({ ...type, nullable: true });
    const declared = [
      ...pathParameters.map(({ name }) => `string $${toCamelCase(name)}`),
      ...query
        .filter(({ isRequired }) => isRequired)
        .map(({ name, type }) => `${nativeName(type)} $${toCamelCase(name)}`),
      ...(body?.kind === 'json' ? [body.isRequired ? 'array $body' : '?array $body = null'] : []),
      ...(body?.kind === 'file'
        ? ['string $fileName', 'string $content', "string $contentType = 'application/octet-stream'"]
        : []),
      ...query
        .filter(({ isRequired }) => !isRequired)
        .map(({ name, type }) => `${optional(type)} $${toCamelCase(name)} = null`),
      ...(operation.takesIfMatch ? ['?string $ifMatch = null'] : []),
      ...(operation.takesKey ? ['?string $idempotencyKey = null'] : []),
      '?CallOptions $options = null',
    ];
    return { declared: declared.join(', '), query };
  }

  function annotate(operation: Operation, words: readonly string[], answer: string): string {
    const { body } = operation;
    const parameter =
      body?.kind === 'json' ? [`@param ${shapeName({ ...body.type, nullable: !body.isRequired })} $body`] : [];
    const lines = [...words, '', ...parameter, `@return ${answer}`];
    return ['/**', ...lines.map((line) => ` * ${line.replaceAll('*/', '* /')}`.trimEnd()), ' */']
      .map((line) => `    ${line}`)
      .join('\n');
  }

  function writeMethod(operation: Operation): string {
    const { id, method, path, pathParameters, body, answer, takesKey, takesIfMatch } = operation;
    const { declared, query } = declare(operation, []);
    const facts = [
      `'${method}'`,
      `'${path}'`,
      ...(pathParameters.length > 0
        ? [`segments: [${pathParameters.map(({ name }) => `$${toCamelCase(name)}`).join(', ')}]`]
        : []),
      ...(query.length > 0
        ? [`query: [${query.map(({ name }) => `'${name}' => $${toCamelCase(name)}`).join(', ')}]`]
        : []),
      ...(body?.kind === 'json' ? ['json: $body'] : []),
      ...(body?.kind === 'file'
        ? ["file: ['name' => $fileName, 'contentType' => $contentType, 'content' => $content]"]
        : []),
      ...(takesKey ? ['takesKey: true', 'idempotencyKey: $idempotencyKey'] : []),
      ...(takesIfMatch ? ['ifMatch: $ifMatch'] : []),
      ...(answer === 'file' ? ['isFile: true'] : []),
      'options: $options',
    ];
    const type = answer === 'file' ? 'string' : nativeName(answer);
    return `${annotate(operation, describeOperation(operation), answer === 'file' ? 'string' : shapeName(answer))}
    public function ${toCamelCase(id)}(${declared}): ${type}
    {
        return $this->transport->call(${facts.join(', ')});
    }
`;
  }

  function writeIterator(operation: Operation): string {
    const { id, items, answer, isEndless, pathParameters, body } = operation;
    const name = toCamelCase(id);
    const { declared, query } = declare(operation, isEndless ? [] : ['cursor', 'offset']);
    const passed = [
      ...pathParameters.map((parameter) => `$${toCamelCase(parameter.name)}`),
      ...(body ? ['body: $body'] : []),
      ...query
        .filter((parameter) => !(isEndless && ['cursor', 'wait'].includes(parameter.name)))
        .map(
          (parameter) =>
            `${toCamelCase(parameter.name)}: $${toCamelCase(parameter.name)}${parameter.name === 'limit' && !isEndless ? ' ?? 100' : ''}`,
        ),
      'cursor: $cursor',
    ].join(', ');
    if (isEndless) {
      const words = [
        `Like ${name}, page by page and without an end: waits for what is new, and survives outages.`,
        'Store `next_cursor` of each page that you have processed, and pass it as `cursor` to go on from there.',
      ];
      const page = answer === 'file' ? 'string' : shapeName(answer);
      return `${annotate(operation, words, `\\Generator<int, ${page}>`)}
    public function ${name}Follow(${declared}): \\Generator
    {
        $fetch = fn (?string $cursor, int $wait, CallOptions $patient): array => $this->${name}(${passed}, wait: $wait, options: $patient);
        return Transport::follow($cursor, $wait, $options, $fetch);
    }
`;
    }
    const item = shapeName(items?.type ?? { kind: 'any', nullable: false });
    return `${annotate(operation, [`Like ${name}, item by item over all pages.`], `\\Generator<int, ${item}>`)}
    public function ${name}All(${declared}): \\Generator
    {
        return Transport::items('${items?.name}', fn (?string $cursor): array => $this->${name}(${passed}, options: $options));
    }
`;
  }
}

const clientHead = ({ version }: Model, shapes: readonly string[]): string => `<?php

// Every operation of the OpenAPI document. Generated by sdk/generators/php.ts, never edited.

declare(strict_types=1);

namespace HeadlessCrm;

/**
 * A client of the API. Methods have the names of operations and return the \`data\` of the envelope, as arrays.
 *
${shapes.join('\n')}
 */
final class Client
{
    private readonly Transport $transport;

    /**
     * @param string $baseUrl the address of the API, without /v1
     * @param string|(\\Closure(): string)|null $apiKey \`svc_live_…\` or \`svc_test_…\`; a function is called before each attempt
     * @param string|(\\Closure(): string)|null $token an OAuth access token or a session token; ignored if an API key is set
     * @param float $timeout seconds for each attempt
     * @param int $retries retries after a failed attempt
     * @param float $longestWait seconds; a failure with a longer Retry-After is thrown immediately
     */
    public function __construct(
        string $baseUrl,
        string|\\Closure|null $apiKey = null,
        string|\\Closure|null $token = null,
        float $timeout = 30.0,
        int $retries = 3,
        float $longestWait = 60.0,
    ) {
        $defaults = new CallOptions(timeout: $timeout, retries: $retries, longestWait: $longestWait);
        $this->transport = new Transport(rtrim($baseUrl, '/'), $apiKey, $token, $defaults, 'headless-crm-php/${version}');
    }
`;
